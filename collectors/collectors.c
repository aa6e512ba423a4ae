/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers the rows of metrics.def and owns their families. Created and freed on one thread;
 * counting works on any thread.
 */
#include "collectors/collectors.h"

#include <stdlib.h>
#include <time.h>

#include "collectors/measures.h"
#include "collectors/rows.h"
#include "lib/base/check.h"
#include "lib/metrics/number.h"

#define BUCKETS(set, schema, low, high, ...)                                                       \
    enum { SCHEMA_##set = (schema), LOW_##set = (low), HIGH_##set = (high) };                      \
    static const double bounds_##set[] = {__VA_ARGS__};
#include "collectors/metrics.def"

#define NO_LABELS   .labels = {NULL}
#define LABELS(...) .labels = {__VA_ARGS__}
#define NO_BUCKETS  .nbounds = 0
#define BUCKETS_OF(set)                                                                            \
    .bounds = bounds_##set, .nbounds = sizeof bounds_##set / sizeof *bounds_##set,                 \
    .native = {SCHEMA_##set, LOW_##set, HIGH_##set}

static const struct metric_desc rows[] = {
#define METRIC(symbol, kind, text, base_unit, label_names, buckets, flag_bits, help_text)          \
    [COLLECTORS_##symbol] = {.name = (text),                                                       \
                             .type = METRIC_##kind,                                                \
                             .unit = (base_unit),                                                  \
                             .help = (help_text),                                                  \
                             label_names,                                                          \
                             buckets,                                                              \
                             .flags = (flag_bits)},
#include "collectors/metrics.def"
};

const struct metric_desc *collectors_metrics(size_t *count)
{
    *count = sizeof rows / sizeof *rows;
    return rows;
}

static bool register_rows(struct collectors *collectors)
{
    for (size_t row = 0; row < COLLECTORS_ROWS; row++) {
        struct metric_error error;
        struct metric_family *family = metric_register(collectors->registry, &rows[row], &error);
        BASE_CHECK(family != NULL || error.code == METRIC_ERR_MEMORY); /* the table is our own */
        if (family == NULL)
            return false;
        collectors->families[row] = family;
        if (rows[row].labels[0] == NULL)
            collectors->single[row] = metric_resolve(family, NULL);
        collectors->metrics[row] = prom_metric_of_family(family);
        if (collectors->metrics[row] == NULL)
            return false;
    }
    return true;
}

prom_metric_sample_t *collectors_gauge(const struct collectors *collectors, enum collectors_row row,
                                       const char *const *labels)
{
    return prom_metric_sample_of_series(metric_resolve(collectors->families[row], labels));
}

static void set_build_info(struct collectors *collectors, const struct collectors_options *options)
{
    bool known = options->revision != NULL && *options->revision != '\0';
    const char *labels[] = {options->version, known ? options->revision : "unknown", __VERSION__};
    prom_gauge_set(collectors->metrics[COLLECTORS_BUILD_INFO], 1, labels);
}

static struct metric_series *scrapes_of_code(struct collectors *collectors, int code)
{
    char text[METRIC_NUMBER_MAX];
    *metric_number_u64(text, code < 0 ? 0 : (uint64_t)code) = '\0';
    const char *const labels[] = {text};
    return metric_resolve(collectors->families[COLLECTORS_SCRAPES], labels);
}

static void read_dropped(void *arg)
{
    struct collectors *collectors = arg;
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    prom_counter_set(collectors->metrics[COLLECTORS_SERIES_DROPPED],
                     (double)metric_series_dropped(collectors->registry), NULL);
}

struct collectors *collectors_new(const struct collectors_options *options)
{
    struct collectors *collectors = calloc(1, sizeof *collectors);
    if (collectors == NULL)
        return NULL;
    collectors->magic = COLLECTORS_MAGIC;
    pthread_mutex_init(&collectors->targets.lock, NULL);
    collectors->registry = metric_registry_new(&(struct metric_registry_options){
        .threads = options->threads, .max_series = options->max_series});
    if (collectors->registry == NULL || !register_rows(collectors) ||
        !collectors_targets_init(collectors) ||
        !metric_on_scrape(collectors->registry, read_dropped, collectors) ||
        !metric_on_scrape(collectors->registry, collectors_client_read, collectors) ||
        !metric_on_scrape(collectors->registry, collectors_standing_read, collectors) ||
        !metric_on_scrape(collectors->registry, collectors_channels_read, collectors) ||
        !metric_on_scrape(collectors->registry, collectors_loops_read, collectors) ||
        !metric_on_scrape(collectors->registry, collectors_process_read, collectors)) {
        collectors_free(&collectors);
        return NULL;
    }
    set_build_info(collectors, options);
    collectors_client_init(collectors);
    collectors_loops_init(collectors);
    /* at 0 from the start, so that the first refusal is an increase */
    scrapes_of_code(collectors, 200);
    scrapes_of_code(collectors, 503);
    return collectors;
}

void collectors_free(struct collectors **collectors)
{
    struct collectors *dying = *collectors;
    if (dying == NULL)
        return;
    BASE_CHECK(dying->magic == COLLECTORS_MAGIC);
    *collectors = NULL;
    collectors_targets_free(&dying->targets);
    for (size_t row = 0; row < COLLECTORS_ROWS; row++)
        prom_gauge_destroy(dying->metrics[row]);
    metric_registry_free(&dying->registry);
    dying->magic = 0;
    free(dying);
}

struct metric_registry *collectors_registry(struct collectors *collectors)
{
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    return collectors->registry;
}

void collectors_scrape_started(struct collectors *collectors)
{
    prom_gauge_inc(collectors->metrics[COLLECTORS_SCRAPES_IN_FLIGHT], NULL);
}

void collectors_scrape_done(struct collectors *collectors, int code, double seconds)
{
    prom_gauge_dec(collectors->metrics[COLLECTORS_SCRAPES_IN_FLIGHT], NULL);
    metric_observe(collectors->single[COLLECTORS_SCRAPE_DURATION], seconds);
    metric_add(scrapes_of_code(collectors, code), 1);
}

void collectors_config_reloaded(struct collectors *collectors, bool ok)
{
    prom_gauge_set(collectors->metrics[COLLECTORS_CONFIG_RELOAD_SUCCESSFUL], ok ? 1 : 0, NULL);
    if (!ok)
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    prom_gauge_set(collectors->metrics[COLLECTORS_CONFIG_RELOAD_TIME],
                   (double)now.tv_sec + (double)now.tv_nsec / 1e9, NULL);
}

void collectors_log_suppressed(struct collectors *collectors, uint64_t lines)
{
    metric_add(collectors->single[COLLECTORS_LOG_SUPPRESSED], lines);
}
