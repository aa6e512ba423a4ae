/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrapes of prom_scrape.h, and the bridge: the collect functions run, one after the other; then
 * the metrics that the registry has are read as one scrape of the core, which keeps them alive
 * until it ends. The thread that scrapes.
 */
#include "lib/prom/prom_scrape.h"

#include <stdlib.h>

#include "lib/base/check.h"
#include "lib/prom/internal.h"

struct prom_scrape {
    unsigned magic;
    struct metric_scrape *reading;
    struct prom_metric **metrics; /* of which the scrape is a reader */
    struct metric_registry **cores;
    size_t count;
};

enum { STEP_WHOLE = 1 << 20, SPARE = 8 /* for what is added between counting and reading */ };

/* A function that scrapes would run itself again, or wait for one that waits for it. */
static _Thread_local bool collecting;

static const char no_such_registry[] = "there is no such registry";

/* ---- the collect functions ------------------------------------------------------------------ */

/* Under the lock: the collectors, up to `most`, become read by us; how many there are. */
static size_t read_collectors(const struct prom_collector_registry *registry,
                              struct prom_collector **collectors, size_t most)
{
    size_t count = 0;
    for (const struct prom_link *link = registry->collectors; link; link = link->next, count++) {
        if (count >= most)
            continue;
        collectors[count] = link->held;
        collectors[count]->life.readers++;
    }
    return count;
}

/* -1: there is no such registry. */
static ssize_t list_collectors(uint64_t id, struct prom_collector **collectors, size_t most)
{
    prom_catalog_lock();
    const struct prom_collector_registry *registry = prom_catalog_registry(id);
    const size_t count = registry ? read_collectors(registry, collectors, most) : 0;
    prom_catalog_unlock();
    return registry ? (ssize_t)count : -1;
}

/* Each is read until all have run, because a function may set the metrics of another collector. */
static void run_each(struct prom_collector **collectors, size_t most)
{
    collecting = true;
    for (size_t i = 0; i < most && collectors[i]; i++)
        prom_collector_run(collectors[i]);
    collecting = false;
    for (size_t i = 0; i < most && collectors[i]; i++)
        prom_catalog_leave_collector(collectors[i]);
}

/* false: no memory, or no such registry. Collectors that are registered while their number is asked
 * for wait for the next scrape. */
static bool run_collectors(uint64_t id)
{
    if (collecting)
        return prom_fail("a collect function must not scrape") == 0;
    const ssize_t counted = list_collectors(id, NULL, 0);
    if (counted < 0)
        return prom_fail("%s", no_such_registry) == 0;
    const size_t most = (size_t)counted + SPARE;
    struct prom_collector **collectors = calloc(most, sizeof(struct prom_collector *));
    if (!collectors)
        return prom_fail("out of memory (scrape)") == 0;
    list_collectors(id, collectors, most);
    run_each(collectors, most);
    free(collectors);
    return true;
}

/* ---- the metrics ---------------------------------------------------------------------------- */

/* Under the lock. */
static size_t count_metrics(const struct prom_collector_registry *registry)
{
    size_t count = 0;
    for (const struct prom_link *held = registry->collectors; held; held = held->next) {
        const struct prom_collector *collector = held->held;
        for (const struct prom_link *link = collector->metrics; link; link = link->next)
            count++;
    }
    return count;
}

/* Under the lock: the metrics become read by the scrape, which has room for them. */
static void read_metrics(const struct prom_collector_registry *registry, struct prom_scrape *scrape)
{
    for (const struct prom_link *held = registry->collectors; held; held = held->next) {
        const struct prom_collector *collector = held->held;
        for (const struct prom_link *link = collector->metrics; link; link = link->next) {
            struct prom_metric *metric = link->held;
            metric->life.readers++;
            scrape->metrics[scrape->count] = metric;
            scrape->cores[scrape->count++] = metric->core;
        }
    }
}

/* How many metrics there are; they are read unless these are more than `most`. -1: there is no such
 * registry (any more: a collect function may have destroyed it). */
static ssize_t list_metrics(uint64_t id, struct prom_scrape *scrape, size_t most)
{
    prom_catalog_lock();
    const struct prom_collector_registry *registry = prom_catalog_registry(id);
    const size_t count = registry ? count_metrics(registry) : 0;
    if (registry && count <= most)
        read_metrics(registry, scrape);
    prom_catalog_unlock();
    return registry ? (ssize_t)count : -1;
}

static bool make_metric_lists(struct prom_scrape *scrape, size_t most)
{
    free(scrape->metrics);
    free(scrape->cores);
    scrape->metrics = calloc(most, sizeof(struct prom_metric *));
    scrape->cores = calloc(most, sizeof(struct metric_registry *));
    return scrape->metrics && scrape->cores;
}

/* All or none: a metric that is missing in one scrape reads as one that has ended. */
static bool gather_metrics(uint64_t id, struct prom_scrape *scrape)
{
    for (size_t most = SPARE;;) {
        if (!make_metric_lists(scrape, most))
            return prom_fail("out of memory (scrape)") == 0;
        const ssize_t found = list_metrics(id, scrape, most);
        if (found < 0)
            return prom_fail("%s", no_such_registry) == 0;
        if ((size_t)found <= most)
            return true;
        most = (size_t)found + SPARE;
    }
}

prom_scrape_t *prom_scrape_begin_id(uint64_t id, const struct metric_scrape_options *options)
{
    if (!run_collectors(id))
        return NULL;
    struct prom_scrape *scrape = calloc(1, sizeof *scrape);
    if (!scrape) {
        prom_fail("out of memory (scrape)");
        return NULL;
    }
    scrape->magic = PROM_SCRAPE_MAGIC;
    if (!gather_metrics(id, scrape)) {
        prom_scrape_end(&scrape);
        return NULL;
    }
    scrape->reading = metric_scrape_begin_all(scrape->cores, scrape->count, options);
    if (!scrape->reading) {
        prom_fail("out of memory (scrape)");
        prom_scrape_end(&scrape);
    }
    return scrape;
}

prom_scrape_t *prom_scrape_begin(prom_collector_registry_t *self,
                                 const struct metric_scrape_options *options)
{
    return prom_scrape_begin_id(prom_collector_registry_id(self), options);
}

struct metric_scrape *prom_scrape_reading(prom_scrape_t *self)
{
    BASE_CHECK_MAGIC(self, PROM_SCRAPE_MAGIC);
    return self->reading;
}

void prom_scrape_end(prom_scrape_t **self)
{
    struct prom_scrape *scrape = *self;
    if (!scrape)
        return;
    BASE_CHECK_MAGIC(scrape, PROM_SCRAPE_MAGIC);
    *self = NULL;
    metric_scrape_end(&scrape->reading);
    for (size_t i = 0; i < scrape->count; i++)
        prom_catalog_leave_metric(scrape->metrics[i]);
    free(scrape->metrics);
    free(scrape->cores);
    scrape->magic = 0;
    free(scrape);
}

/* ---- the bridge ----------------------------------------------------------------------------- */

const char *prom_collector_registry_bridge(prom_collector_registry_t *self)
{
    const struct metric_scrape_options options = {.format = METRIC_TEXT};
    struct metric_buffer out = {0};
    prom_scrape_t *scrape = prom_scrape_begin(self, &options);
    if (!scrape)
        return NULL;
    while (metric_scrape_step(prom_scrape_reading(scrape), &out, STEP_WHOLE)) {
    }
    prom_scrape_end(&scrape);
    char *text = out.failed ? NULL : realloc(out.data, out.length + 1);
    if (!text) {
        prom_fail("out of memory (scrape)");
        metric_buffer_free(&out);
        return NULL;
    }
    text[out.length] = '\0';
    return text;
}
