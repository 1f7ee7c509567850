/*
 * The system calls of eptest --rearm oneshot with one thread, and nothing else: the bare
 * loop that eptest_cost.py compares eptest with.
 *
 * For each line on standard input it passes OPS messages to and fro and prints two
 * numbers: nanoseconds of wall time and of processor time. `thread` runs the loop in a second thread, as eptest does; `main` in the
 * only one, which spares the kernel a little counting of references to open files.
 */
#define _GNU_SOURCE 1
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int queue, ends[2];
static long ops;

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(71);
    }
}

static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long cpu_ns(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000LL +
           (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000LL;
}

static void watch(int operation, int side)
{
    struct epoll_event event;

    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.u64 = (uint64_t)side;
    need(epoll_ctl(queue, operation, ends[side], &event) == 0, "epoll_ctl");
}

static void batch(void)
{
    long i;

    for (i = 0; i < ops; i++) {
        struct epoll_event event;
        uint32_t message;
        int side;

        need(epoll_wait(queue, &event, 1, -1) == 1, "epoll_wait");
        side = (int)event.data.u64;
        need(read(ends[side], &message, sizeof message) == sizeof message, "read");
        watch(EPOLL_CTL_MOD, side);
        if (i + 1 < ops)
            need(write(ends[side], &message, sizeof message) == sizeof message, "write");
    }
}

static void *serve(void *unused)
{
    uint32_t message = 0;
    int c;

    (void)unused;
    while ((c = getchar()) != EOF) {
        long long begin, wall, cpu;

        if (c != '\n')
            continue;
        cpu = cpu_ns();
        begin = now_ns();
        need(write(ends[0], &message, sizeof message) == sizeof message, "write");
        batch();
        wall = now_ns() - begin;
        printf("%lld %lld\n", wall, cpu_ns() - cpu);
        fflush(stdout);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    if (argc != 3 || (ops = atol(argv[2])) < 1) {
        fprintf(stderr, "usage: eptest_bare thread|main OPS\n");
        return 64;
    }
    need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
    need((queue = epoll_create(2)) >= 0, "epoll_create");
    watch(EPOLL_CTL_ADD, 0);
    watch(EPOLL_CTL_ADD, 1);
    if (strcmp(argv[1], "main") == 0) {
        serve(NULL);
    } else {
        need(pthread_create(&thread, NULL, serve, NULL) == 0, "pthread_create");
        need(pthread_join(thread, NULL) == 0, "pthread_join");
    }
    return 0;
}
