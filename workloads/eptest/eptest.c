/*
 * eptest: several threads wait in epoll for one message that goes to and fro.
 *
 * The counterpart of kqtest; harness/token.h says what the message is and how a lost or
 * doubled one is found. A descriptor is always armed again before the message leaves, so
 * that every message finds the other end armed; what each way of rearming does is below.
 */
#include "token.h"

enum { REARM };
enum { ONESHOT, EDGE, LEVEL, EXCLUSIVE };

static const char *const rearm_values[] = {"oneshot", "edge", "level", "exclusive", NULL};

#ifdef __linux__

#include <sys/epoll.h>
#include <errno.h>
#include <unistd.h>

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28) /* older headers; whether the kernel has it is probed */
#endif

static int queue = -1; /* all threads wait here, unless each has a queue of its own */

static uint32_t interest(long rearm)
{
    switch (rearm) {
    case ONESHOT: return EPOLLIN | EPOLLONESHOT;
    case EDGE: return EPOLLIN | EPOLLET;
    case EXCLUSIVE: return EPOLLIN | EPOLLEXCLUSIVE;
    default: return EPOLLIN;
    }
}

static int watch_fd(int epoll, int operation, int fd, int side, uint32_t events)
{
    struct epoll_event event;

    event.events = events;
    event.data.u64 = (uint64_t)side;
    return epoll_ctl(epoll, operation, fd, &event);
}

static int make_queue(long rearm)
{
    int epoll = epoll_create(3);
    int side;

    if (epoll < 0)
        fail_call("epoll_create");
    for (side = SIDE_A; side <= SIDE_B; side++)
        if (watch_fd(epoll, EPOLL_CTL_ADD, token.ends[side], side, interest(rearm)) != 0)
            fail_call("epoll_ctl");
    if (watch_fd(epoll, EPOLL_CTL_ADD, token.stop_pipe, SIDE_STOP, EPOLLIN) != 0)
        fail_call("epoll_ctl");
    return epoll;
}

/*
 * A kernel that knows EPOLLEXCLUSIVE (4.5 and later) refuses it together with
 * EPOLLONESHOT; an older one takes no notice of the unknown bit.
 */
static int supported(long rearm)
{
    int epoll, fds[2], refused;

    if (rearm != EXCLUSIVE)
        return 1;
    if (pipe(fds) != 0)
        fail_call("pipe");
    if ((epoll = epoll_create(1)) < 0)
        fail_call("epoll_create");
    refused = watch_fd(epoll, EPOLL_CTL_ADD, fds[0], 0,
                       EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT) != 0 &&
              errno == EINVAL;
    close(epoll);
    close(fds[0]);
    close(fds[1]);
    return refused;
}

static void setup(struct run *run)
{
    token_open();
    if (run->values[REARM] != EXCLUSIVE)
        queue = make_queue(run->values[REARM]);
}

static void enter(struct worker *worker)
{
    long rearm = worker->run->values[REARM];

    worker->fd = rearm == EXCLUSIVE ? make_queue(rearm) : queue;
}

/* Which side has something to read; one event a call, so that none is held back. */
static int wait_event(int epoll)
{
    struct epoll_event event;
    int n;

    do
        n = epoll_wait(epoll, &event, 1, -1);
    while (n == 0 || (n < 0 && errno == EINTR));
    if (n < 0)
        fail_call("epoll_wait");
    return (int)event.data.u64;
}

static void rearm_oneshot(int epoll, int side)
{
    if (watch_fd(epoll, EPOLL_CTL_MOD, token.ends[side], side, interest(ONESHOT)) != 0)
        fail_call("epoll_ctl");
}

static void work(struct worker *worker)
{
    const long rearm = worker->run->values[REARM];
    const int epoll = worker->fd;
    struct hand hand = token_hand();
    int side;

    run_ready(worker->run);
    while ((side = wait_event(epoll)) != SIDE_STOP) {
        enum taken taken = token_take(worker, &hand, side);

        /* level, exclusive: several may be woken, one gets the message; nothing to do. */
        if (rearm == EDGE && taken != TOKEN_NONE)
            token_drain(&hand, side);
        if (rearm == ONESHOT)
            rearm_oneshot(epoll, side);
        if (taken == TOKEN_LAST)
            run_close(worker->run);
        else if (taken == TOKEN_HELD)
            token_pass(&hand, side);
    }
}

static const struct param params[] = {
    [REARM] = {.name = "rearm", .values = rearm_values, .supported = supported,
               .fallback = ONESHOT},
    {.name = NULL},
};

static const struct workload eptest = {
    .name = "eptest", .form = "epoll", .unit = "message", .params = params, .token = 1,
    .setup = setup, .enter = enter, .work = work,
    .begin = token_begin, .stop = token_stop, .check = token_check,
};

#else

static const struct param params[] = {
    [REARM] = {.name = "rearm", .values = rearm_values, .fallback = ONESHOT},
    {.name = NULL},
};

static const struct workload eptest = {
    .name = "eptest", .form = "epoll", .unit = "message", .params = params, .token = 1,
    .missing = "epoll is not on this system (kqtest is the counterpart)",
};

#endif

int main(int argc, char **argv)
{
    return harness_main(argc, argv, &eptest);
}
