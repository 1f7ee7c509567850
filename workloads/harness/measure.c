/* The clock, and what getrusage tells. */
#include "harness.h"

#include <sys/time.h>
#include <sys/resource.h>
#include <time.h>

uint64_t now_ns(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        fail_call("clock_gettime");
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

long clock_resolution_ns(void)
{
    struct timespec t;

    if (clock_getres(CLOCK_MONOTONIC, &t) != 0)
        fail_call("clock_getres");
    return (long)(t.tv_sec * 1000000000 + t.tv_nsec);
}

/* What reading the clock costs: the best of a few rounds, as a disturbed one is longer. */
long clock_read_ns(void)
{
    enum { ROUNDS = 5, READS = 32 };
    uint64_t best = UINT64_MAX;
    int round, i;

    for (round = 0; round < ROUNDS; round++) {
        uint64_t begin = now_ns(), end = begin;

        for (i = 0; i < READS; i++)
            end = now_ns();
        if (end - begin < best)
            best = end - begin;
    }
    return (long)(best / READS);
}

static int64_t timeval_ns(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_usec * 1000;
}

struct usage usage_now(void)
{
    struct rusage r;
    struct usage usage;

    if (getrusage(RUSAGE_SELF, &r) != 0)
        fail_call("getrusage");
    usage.user_ns = timeval_ns(r.ru_utime);
    usage.sys_ns = timeval_ns(r.ru_stime);
    usage.vcsw = r.ru_nvcsw;
    usage.ivcsw = r.ru_nivcsw;
    return usage;
}

struct usage usage_between(struct usage from, struct usage to)
{
    to.user_ns -= from.user_ns;
    to.sys_ns -= from.sys_ns;
    to.vcsw -= from.vcsw;
    to.ivcsw -= from.ivcsw;
    return to;
}

struct usage usage_sum(struct usage a, struct usage b)
{
    a.user_ns += b.user_ns;
    a.sys_ns += b.sys_ns;
    a.vcsw += b.vcsw;
    a.ivcsw += b.ivcsw;
    return a;
}
