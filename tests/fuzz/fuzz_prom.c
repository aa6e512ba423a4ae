/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, help, label keys, label values and bounds as a program might pass them to prom.h: whatever
 * they are, a metric is refused or shown in a way that cannot be taken for anything else. The input
 * is a list of texts ended by NUL: name, help, label key, label value, and the bytes of bounds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/metrics/metric.h"
#include "lib/prom/prom.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : fail(#condition))

static void fail(const char *what)
{
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

enum { NAME, HELP, KEY, VALUE, TEXTS, BOUNDS_MAX = 8 };

struct input {
    char *texts[TEXTS];
    double bounds[BOUNDS_MAX];
    size_t nbounds;
};

static void read_input(struct input *input, const uint8_t *data, size_t size)
{
    memset(input, 0, sizeof *input);
    for (int i = 0; i < TEXTS; i++) {
        const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
        const size_t length = end ? (size_t)(end - data) : size;
        input->texts[i] = calloc(1, length + 1); /* its own, so that a byte too far is seen */
        MUST(input->texts[i] != NULL);
        if (length > 0)
            memcpy(input->texts[i], data, length);
        data += length + (end != NULL);
        size -= length + (end != NULL);
    }
    for (; size >= sizeof(double) && input->nbounds < BOUNDS_MAX; size -= sizeof(double)) {
        memcpy(&input->bounds[input->nbounds++], data, sizeof(double));
        data += sizeof(double);
    }
}

static prom_histogram_buckets_t *make_buckets(const struct input *input)
{
    prom_histogram_buckets_t *buckets = malloc(sizeof *buckets);
    double *bounds = malloc(sizeof input->bounds);
    MUST(buckets != NULL && bounds != NULL);
    memcpy(bounds, input->bounds, sizeof input->bounds);
    *buckets = (prom_histogram_buckets_t){.count = (int)input->nbounds, .upper_bounds = bounds};
    return buckets;
}

/* Every line is a comment or ends in a number, and no text of the input has made a line of its own.
 */
static void check_text(const char *text, size_t samples)
{
    size_t found = 0;
    for (const char *line = text; *line != '\0';) {
        const char *end = strchr(line, '\n');
        MUST(end != NULL);
        if (*line != '#') {
            const char *space = memrchr(line, ' ', (size_t)(end - line));
            char *number_end;
            MUST(space != NULL);
            strtod(space + 1, &number_end);
            MUST(number_end == end);
            found++;
        } else {
            MUST(strncmp(line, "# HELP ", 7) == 0 || strncmp(line, "# TYPE ", 7) == 0);
        }
        line = end + 1;
    }
    MUST(found == samples);
}

static void scrape(prom_collector_registry_t *registry, enum metric_format format)
{
    const struct metric_scrape_options options = {.format = format, .created = true};
    struct metric_buffer out = {0};
    prom_scrape_t *reading = prom_scrape_begin(registry, &options);
    MUST(reading != NULL);
    while (metric_scrape_step(prom_scrape_reading(reading), &out, 1)) {
    }
    MUST(!out.failed);
    prom_scrape_end(&reading);
    metric_buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input;
    read_input(&input, data, size);
    prom_collector_registry_t *registry = prom_collector_registry_new("fuzz");
    prom_collector_t *collector = prom_collector_new("fuzz");
    MUST(prom_collector_registry_register_collector(registry, collector) == 0);
    const char *keys[] = {input.texts[KEY]}, *values[] = {input.texts[VALUE]};
    size_t samples = 0;

    prom_counter_t *counter = prom_counter_new(input.texts[NAME], input.texts[HELP], 1, keys);
    MUST(!counter ||
         prom_collector_registry_validate_metric_name(registry, input.texts[NAME]) == 0);
    if (counter) {
        MUST(prom_collector_add_metric(collector, counter) == 0);
        MUST(prom_counter_add(counter, 0.5, values) == 0);
        samples++;
    }
    prom_histogram_buckets_t *buckets = make_buckets(&input);
    prom_histogram_t *histogram = prom_histogram_new("h", input.texts[HELP], buckets, 1, keys);
    if (histogram && prom_collector_add_metric(collector, histogram) == 0) {
        for (size_t i = 0; i < input.nbounds; i++)
            MUST(prom_histogram_observe(histogram, input.bounds[i], values) == 0);
        if (input.nbounds > 0) {
            char *text = (char *)(uintptr_t)prom_collector_registry_bridge(registry);
            const char *at = text;
            MUST(text != NULL);
            samples += 2;
            for (; (at = strstr(at, "\nh_bucket{")) != NULL; at++)
                samples++;
            free(text);
        } else {
            prom_histogram_destroy(histogram); /* without an observation it has no series */
        }
    } else if (histogram) {
        prom_histogram_destroy(histogram);
    } else {
        MUST(prom_histogram_buckets_destroy(buckets) == 0); /* ours still */
    }
    char *text = (char *)(uintptr_t)prom_collector_registry_bridge(registry);
    MUST(text != NULL);
    check_text(text, samples);
    free(text);
    for (int format = METRIC_OPENMETRICS; format <= METRIC_OPENMETRICS_2; format++)
        scrape(registry, (enum metric_format)format);
    prom_collector_registry_destroy(registry);
    for (int i = 0; i < TEXTS; i++)
        free(input.texts[i]);
    return 0;
}
