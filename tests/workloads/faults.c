/*
 * Faults for the tests, put before libc by LD_PRELOAD: FAULT says which, FAULT_AT at which
 * matching call (from 1). Only calls of the size in FAULT_SIZE match, so that the
 * program's other calls go through.
 */
#define _GNU_SOURCE 1
#include <sys/mman.h>
#include <sys/types.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int calls;

static int is(const char *fault)
{
    const char *wanted = getenv("FAULT");

    return wanted != NULL && strcmp(wanted, fault) == 0;
}

static long environment(const char *name)
{
    const char *text = getenv(name);

    return text == NULL ? 0 : atol(text);
}

/* Whether this call of `size` bytes is the one (or one of the many) to go wrong. */
static int hit(const char *fault, size_t size)
{
    return is(fault) && (long)size == environment("FAULT_SIZE") &&
           __sync_add_and_fetch(&calls, 1) == environment("FAULT_AT");
}

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
    ssize_t (*next)(int, const void *, size_t) = real("write");

    if (hit("drop", size))
        return (ssize_t)size;
    if (hit("double", size))
        next(fd, buffer, size);
    if (hit("write", size)) {
        errno = ENOBUFS;
        return -1;
    }
    return next(fd, buffer, size);
}

/* What any of the reads does before the real one: 0 go on, 1 halve the size, -1 EINTR. */
static int disturb(size_t size)
{
    if (hit("short", size))
        return 1;
    if (hit("interrupt", size)) {
        errno = EINTR;
        return -1;
    }
    return 0;
}

ssize_t read(int fd, void *buffer, size_t size)
{
    ssize_t (*next)(int, void *, size_t) = real("read");
    int what = disturb(size);

    return what < 0 ? -1 : next(fd, buffer, what ? size / 2 : size);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    ssize_t (*next)(int, void *, size_t, off_t) = real("pread");
    int what = disturb(size);

    return what < 0 ? -1 : next(fd, buffer, what ? size / 2 : size, offset);
}

ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
    ssize_t (*next)(void *, size_t, unsigned) = real("getrandom");
    int what = disturb(size);

    return what < 0 ? -1 : next(buffer, what ? size / 2 : size, flags);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    void *(*next)(void *, size_t, int, int, int, off_t) = real("mmap");

    if (hit("mmap", size)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next(address, size, protection, flags, fd, offset);
}

int munmap(void *address, size_t size)
{
    int (*next)(void *, size_t) = real("munmap");

    if (hit("munmap", size)) {
        errno = EINVAL;
        return -1;
    }
    return next(address, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        real("pthread_create");

    return hit("pthread_create", 0) ? EAGAIN : next(thread, attributes, body, argument);
}

pid_t fork(void)
{
    pid_t (*next)(void) = real("fork");

    if (hit("fork", 0)) {
        errno = EAGAIN;
        return -1;
    }
    return next();
}
