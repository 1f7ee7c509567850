/* How the program ends early: a failure, --limit, a signal. */
#include "harness.h"

#include <sys/types.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *program = "workload";
static char limit_text[96];
static const pid_t *children;
static int child_count;

void guard_name(const char *name)
{
    program = name;
}

/* Worker processes to be ended with this one, or NULL. */
void guard_children(const void *pids, int count)
{
    child_count = 0;
    children = pids;
    child_count = count;
}

/*
 * In a worker process: its siblings are not its own to end, and its controller, whose
 * limit comes first, speaks for it. The own limit is for a controller that was killed.
 */
void guard_in_child(unsigned long limit_s)
{
    guard_children(NULL, 0);
    limit_text[0] = '\0';
    if (limit_s != 0)
        alarm((unsigned)limit_s + 2);
}

static void end_children(void)
{
    int i;

    for (i = 0; i < child_count; i++)
        if (children[i] > 0)
            kill(children[i], SIGKILL);
}

void fail(int status, const char *format, ...)
{
    static int failing;
    char text[512];
    va_list arguments;
    int length;

    while (!ATOMIC_CLAIM(&failing))
        pause(); /* another thread is already ending the program */
    length = snprintf(text, sizeof text, "%s: ", program);
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s\n", text);
    fflush(stderr);
    end_children();
    _exit(status);
}

void fail_call(const char *call)
{
    fail(STATUS_SYSCALL, "%s: %s", call, strerror(errno));
}

static void on_alarm(int number)
{
    (void)number;
    if (write(STDERR_FILENO, limit_text, strlen(limit_text)) < 0)
        (void)0; /* nobody is listening; the status tells */
    end_children();
    _exit(STATUS_LIMIT);
}

static void on_stop(int number)
{
    (void)number;
    end_children();
    _exit(STATUS_STOPPED);
}

static void on_signal(int number, void (*handler)(int))
{
    struct sigaction old, action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigfillset(&action.sa_mask);
    if (sigaction(number, NULL, &old) != 0)
        fail_call("sigaction");
    if (old.sa_handler == SIG_IGN && number != SIGALRM)
        return; /* nohup */
    if (sigaction(number, &action, NULL) != 0)
        fail_call("sigaction");
}

void guard_signals(unsigned long limit_s)
{
    on_signal(SIGTERM, on_stop);
    on_signal(SIGHUP, on_stop);
    if (limit_s == 0)
        return;
    snprintf(limit_text, sizeof limit_text, "%s: the limit of %lu s is reached\n", program,
             limit_s);
    on_signal(SIGALRM, on_alarm);
    alarm((unsigned)limit_s);
}
