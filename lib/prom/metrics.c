/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of prom_metric.h: each is a registry of the core with one family, so that it can exist
 * before it is in a collector, be in several, and be freed by itself. Any thread.
 */
#include "lib/prom/internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/metrics/family.h"

/* Threads with their own cells: those that run at once, and some. More cells cost memory for each
 * series, fewer cost threads that share. */
enum { SHARDS_MIN = 4, SHARDS_MAX = 16, SHARDS_BEYOND_CORES = 2 };

static unsigned shards;
static pthread_once_t shards_once = PTHREAD_ONCE_INIT;

static void count_shards(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const long wanted = (cores > 0 ? cores : 1) + SHARDS_BEYOND_CORES;
    shards = (unsigned)(wanted < SHARDS_MIN   ? SHARDS_MIN
                        : wanted > SHARDS_MAX ? SHARDS_MAX
                                              : wanted);
}

static bool copy_keys(struct metric_desc *desc, size_t count, const char **keys)
{
    if (count > METRIC_LABELS_MAX) {
        prom_fail("%.80s has %zu labels; at most %d are allowed", desc->name, count,
                  METRIC_LABELS_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!keys || !keys[i] || keys[i][0] == '*') { /* to the core a mark, here a bad letter */
            prom_fail("label key %zu of %.80s is not a label name", i + 1, desc->name);
            return false;
        }
        desc->labels[i] = keys[i];
    }
    return true;
}

static struct prom_metric *wrap_family(struct metric_family *family, struct metric_registry *core)
{
    struct prom_metric *metric = calloc(1, sizeof *metric);
    if (!metric) {
        prom_fail("out of memory");
        return NULL;
    }
    metric->magic = PROM_METRIC_MAGIC;
    metric->type = family->type;
    metric->nlabels = family->nlabels;
    metric->family = family;
    metric->core = core;
    return metric;
}

struct prom_metric *prom_metric_make(struct metric_desc *desc, size_t label_key_count,
                                     const char **label_keys)
{
    if (!desc->name || !desc->help) {
        prom_fail("a metric needs a name and a help text");
        return NULL;
    }
    if (!copy_keys(desc, label_key_count, label_keys))
        return NULL;
    pthread_once(&shards_once, count_shards);
    desc->flags |= METRIC_ANY_NAME;
    struct metric_error error = {.message = "out of memory"};
    struct metric_registry *core = metric_registry_new(
        &(struct metric_registry_options){.threads = shards, .max_series = SIZE_MAX});
    struct metric_family *family = core ? metric_register(core, desc, &error) : NULL;
    if (!family)
        prom_fail("%.80s: %s", desc->name, error.message);
    struct prom_metric *metric = family ? wrap_family(family, core) : NULL;
    if (!metric)
        metric_registry_free(&core);
    return metric;
}

prom_metric_t *prom_metric_of_family(struct metric_family *family)
{
    return wrap_family(family, NULL);
}

void prom_metric_free(struct prom_metric *metric)
{
    BASE_CHECK_MAGIC(metric, PROM_METRIC_MAGIC);
    metric_registry_free(&metric->core);
    if (metric->buckets)
        prom_buckets_release(metric->buckets);
    metric->magic = 0;
    free(metric);
}

int prom_metric_destroy(struct prom_metric *metric)
{
    struct prom_dropped dropped = {0};
    if (!metric)
        return 0;
    BASE_CHECK_MAGIC(metric, PROM_METRIC_MAGIC);
    prom_catalog_lock();
    prom_catalog_detach_metric(metric, &dropped);
    const bool over = prom_life_is_over(&metric->life);
    prom_catalog_unlock();
    prom_catalog_free_dropped(&dropped);
    if (over)
        prom_metric_free(metric);
    return 0;
}

/* ---- series --------------------------------------------------------------------------------- */

__attribute__((cold)) static struct metric_series *no_series(const char *why)
{
    prom_fail("%s", why);
    return NULL;
}

static bool values_are_there(const struct prom_metric *metric, const char **label_values)
{
    if (!label_values)
        return metric->nlabels == 0;
    for (size_t i = 0; i < metric->nlabels; i++) {
        if (!label_values[i])
            return false;
    }
    return true;
}

/* NULL: it is. */
static const char *why_not_of_type(const struct prom_metric *metric, enum metric_type type)
{
    if (!metric)
        return "the metric is NULL";
    BASE_CHECK_MAGIC(metric, PROM_METRIC_MAGIC);
    return metric->type == type ? NULL : "the metric is of another type";
}

struct metric_series *prom_metric_series(struct prom_metric *metric, enum metric_type type,
                                         const char **label_values)
{
    const char *why = why_not_of_type(metric, type);
    if (why)
        return no_series(why);
    if (!values_are_there(metric, label_values))
        return no_series("a label value is NULL");
    struct metric_series *series = metric_resolve_exact(metric->family, label_values);
    return series ? series
                  : no_series("out of memory, or the family has all the series that it may have");
}

int prom_metric_clear(struct prom_metric *metric, enum metric_type type)
{
    const char *why = why_not_of_type(metric, type);
    if (why)
        return prom_fail("%s", why);
    metric_family_retire(metric->family);
    return 0;
}

prom_metric_sample_t *prom_metric_sample_from_labels(prom_metric_t *self, const char **label_values)
{
    const enum metric_type type =
        self && self->type == METRIC_GAUGE ? METRIC_GAUGE : METRIC_COUNTER;
    return (prom_metric_sample_t *)prom_metric_series(self, type, label_values);
}

prom_metric_sample_histogram_t *prom_metric_sample_histogram_from_labels(prom_metric_t *self,
                                                                         const char **label_values)
{
    return (prom_metric_sample_histogram_t *)prom_metric_series(self, METRIC_HISTOGRAM,
                                                                label_values);
}
