/*
 * kqueue on epoll, for the tests: see sys/event.h. What matters is kept: a oneshot knote
 * is gone after its event (EV_ENABLE of it is ENOENT), a dispatched one is disabled until
 * EV_ENABLE (EV_ADD alone does not enable it, as in FreeBSD's kern_event.c), a cleared one
 * fires on new data only, any other as long as there is data.
 */
#include <sys/event.h>

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <errno.h>
#include <pthread.h>

#define DISPATCH_BIT 0x0080
#define MAX_FD 256

struct knote {
    int present, disabled;
    unsigned short flags;
    udata_t udata;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct knote knotes[MAX_FD];

int kqueue(void)
{
    return epoll_create(1);
}

static int arm(int queue, int operation, int fd, unsigned short flags)
{
    struct epoll_event event;

    event.events = EPOLLIN;
    if (flags & EV_CLEAR)
        event.events |= EPOLLET;
    if (flags & (EV_ONESHOT | DISPATCH_BIT))
        event.events |= EPOLLONESHOT;
    event.data.u64 = (unsigned)fd;
    return epoll_ctl(queue, operation, fd, &event);
}

static int apply(int queue, const struct kevent *change)
{
    struct knote *knote;
    int was_present;

    if (change->ident >= MAX_FD || change->filter != EVFILT_READ) {
        errno = EINVAL;
        return -1;
    }
    knote = &knotes[change->ident];
    was_present = knote->present;
    if (!was_present && !(change->flags & EV_ADD)) {
        errno = ENOENT;
        return -1;
    }
    if (change->flags & EV_ADD)
        knote->flags = change->flags;
    if (!was_present || (change->flags & EV_ENABLE))
        knote->disabled = 0;
    knote->present = 1;
    knote->udata = change->udata;
    if (knote->disabled)
        return 0;
    return arm(queue, was_present ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, (int)change->ident,
               knote->flags);
}

static void deliver(int queue, int fd, struct kevent *event)
{
    struct knote *knote = &knotes[fd];
    int bytes = 0;

    ioctl(fd, FIONREAD, &bytes);
    EV_SET(event, (uintptr_t)fd, EVFILT_READ, knote->flags, 0, bytes, knote->udata);
    if (knote->flags & EV_ONESHOT) {
        knote->present = 0;
        epoll_ctl(queue, EPOLL_CTL_DEL, fd, NULL);
    } else if (knote->flags & DISPATCH_BIT) {
        knote->disabled = 1;
    }
}

int kevent(int queue, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *timeout)
{
    struct epoll_event ready[16];
    int i, n, error = 0;

    if (event_count > 16 || timeout != NULL) {
        errno = EINVAL;
        return -1;
    }
    pthread_mutex_lock(&lock);
    for (i = 0; i < change_count && error == 0; i++)
        error = apply(queue, &changes[i]);
    pthread_mutex_unlock(&lock);
    if (error != 0 || event_count == 0)
        return error;
    n = epoll_wait(queue, ready, event_count, -1);
    pthread_mutex_lock(&lock);
    for (i = 0; i < n; i++)
        deliver(queue, (int)ready[i].data.u64, &events[i]);
    pthread_mutex_unlock(&lock);
    return n;
}
