/* What the program prints: one JSON object a line, flushed at once. */
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>

static void end_line(void)
{
    putchar('\n');
    if (fflush(stdout) != 0 || ferror(stdout))
        fail_call("write to standard output");
}

void report_capabilities(const struct run *run)
{
    const struct workload *workload = run->workload;
    const struct param *param;
    const char *between = "";
    int i;

    printf("{\"type\":\"capabilities\",\"protocol\":%d,\"workload\":\"%s\",\"form\":\"%s\","
           "\"params\":{",
           PROTOCOL, workload->name, workload->form);
    for (param = workload->params; param->name != NULL; param++) {
        const char *comma = "";

        if (param->values == NULL)
            continue;
        printf("%s\"%s\":[", between, param->name);
        for (i = 0; param->values[i] != NULL; i++) {
            if (param->supported != NULL && !param->supported(i))
                continue;
            printf("%s\"%s\"", comma, param->values[i]);
            comma = ",";
        }
        printf("]");
        between = ",";
    }
    printf("}}");
    end_line();
}

void report_start(const struct run *run)
{
    const struct workload *workload = run->workload;
    const struct options *options = &run->options;
    const struct param *params = workload->params;
    int i;

    printf("{\"type\":\"start\",\"protocol\":%d,\"workload\":\"%s\",\"form\":\"%s\","
           "\"threads\":%d,\"params\":{",
           PROTOCOL, workload->name, workload->form, options->threads);
    for (i = 0; params[i].name != NULL; i++) {
        printf("%s\"%s\":", i ? "," : "", params[i].name);
        if (params[i].values != NULL)
            printf("\"%s\"", params[i].values[run->values[i]]);
        else
            printf("%ld", run->values[i]);
    }
    printf("},\"ops\":%lu,\"batches\":%d,\"warmup\":%d,\"unit\":\"%s\","
           "\"clock\":\"CLOCK_MONOTONIC\",\"clock_res_ns\":%ld",
           options->ops, options->batches, options->warmup, workload->unit,
           clock_resolution_ns());
    if (workload->latency)
        printf(",\"clock_read_ns\":%ld", clock_read_ns());
    printf("}");
    end_line();
}

void report_calibration(const struct run *run)
{
    printf("{\"type\":\"calibration\",\"ops\":%lu,\"wall_ns\":%" PRIu64 "}", run->ops,
           run->end_ns - run->begin_ns);
    end_line();
}

static void print_latency(const struct run *run)
{
    static struct histogram all;
    const char *comma = "";
    int i;

    histogram_clear(&all);
    for (i = 0; i < run->options.threads; i++)
        histogram_merge(&all, run->workers[i].latency);
    printf(",\"latency\":{\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64
           ",\"buckets\":[",
           histogram_quantile_ns(&all, 0.50), histogram_quantile_ns(&all, 0.99), all.max_ns);
    for (i = 0; i < LATENCY_BUCKETS; i++) {
        if (all.counts[i] == 0)
            continue;
        printf("%s[%" PRIu64 ",%" PRIu64 "]", comma, histogram_lower_ns(i), all.counts[i]);
        comma = ",";
    }
    printf("]}");
}

void report_batch(const struct run *run, const char *type, int index)
{
    struct usage used = usage_between(run->usage_begin, run->usage_end);
    unsigned long least = run->workers[0].ops, most = least, empty = 0;
    int i;

    for (i = 0; i < run->options.threads; i++) {
        const struct worker *worker = &run->workers[i];

        least = worker->ops < least ? worker->ops : least;
        most = worker->ops > most ? worker->ops : most;
        empty += worker->empty_wakeups;
    }
    printf("{\"type\":\"%s\",\"index\":%d,\"ops\":%lu,\"wall_ns\":%" PRIu64
           ",\"user_ns\":%" PRId64 ",\"sys_ns\":%" PRId64 ",\"vcsw\":%" PRId64
           ",\"ivcsw\":%" PRId64 ",\"min_thread_ops\":%lu,\"max_thread_ops\":%lu",
           type, index, run->ops, run->end_ns - run->begin_ns, used.user_ns, used.sys_ns,
           used.vcsw, used.ivcsw, least, most);
    if (run->workload->token)
        printf(",\"empty_wakeups\":%lu", empty);
    if (run->workload->latency)
        print_latency(run);
    printf("}");
    end_line();
}

void report_end(const struct run *run, uint64_t wall_ns)
{
    printf("{\"type\":\"end\",\"batches\":%d,\"wall_ns\":%" PRIu64 "}", run->options.batches,
           wall_ns);
    end_line();
}
