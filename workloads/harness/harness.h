/*
 * What every workload shares: arguments, clock, workers, batches, output.
 *
 * A workload describes itself in a `struct workload` and hands it to harness_main();
 * it does the operations and nothing else. docs/workloads.md describes what the
 * program prints. C99 that gcc 4.2 accepts, for Linux, FreeBSD 9 and NetBSD 6.
 *
 * Include this header before any other: it sets the feature macros.
 */
#ifndef HARNESS_H
#define HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* Linux: epoll, MAP_ANONYMOUS and spin locks under -std=c99 */
#endif
#ifndef _NETBSD_SOURCE
#define _NETBSD_SOURCE 1 /* NetBSD hides most of itself under -std=c99 without it */
#endif

#include <stddef.h>
#include <stdint.h>

#include "atomics.h"
#include "latency.h"

#define PROTOCOL 1
#define MAX_PARAMS 8
#define MAX_THREADS 1024
#define MAX_OPS 2000000000UL

enum status {
    STATUS_DONE = 0,
    STATUS_USAGE = 64,       /* unknown option, value out of range */
    STATUS_UNSUPPORTED = 69, /* this system or this build cannot do it */
    STATUS_UNTRUSTED = 70,   /* the result is not to be trusted */
    STATUS_SYSCALL = 71,     /* a system call failed */
    STATUS_STOPPED = 75,     /* told to stop */
    STATUS_LIMIT = 124       /* --limit reached */
};

/* One --PARAM of a workload: enumerated, or a whole number. */
struct param {
    const char *name;
    const char *const *values;    /* ends with NULL; NULL itself: a whole number */
    int (*supported)(long value); /* is values[value] here? NULL: all are */
    long fallback;                /* default: an index of values, or the number */
    long minimum, maximum;        /* of a whole number */
};

/* What processor time and context switches were used, in ns and counts. */
struct usage {
    int64_t user_ns, sys_ns, vcsw, ivcsw;
};

struct run;

/*
 * One thread (or process) that does operations. Each has cache lines of its own, so
 * that counting costs no traffic between them. Workers write, the controller reads.
 */
struct worker {
    struct run *run;
    int index;
    int fd;                      /* the workload's own: a descriptor of this worker */
    void *buffer;                /* the workload's own: memory of this worker */
    unsigned long share;         /* operations it must do in this batch (not of a token) */
    unsigned long ops;           /* operations it did: set by count_ops() only */
    unsigned long empty_wakeups; /* times it was woken and found no message */
    uint64_t end_ns;             /* when it had done its share */
    struct usage usage;          /* what a worker process used in this batch */
    struct histogram *latency;   /* NULL unless the workload asks for it */
} __attribute__((aligned(128)));

struct workload {
    const char *name, *form, *unit;
    const char *missing;        /* why it cannot run on this system; NULL if it can */
    const struct param *params; /* ends with a NULL name */
    int latency;                /* wants a histogram a worker */
    int token;                  /* one message in transit instead of a share a worker */

    void (*setup)(struct run *run);       /* once, before there are workers */
    void (*enter)(struct worker *worker); /* once, in each worker */
    void (*entered)(struct run *run);     /* once, when every worker has entered */
    void (*work)(struct worker *worker);  /* a batch: its share, or until stopped */
    void (*leave)(struct worker *worker); /* once, in each worker, at the end */

    /* Of a token workload only. */
    void (*begin)(struct run *run); /* send the message: all workers are about to wait */
    void (*stop)(struct run *run);  /* wake all workers; may be called more than once */
    void (*check)(struct run *run); /* all workers are parked: is nothing left over? */
};

struct options {
    int threads, batches, warmup;
    unsigned long ops; /* 0: calibrate */
    unsigned long min_ms, limit_s, stall_s;
    int step, plain, capabilities;
};

struct run {
    const struct workload *workload;
    struct options options;
    long values[MAX_PARAMS]; /* in the order of workload->params */
    int processes;           /* setup() may set it: workers are processes, not threads */
    struct worker *workers;  /* options.threads of them, in memory that processes share */

    /* The present batch. */
    unsigned long ops;
    uint64_t begin_ns, end_ns;
    struct usage usage_begin, usage_end;
};

/* The whole program; returns the exit status. */
int harness_main(int argc, char **argv, const struct workload *workload);

/* -- for workloads ------------------------------------------------------------ */

/* A worker's number of operations so far in this batch: one plain store. */
#define count_ops(worker, n) ATOMIC_STORE(&(worker)->ops, (n))

/* A worker of a token workload is about to wait for the message. */
void run_ready(struct run *run);

/* The worker that got the last message ends the measured time. */
void run_close(struct run *run);

uint64_t now_ns(void);

/* Say what failed on stderr and end the program with this status; from any worker. */
void fail(int status, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* The same for a system call: status 71, with its name and errno's text. */
void fail_call(const char *call) __attribute__((noreturn));

/* -- between the harness's own files ------------------------------------------- */

void parse_options(struct run *run, int argc, char **argv);

struct usage usage_now(void);
struct usage usage_between(struct usage from, struct usage to);
struct usage usage_sum(struct usage a, struct usage b);
long clock_resolution_ns(void);
long clock_read_ns(void);

void guard_name(const char *name);
void guard_signals(unsigned long limit_s);
void guard_children(const void *pids, int count);
void guard_in_child(unsigned long limit_s);

void report_capabilities(const struct run *run);
void report_start(const struct run *run);
void report_calibration(const struct run *run);
void report_batch(const struct run *run, const char *type, int index);
void report_end(const struct run *run, uint64_t wall_ns);

#endif
