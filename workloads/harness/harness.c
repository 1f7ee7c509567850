/* The course of a run: start, calibrate, warm up, measure, end. */
#include "crew.h"

#include <sys/mman.h>
#include <sys/time.h>
#include <sys/resource.h>
#include <stdio.h>
#include <string.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

static const struct crew *crew;

static unsigned long ops_done(const struct run *run)
{
    unsigned long sum = 0;
    int i;

    for (i = 0; i < run->options.threads; i++)
        sum += ATOMIC_LOAD(&run->workers[i].ops);
    return sum;
}

struct watch watch_begin(const struct run *run)
{
    struct watch watch;

    watch.since_ns = now_ns();
    watch.seen = ops_done(run);
    return watch;
}

void watch_check(const struct run *run, struct watch *watch)
{
    unsigned long seen = ops_done(run);
    uint64_t now = now_ns();

    if (seen != watch->seen) {
        watch->seen = seen;
        watch->since_ns = now;
    } else if (run->options.stall_s != 0 &&
               now - watch->since_ns >= run->options.stall_s * UINT64_C(1000000000)) {
        fail(STATUS_UNTRUSTED, "no progress for %lu s: %lu of %lu %ss are done",
             run->options.stall_s, seen, run->ops, run->workload->unit);
    }
}

/* Memory that worker processes share with this one. */
static void *shared_memory(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        fail_call("mmap of the workers' memory");
    return memory;
}

static void make_workers(struct run *run)
{
    size_t count = (size_t)run->options.threads;
    struct histogram *histograms = NULL;
    size_t i;

    run->workers = shared_memory(count * sizeof *run->workers);
    if (run->workload->latency)
        histograms = shared_memory(count * sizeof *histograms);
    for (i = 0; i < count; i++) {
        run->workers[i].run = run;
        run->workers[i].index = (int)i;
        run->workers[i].fd = -1;
        run->workers[i].latency = histograms == NULL ? NULL : &histograms[i];
    }
}

/* A descriptor or two a worker may be more than the soft limit. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* if refused, open() will tell */
    }
}

static void divide(struct run *run)
{
    unsigned long count = (unsigned long)run->options.threads, i;

    for (i = 0; i < count; i++) {
        struct worker *worker = &run->workers[i];

        worker->share = run->workload->token ? 0 : run->ops / count + (i < run->ops % count);
        worker->empty_wakeups = 0;
        count_ops(worker, 0);
        if (worker->latency != NULL)
            histogram_clear(worker->latency);
    }
}

static void check_work(struct run *run)
{
    int i;

    if (run->workload->check != NULL)
        run->workload->check(run);
    for (i = 0; i < run->options.threads; i++)
        if (!run->workload->token && run->workers[i].ops != run->workers[i].share)
            fail(STATUS_UNTRUSTED, "worker %d did %lu of its %lu operations", i,
                 run->workers[i].ops, run->workers[i].share);
    if (ops_done(run) != run->ops)
        fail(STATUS_UNTRUSTED, "%lu %ss were counted where there should be %lu", ops_done(run),
             run->workload->unit, run->ops);
}

/* One batch of run->ops operations; leaves its time and usage in *run. */
static void run_batch(struct run *run)
{
    const struct workload *workload = run->workload;
    int i;

    divide(run);
    if (workload->token) {
        crew->release(run);
        crew->await(run, CREW_READY, NULL);
        run->usage_begin = usage_now();
        run->begin_ns = now_ns();
        workload->begin(run);
        crew->await(run, CREW_CLOSED, NULL);
        crew->await(run, CREW_PARKED, workload->stop);
    } else {
        run->usage_begin = usage_now();
        run->begin_ns = now_ns();
        crew->release(run);
        crew->await(run, CREW_PARKED, NULL);
        run->end_ns = 0;
        for (i = 0; i < run->options.threads; i++)
            if (run->workers[i].end_ns > run->end_ns)
                run->end_ns = run->workers[i].end_ns;
    }
    check_work(run);
}

/* Double the operations of a batch until it is long enough to be measured. */
static void calibrate(struct run *run)
{
    unsigned long least = (unsigned long)run->options.threads;

    for (run->ops = least > 16 ? least : 16;; run->ops *= 2) {
        run_batch(run);
        report_calibration(run);
        if (run->end_ns - run->begin_ns >= run->options.min_ms * UINT64_C(1000000))
            return;
        if (run->ops > MAX_OPS / 2)
            fail(STATUS_UNTRUSTED, "%lu %ss still take less than %lu ms", run->ops,
                 run->workload->unit, run->options.min_ms);
    }
}

/* --step: nothing is measured until the controller says that it has dealt with the batch. */
static void await_leave(void)
{
    int c;

    do
        c = getchar();
    while (c != '\n' && c != EOF);
    if (c == EOF)
        fail(STATUS_STOPPED, "standard input ended: told to stop");
}

static void measure(struct run *run)
{
    const struct options *options = &run->options;
    int i;

    run->ops = options->ops;
    if (options->ops == 0)
        calibrate(run);
    for (i = 0; i < options->warmup + options->batches; i++) {
        int warmup = i < options->warmup;

        run_batch(run);
        if (run->end_ns <= run->begin_ns)
            fail(STATUS_UNTRUSTED, "a batch of %lu is too short for the clock; raise --ops",
                 run->ops);
        report_batch(run, warmup ? "warmup" : "batch", warmup ? i : i - options->warmup);
        if (options->step && !warmup)
            await_leave();
    }
}

int harness_main(int argc, char **argv, const struct workload *workload)
{
    static struct run run;
    uint64_t born_ns;

    guard_name(workload->name);
    born_ns = now_ns();
    run.workload = workload;
    if (workload->missing != NULL && !(argc == 2 && strcmp(argv[1], "--help") == 0))
        fail(STATUS_UNSUPPORTED, "%s", workload->missing);
    parse_options(&run, argc, argv);
    if (run.options.capabilities) {
        report_capabilities(&run);
        return STATUS_DONE;
    }
    guard_signals(run.options.limit_s);
    if (!run.options.plain)
        report_start(&run);
    raise_descriptor_limit();
    if (workload->setup != NULL)
        workload->setup(&run);
    make_workers(&run);
    crew = run.processes ? &process_crew : &thread_crew;
    crew->start(&run);
    crew->await(&run, CREW_PARKED, NULL);
    if (workload->entered != NULL)
        workload->entered(&run);

    if (run.options.plain) {
        run.ops = run.options.ops;
        run_batch(&run);
    } else {
        measure(&run);
    }
    crew->dismiss(&run);
    if (run.options.plain)
        printf("%.6f\n", (double)(run.end_ns - run.begin_ns) / 1e9);
    else
        report_end(&run, now_ns() - born_ns);
    if (fflush(stdout) != 0)
        fail_call("write to standard output");
    return STATUS_DONE;
}
