/* Arguments: checked here, once, with what is allowed in every message. */
#include "harness.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "a, b, c" of an enumerated parameter. */
static const char *allowed(const struct param *param)
{
    static char text[256];
    size_t used = 0;
    int i;

    text[0] = '\0';
    for (i = 0; param->values[i] != NULL; i++) {
        int n = snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "",
                         param->values[i]);
        if (n < 0 || (size_t)n >= sizeof text - used)
            break;
        used += (size_t)n;
    }
    return text;
}

static unsigned long number(const char *name, const char *text, unsigned long minimum,
                            unsigned long maximum)
{
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0')
        fail(STATUS_USAGE, "%s: '%s' is not a whole number (%lu to %lu)", name, text, minimum,
             maximum);
    if (errno != 0 || value < minimum || value > maximum)
        fail(STATUS_USAGE, "%s: %s is out of range (%lu to %lu)", name, text, minimum, maximum);
    return value;
}

static long param_value(const struct param *param, const char *option, const char *text)
{
    long i;

    if (param->values == NULL)
        return (long)number(option, text, (unsigned long)param->minimum,
                            (unsigned long)param->maximum);
    for (i = 0; param->values[i] != NULL; i++) {
        if (strcmp(param->values[i], text) != 0)
            continue;
        if (param->supported != NULL && !param->supported(i))
            fail(STATUS_UNSUPPORTED, "%s %s is not supported on this system", option, text);
        return i;
    }
    fail(STATUS_USAGE, "%s: '%s' is not one of %s", option, text, allowed(param));
}

static void print_usage(const struct workload *workload)
{
    const struct param *param;

    printf("usage: %s [OPTION ...]             one JSON object a line\n"
           "       %s [OPTION ...] THREADS OPS  one number: seconds\n"
           "       %s --capabilities\n\n"
           "  --threads N   workers (default 1)\n",
           workload->name, workload->name, workload->name);
    for (param = workload->params; param->name != NULL; param++) {
        if (param->values != NULL)
            printf("  --%s VALUE   %s (default %s)\n", param->name, allowed(param),
                   param->values[param->fallback]);
        else
            printf("  --%s N   %ld to %ld (default %ld)\n", param->name, param->minimum,
                   param->maximum, param->fallback);
    }
    printf("  --ops K       operations a batch, over all workers; 0 (default): calibrate\n"
           "  --batches B   measured batches (default 10)\n"
           "  --warmup W    batches before them (default 1)\n"
           "  --min-ms M    least time of a calibrated batch (default 100)\n"
           "  --step        wait for a line on standard input after each batch\n"
           "  --limit S     end with status 124 after S seconds (0, the default: never)\n"
           "  --stall S     end with status 70 after S seconds without an operation\n"
           "                (0: never; default %lu)\n",
           workload->token ? 20UL : 0UL);
}

/* Whether `argument` is --NAME or --NAME=VALUE; *value is then set or left NULL. */
static int is_option(const char *argument, const char *name, const char **value)
{
    size_t length = strlen(name);

    if (strncmp(argument, "--", 2) != 0 || strncmp(argument + 2, name, length) != 0)
        return 0;
    if (argument[2 + length] == '=')
        *value = argument + 3 + length;
    return argument[2 + length] == '=' || argument[2 + length] == '\0';
}

/* Flags take no value; returns whether `argument` was one. */
static int parse_flag(struct run *run, const char *argument)
{
    if (strcmp(argument, "--help") == 0) {
        print_usage(run->workload);
        exit(STATUS_DONE);
    }
    if (strcmp(argument, "--step") == 0)
        run->options.step = 1;
    else if (strcmp(argument, "--capabilities") == 0)
        run->options.capabilities = 1;
    else
        return 0;
    return 1;
}

/* An option with a value, from `argument` or `next`; returns how many words it took. */
static int parse_option(struct run *run, const char *argument, const char *next)
{
    static const char *const names[] = {"threads", "ops",   "batches", "warmup",
                                        "min-ms",  "limit", "stall",   NULL};
    const struct param *params = run->workload->params;
    struct options *options = &run->options;
    const char *value = NULL;
    int common, own, words;

    for (common = 0; names[common] != NULL; common++)
        if (is_option(argument, names[common], &value))
            break;
    for (own = 0; names[common] == NULL && params[own].name != NULL; own++)
        if (is_option(argument, params[own].name, &value))
            break;
    if (names[common] == NULL && params[own].name == NULL)
        fail(STATUS_USAGE, "unknown option %s (--help lists them)", argument);
    words = value == NULL ? 2 : 1;
    if (value == NULL)
        value = next;
    if (value == NULL)
        fail(STATUS_USAGE, "%s needs a value", argument);

    switch (common) {
    case 0: options->threads = (int)number("--threads", value, 1, MAX_THREADS); break;
    case 1: options->ops = number("--ops", value, 0, MAX_OPS); break;
    case 2: options->batches = (int)number("--batches", value, 1, 1000000); break;
    case 3: options->warmup = (int)number("--warmup", value, 0, 1000000); break;
    case 4: options->min_ms = number("--min-ms", value, 1, 600000); break;
    case 5: options->limit_s = number("--limit", value, 0, 1000000); break;
    case 6: options->stall_s = number("--stall", value, 0, 1000000); break;
    default: run->values[own] = param_value(&params[own], argument, value);
    }
    return words;
}

void parse_options(struct run *run, int argc, char **argv)
{
    const struct workload *workload = run->workload;
    struct options *options = &run->options;
    const char *plain[2];
    int i, words = 0;

    options->threads = 1;
    options->batches = 10;
    options->warmup = 1;
    options->min_ms = 100;
    options->stall_s = workload->token ? 20 : 0;
    for (i = 0; workload->params[i].name != NULL; i++)
        run->values[i] = workload->params[i].fallback;

    for (i = 1; i < argc;) {
        if (parse_flag(run, argv[i]))
            i++;
        else if (argv[i][0] == '-')
            i += parse_option(run, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        else if (words < 2)
            plain[words++] = argv[i++];
        else
            fail(STATUS_USAGE, "too many arguments: %s", argv[i]);
    }
    if (words == 1)
        fail(STATUS_USAGE, "the plain form is THREADS OPS; only %s was given", plain[0]);
    if (words == 2) {
        options->plain = 1;
        options->threads = (int)number("THREADS", plain[0], 1, MAX_THREADS);
        options->ops = number("OPS", plain[1], 1, MAX_OPS);
    }
    if (!workload->token && options->ops != 0 && options->ops < (unsigned long)options->threads)
        fail(STATUS_USAGE, "--ops: %lu is fewer than one for each of the %d workers",
             options->ops, options->threads);
}
