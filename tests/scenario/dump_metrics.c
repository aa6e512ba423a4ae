/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a registry with everything difficult in it to stdout, for other people's parsers.
 * usage: dump_metrics text | openmetrics | protobuf [created] */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/metrics/metric.h"

static struct metric_family *add(struct metric_registry *registry, const struct metric_desc *desc)
{
    struct metric_error error;
    struct metric_family *family = metric_register(registry, desc, &error);
    if (family == NULL)
        fprintf(stderr, "%s: %s\n", desc->name, error.message);
    return family;
}

static void set(struct metric_family *gauge, const char *of, double value)
{
    metric_gauge_set(metric_resolve(gauge, (const char *[]){of}), value);
}

static void fill_singles(struct metric_registry *registry)
{
    const struct metric_exemplar exemplar = {2, (const char *[]){"trace_id", "handoff_id"},
                                             (const char *[]){"4bf9", "quote \" and \\"}};
    struct metric_family *counter =
        add(registry, &(struct metric_desc){.name = "dump_handoffs_total",
                                            .type = METRIC_COUNTER,
                                            .help = "Help with \"quotes\", \\ and\nlines.",
                                            .labels = {"*target_agent", "outcome"},
                                            .flags = METRIC_EXEMPLARS});
    metric_add_exemplar(metric_resolve(counter, (const char *[]){"coder", "ok"}), 3, &exemplar);
    metric_add(metric_resolve(counter, (const char *[]){"1\",b=\"2", "back\\slash\nline"}), 7);
    metric_add(metric_resolve(counter, (const char *[]){"bad \xff byte", "M\xc3\xbc"}), 11);
    struct metric_family *gauge =
        add(registry,
            &(struct metric_desc){
                .name = "dump_load", .type = METRIC_GAUGE, .help = "Load.", .labels = {"of"}});
    set(gauge, "nan", -NAN);
    set(gauge, "infinite", INFINITY);
    set(gauge, "minus infinite", -INFINITY);
    set(gauge, "sum", 0.1 + 0.2);
    set(gauge, "tiny", 5e-324);
}

static void fill_histogram(struct metric_registry *registry)
{
    static const double bounds[] = {0.005, 0.25, 1, 1000000, 1000001};
    static const double values[] = {0, 0.005, 0.1, 0.3, 1, 1000000, 1000001, 1e12};
    struct metric_family *histogram =
        add(registry, &(struct metric_desc){.name = "dump_duration_seconds",
                                            .type = METRIC_HISTOGRAM,
                                            .unit = "seconds",
                                            .help = "Duration.",
                                            .labels = {"target_agent"},
                                            .bounds = bounds,
                                            .nbounds = sizeof bounds / sizeof *bounds,
                                            .native = {3, -20, 10},
                                            .flags = METRIC_EXEMPLARS});
    const struct metric_exemplar exemplar = {1, (const char *[]){"trace_id"},
                                             (const char *[]){"4bf9"}};
    struct metric_series *series = metric_resolve(histogram, (const char *[]){"coder"});
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        metric_observe_exemplar(series, values[i], &exemplar);
}

static int dump(struct metric_registry *registry, const struct metric_scrape_options *options)
{
    struct metric_buffer out = {0};
    struct metric_scrape *scrape = metric_scrape_begin(registry, options);
    if (scrape == NULL)
        return 1;
    bool more;
    do {
        out.length = 0;
        more = metric_scrape_step(scrape, &out, 4096);
        fwrite(out.data, 1, out.length, stdout);
    } while (more);
    int status = out.failed || ferror(stdout) ? 1 : 0;
    metric_scrape_end(&scrape);
    metric_buffer_free(&out);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const formats[] = {"text", "openmetrics", "protobuf"};
    struct metric_scrape_options options = {.created = argc > 2 && strcmp(argv[2], "created") == 0};
    size_t format = 0;
    while (argc > 1 && format < 3 && strcmp(argv[1], formats[format]) != 0)
        format++;
    if (argc < 2 || format == 3) {
        fprintf(stderr, "usage: dump_metrics text | openmetrics | protobuf [created]\n");
        return 2;
    }
    options.format = (enum metric_format)format;
    struct metric_registry *registry =
        metric_registry_new(&(struct metric_registry_options){.threads = 1, .max_series = 100});
    if (registry == NULL)
        return 1;
    fill_singles(registry);
    fill_histogram(registry);
    int status = dump(registry, &options);
    metric_registry_free(&registry);
    return status;
}
