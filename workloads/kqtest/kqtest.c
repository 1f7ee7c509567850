/*
 * kqtest: several threads wait in kevent for one message that goes to and fro.
 *
 * The counterpart of eptest; harness/token.h says what the message is and how a lost or
 * doubled one is found. A descriptor is always armed again before the message leaves, so
 * that every message finds the other end armed; what each way of rearming does is below.
 */
#include "token.h"

enum { REARM };
enum { ONESHOT, DISPATCH, CLEAR, LEVEL };

static const char *const rearm_values[] = {"oneshot", "dispatch", "clear", "level", NULL};

#if defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__) || \
    defined(__DragonFly__) || defined(__APPLE__)
#define HAVE_KQUEUE 1
#endif

#ifdef HAVE_KQUEUE

#include <sys/types.h>
#include <sys/event.h>
#include <sys/time.h>
#include <errno.h>

/* udata is a void * or, on NetBSD before 10, an intptr_t. */
#if defined(__NetBSD__)
#include <sys/param.h>
#if __NetBSD_Version__ < 1000000000
#define TO_UDATA(side) ((intptr_t)(side))
#endif
#endif
#ifndef TO_UDATA
#define TO_UDATA(side) ((void *)(intptr_t)(side))
#endif
#define FROM_UDATA(udata) ((int)(intptr_t)(udata))

static int queue;

static int supported(long rearm)
{
#ifdef EV_DISPATCH
    (void)rearm;
    return 1;
#else
    return rearm != DISPATCH;
#endif
}

/* The flags that make an end known to the queue. */
static unsigned short add_flags(long rearm)
{
    switch (rearm) {
    case ONESHOT: return EV_ADD | EV_ONESHOT;
#ifdef EV_DISPATCH
    case DISPATCH: return EV_ADD | EV_DISPATCH;
#endif
    case CLEAR: return EV_ADD | EV_CLEAR;
    default: return EV_ADD;
    }
}

/* The flags that arm it again after its event; 0 if it stays armed by itself. */
static unsigned short rearm_flags(long rearm)
{
    switch (rearm) {
    case ONESHOT: return EV_ADD | EV_ONESHOT; /* the event has deleted it */
#ifdef EV_DISPATCH
    case DISPATCH: return EV_ENABLE | EV_DISPATCH; /* the event has disabled it */
#endif
    default: return 0;
    }
}

static void change(int fd, int side, unsigned short flags)
{
    struct kevent event;
    int n;

    EV_SET(&event, (uintptr_t)fd, EVFILT_READ, flags, 0, 0, TO_UDATA(side));
    do
        n = kevent(queue, &event, 1, NULL, 0, NULL);
    while (n < 0 && errno == EINTR); /* the change has been made; making it again is harmless */
    if (n < 0)
        fail_call("kevent");
}

static void setup(struct run *run)
{
    unsigned short flags = add_flags(run->values[REARM]);

    token_open();
    if ((queue = kqueue()) < 0)
        fail_call("kqueue");
    change(token.ends[SIDE_A], SIDE_A, flags);
    change(token.ends[SIDE_B], SIDE_B, flags);
    change(token.stop_pipe, SIDE_STOP, EV_ADD);
}

/* Which side has something to read; one event a call, so that none is held back. */
static int wait_event(void)
{
    struct kevent event;
    int n;

    do
        n = kevent(queue, NULL, 0, &event, 1, NULL);
    while (n == 0 || (n < 0 && errno == EINTR));
    if (n < 0)
        fail_call("kevent");
    if (event.flags & EV_ERROR) {
        errno = (int)event.data;
        fail_call("kevent");
    }
    return FROM_UDATA(event.udata);
}

static void work(struct worker *worker)
{
    const long rearm = worker->run->values[REARM];
    const unsigned short again = rearm_flags(rearm);
    struct hand hand = token_hand();
    int side;

    run_ready(worker->run);
    while ((side = wait_event()) != SIDE_STOP) {
        enum taken taken = token_take(worker, &hand, side);

        /* level: several may be woken, one gets the message; nothing to do. */
        if (rearm == CLEAR && taken != TOKEN_NONE)
            token_drain(&hand, side);
        if (again != 0)
            change(token.ends[side], side, again);
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

static const struct workload kqtest = {
    .name = "kqtest", .form = "kqueue", .unit = "message", .params = params, .token = 1,
    .setup = setup, .work = work,
    .begin = token_begin, .stop = token_stop, .check = token_check,
};

#else

static const struct param params[] = {
    [REARM] = {.name = "rearm", .values = rearm_values, .fallback = ONESHOT},
    {.name = NULL},
};

static const struct workload kqtest = {
    .name = "kqtest", .form = "kqueue", .unit = "message", .params = params, .token = 1,
    .missing = "kqueue is not on this system (eptest is the counterpart)",
};

#endif

int main(int argc, char **argv)
{
    return harness_main(argc, argv, &kqtest);
}
