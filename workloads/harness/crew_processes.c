/*
 * Workers that are processes. They wait in read(2) of a pipe, because the mutexes and
 * condition variables of the older systems do not work across processes.
 *
 * There are two such pipes, used in turn: a worker that is done early then waits on the
 * other one and cannot take the byte of a worker that has not yet begun.
 */
#include "crew.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { READ_END, WRITE_END };

static int go[2][2];   /* a byte for each worker: one more batch; end of file: go home */
static int news[2];    /* 'd' from a worker that is done, 'x' when one has died */
static pid_t children[MAX_THREADS];
static unsigned releases;

static void on_child(int number)
{
    int saved = errno;

    (void)number;
    if (write(news[WRITE_END], "x", 1) < 0)
        _exit(STATUS_UNTRUSTED); /* cannot be: the pipe is this process's own */
    errno = saved;
}

static void say_done(void)
{
    if (write(news[WRITE_END], "d", 1) != 1)
        _exit(STATUS_STOPPED); /* the controller is gone */
}

static void process_main(struct worker *worker)
{
    struct run *run = worker->run;
    unsigned turn;
    char byte;

    signal(SIGCHLD, SIG_DFL);
    guard_in_child(run->options.limit_s);
    close(news[READ_END]);
    close(go[0][WRITE_END]);
    close(go[1][WRITE_END]);
    if (run->workload->enter != NULL)
        run->workload->enter(worker);
    say_done();
    for (turn = 0;; turn++) {
        struct usage begin;
        ssize_t n;

        do
            n = read(go[turn % 2][READ_END], &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            fail_call("read of the start pipe");
        if (n == 0)
            break;
        begin = usage_now();
        run->workload->work(worker);
        worker->end_ns = now_ns();
        worker->usage = usage_between(begin, usage_now());
        say_done();
    }
    if (run->workload->leave != NULL)
        run->workload->leave(worker);
    _exit(STATUS_DONE);
}

static void start(struct run *run)
{
    struct sigaction action;
    int i;

    if (pipe(go[0]) != 0 || pipe(go[1]) != 0 || pipe(news) != 0)
        fail_call("pipe");
    memset(&action, 0, sizeof action);
    action.sa_handler = on_child;
    action.sa_flags = SA_NOCLDSTOP;
    if (sigaction(SIGCHLD, &action, NULL) != 0)
        fail_call("sigaction");
    guard_children(children, run->options.threads);
    for (i = 0; i < run->options.threads; i++) {
        pid_t pid = fork();

        if (pid < 0)
            fail(STATUS_SYSCALL, "fork of process %d of %d: %s", i + 1, run->options.threads,
                 strerror(errno));
        if (pid == 0)
            process_main(&run->workers[i]);
        children[i] = pid;
    }
}

static void release(struct run *run)
{
    static const char bytes[MAX_THREADS];
    ssize_t count = run->options.threads;

    if (write(go[releases++ % 2][WRITE_END], bytes, (size_t)count) != count)
        fail_call("write to the start pipe");
}

/* A worker has died: say why, with its own status if it has failed by itself. */
static void bury(struct run *run)
{
    int i, status;

    for (i = 0; i < run->options.threads; i++) {
        if (waitpid(children[i], &status, WNOHANG) != children[i])
            continue;
        children[i] = 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            fail(WEXITSTATUS(status), "worker process %d has failed", i);
        if (WIFSIGNALED(status))
            fail(STATUS_UNTRUSTED, "worker process %d was killed by signal %d", i,
                 WTERMSIG(status));
        fail(STATUS_UNTRUSTED, "worker process %d ended before its time", i);
    }
}

static void await(struct run *run, enum milestone milestone, void (*nudge)(struct run *))
{
    struct watch watch = watch_begin(run);
    struct pollfd news_fd;
    int done = 0, i;

    (void)milestone; /* only CREW_PARKED: there are no token workloads of processes */
    (void)nudge;
    news_fd.fd = news[READ_END];
    news_fd.events = POLLIN;
    while (done < run->options.threads) {
        char bytes[64];
        ssize_t n, b;
        int events = poll(&news_fd, 1, 1000);

        if (events < 0 && errno != EINTR)
            fail_call("poll");
        if (events == 0)
            watch_check(run, &watch);
        if (events <= 0)
            continue;
        n = read(news[READ_END], bytes, sizeof bytes);
        if (n <= 0 && errno != EINTR)
            fail_call("read of the news pipe");
        for (b = 0; b < n; b++) {
            done += bytes[b] == 'd';
            if (bytes[b] == 'x')
                bury(run);
        }
    }
    run->usage_end = usage_now();
    for (i = 0; i < run->options.threads; i++)
        run->usage_end = usage_sum(run->usage_end, run->workers[i].usage);
}

static void dismiss(struct run *run)
{
    int i, status;

    signal(SIGCHLD, SIG_DFL);
    close(go[0][WRITE_END]);
    close(go[1][WRITE_END]);
    for (i = 0; i < run->options.threads; i++) {
        pid_t pid;

        do
            pid = waitpid(children[i], &status, 0);
        while (pid < 0 && errno == EINTR);
        if (pid < 0)
            fail_call("waitpid");
        children[i] = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail(STATUS_UNTRUSTED, "worker process %d did not end well", i);
    }
    guard_children(NULL, 0);
}

const struct crew process_crew = {start, release, await, dismiss};
