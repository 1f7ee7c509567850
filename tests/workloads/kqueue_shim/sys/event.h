/*
 * Enough of kqueue for kqtest's logic to run on Linux: one queue, EVFILT_READ, kept on
 * epoll (kqueue.c). It serves the tests only: times over it mean nothing.
 */
#ifndef SHIM_SYS_EVENT_H
#define SHIM_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

#ifdef SHIM_NETBSD_6
#define SHIM_WITHOUT_DISPATCH
typedef intptr_t udata_t;
#else
typedef void *udata_t;
#endif

struct kevent {
    uintptr_t ident;
    short filter;
    unsigned short flags;
    unsigned fflags;
    intptr_t data;
    udata_t udata;
};

#define EVFILT_READ (-1)

#define EV_ADD 0x0001
#define EV_DELETE 0x0002
#define EV_ENABLE 0x0004
#define EV_DISABLE 0x0008
#define EV_ONESHOT 0x0010
#define EV_CLEAR 0x0020
#ifndef SHIM_WITHOUT_DISPATCH
#define EV_DISPATCH 0x0080
#endif
#define EV_ERROR 0x4000

#define EV_SET(kev, a, b, c, d, e, f)  \
    do {                               \
        struct kevent *kev_ = (kev);   \
        kev_->ident = (a);             \
        kev_->filter = (b);            \
        kev_->flags = (c);             \
        kev_->fflags = (d);            \
        kev_->data = (e);              \
        kev_->udata = (f);             \
    } while (0)

int kqueue(void);
int kevent(int queue, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *timeout);

#endif
