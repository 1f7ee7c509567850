/*
 * urandom: several threads or processes read random bytes, or a plain file instead.
 *
 * Each read is timed by itself: besides the mean, the tail is of interest. That costs two
 * readings of the clock an operation (`clock_read_ns` in the start line says how long one
 * takes here); the baseline, the plain file, pays the same.
 */
#include "harness.h"

#include <sys/types.h>
#include <sys/param.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* getrandom: from libc where it has it (so that a vDSO is used), else the bare call. */
#if (defined(__FreeBSD_version) && __FreeBSD_version >= 1200000) || \
    (defined(__NetBSD_Version__) && __NetBSD_Version__ >= 1000000000)
#define LIBC_GETRANDOM 1
#elif defined(__linux__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 25)
#define LIBC_GETRANDOM 1
#endif
#elif defined(__linux__) && defined(__has_include)
#if __has_include(<sys/random.h>)
#define LIBC_GETRANDOM 1
#endif
#endif
#ifdef LIBC_GETRANDOM
#include <sys/random.h>
#elif defined(__linux__)
#include <sys/syscall.h>
#endif

enum { SOURCE, SIZE, WORKERS };
enum { DEVICE, PLAIN_FILE, GETRANDOM };
enum { THREADS, PROCESSES };

static const char *const source_values[] = {"device", "file", "getrandom", NULL};
static const char *const workers_values[] = {"threads", "processes", NULL};

static char path[1024] = "/dev/urandom";

static ssize_t random_bytes(void *buffer, size_t size)
{
#if defined(LIBC_GETRANDOM)
    return getrandom(buffer, size, 0);
#elif defined(SYS_getrandom)
    return syscall(SYS_getrandom, buffer, size, 0);
#else
    (void)buffer;
    (void)size;
    errno = ENOSYS;
    return -1;
#endif
}

static int source_supported(long source)
{
    char byte;

    return source != GETRANDOM || random_bytes(&byte, 1) == 1 || errno != ENOSYS;
}

/* A file as long as one read, in $TMPDIR or the working directory. */
static void make_file(size_t size)
{
    const char *directory = getenv("TMPDIR");
    char *bytes = malloc(size);
    int fd;

    if (bytes == NULL)
        fail_call("malloc");
    memset(bytes, 'u', size);
    if (directory == NULL || directory[0] == '\0')
        directory = ".";
    if ((size_t)snprintf(path, sizeof path, "%s/urandom.XXXXXX", directory) >= sizeof path)
        fail(STATUS_USAGE, "TMPDIR is too long");
    if ((fd = mkstemp(path)) < 0)
        fail(STATUS_SYSCALL, "mkstemp of %s: %s", path, strerror(errno));
    if (write(fd, bytes, size) != (ssize_t)size) {
        int error = errno;

        unlink(path);
        fail(STATUS_SYSCALL, "write of %s: %s", path, strerror(error));
    }
    close(fd);
    free(bytes);
}

static void setup(struct run *run)
{
    if (run->values[SOURCE] == PLAIN_FILE)
        make_file((size_t)run->values[SIZE]);
    run->processes = run->values[WORKERS] == PROCESSES;
}

/* Each worker opens for itself: an open file that is shared is a contended one. */
static void enter(struct worker *worker)
{
    const struct run *run = worker->run;
    size_t size = (size_t)run->values[SIZE];

    if ((worker->buffer = malloc(size)) == NULL)
        fail_call("malloc");
    memset(worker->buffer, 1, size); /* its page faults come before the measured time */
    if (run->values[SOURCE] != GETRANDOM && (worker->fd = open(path, O_RDONLY)) < 0)
        fail(STATUS_SYSCALL, "open of %s: %s", path, strerror(errno));
}

/* All have opened it: the file is gone however the program ends. */
static void entered(struct run *run)
{
    if (run->values[SOURCE] == PLAIN_FILE && unlink(path) != 0)
        fail(STATUS_SYSCALL, "unlink of %s: %s", path, strerror(errno));
}

static void leave(struct worker *worker)
{
    if (worker->fd >= 0)
        close(worker->fd);
    free(worker->buffer);
}

static ssize_t read_once(long source, int fd, void *buffer, size_t size)
{
    switch (source) {
    case DEVICE: return read(fd, buffer, size);
    case PLAIN_FILE: return pread(fd, buffer, size, 0);
    default: return random_bytes(buffer, size);
    }
}

static void work(struct worker *worker)
{
    static const char *const calls[] = {"read", "pread", "getrandom"};
    const long source = worker->run->values[SOURCE];
    const size_t size = (size_t)worker->run->values[SIZE];
    const unsigned long share = worker->share;
    unsigned long done;

    for (done = 0; done < share; count_ops(worker, ++done)) {
        uint64_t begin = now_ns();
        ssize_t n;

        do
            n = read_once(source, worker->fd, worker->buffer, size);
        while (n < 0 && errno == EINTR);
        histogram_add(worker->latency, now_ns() - begin);
        if (n < 0)
            fail_call(calls[source]);
        /* Read on and one operation would be two calls: not the same measure. */
        if ((size_t)n != size)
            fail(STATUS_UNTRUSTED, "short %s: %ld of %lu bytes", calls[source], (long)n,
                 (unsigned long)size);
    }
}

static const struct param params[] = {
    [SOURCE] = {.name = "source", .values = source_values, .supported = source_supported,
                .fallback = DEVICE},
    [SIZE] = {.name = "size", .fallback = 4096, .minimum = 1, .maximum = 1048576},
    [WORKERS] = {.name = "workers", .values = workers_values, .fallback = THREADS},
    {.name = NULL},
};

static const struct workload urandom = {
    .name = "urandom", .form = "read", .unit = "read", .params = params, .latency = 1,
    .setup = setup, .enter = enter, .entered = entered, .work = work, .leave = leave,
};

int main(int argc, char **argv)
{
    return harness_main(argc, argv, &urandom);
}
