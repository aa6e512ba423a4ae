/* SPDX-License-Identifier: Apache-2.0 */
/* Collectors of prom_collector.h. Any thread. */
#include "lib/prom/prom_collector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/metrics/family.h"
#include "lib/prom/internal.h"
#include "lib/prom/process.h"

static bool lock_init_recursive(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0)
        return false;
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    const bool made = pthread_mutex_init(mutex, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
    return made;
}

prom_collector_t *prom_collector_new(const char *name)
{
    if (!name) {
        prom_fail("a collector needs a name");
        return NULL;
    }
    struct prom_collector *collector = calloc(1, sizeof *collector);
    char *copy = strdup(name);
    if (!collector || !copy || !lock_init_recursive(&collector->running)) {
        prom_fail("out of memory (collector)");
        free(collector);
        free(copy);
        return NULL;
    }
    collector->magic = PROM_COLLECTOR_MAGIC;
    collector->name = copy;
    prom_catalog_lock();
    prom_catalog_add_collector(collector);
    prom_catalog_unlock();
    return collector;
}

void prom_collector_free(struct prom_collector *collector)
{
    BASE_CHECK_MAGIC(collector, PROM_COLLECTOR_MAGIC);
    BASE_CHECK(!collector->metrics);
    prom_process_free(&collector->process);
    pthread_mutex_destroy(&collector->running);
    free(collector->name);
    collector->magic = 0;
    free(collector);
}

int prom_collector_destroy(prom_collector_t *self)
{
    struct prom_dropped dropped = {0};
    if (!self)
        return 0;
    BASE_CHECK_MAGIC(self, PROM_COLLECTOR_MAGIC);
    prom_catalog_lock();
    prom_catalog_detach_collector(self, &dropped);
    prom_catalog_unlock();
    prom_catalog_free_dropped(&dropped);
    prom_catalog_leave_collector(self);
    return 0;
}

int prom_collector_destroy_generic(void *gen)
{
    return prom_collector_destroy(gen);
}

void prom_collector_free_generic(void *gen)
{
    prom_collector_destroy(gen);
}

/* ---- metrics -------------------------------------------------------------------------------- */

static bool can_be_held(const prom_collector_t *self, const prom_metric_t *metric)
{
    if (!self || !metric) {
        prom_fail("the %s is NULL", self ? "metric" : "collector");
        return false;
    }
    BASE_CHECK_MAGIC(self, PROM_COLLECTOR_MAGIC);
    BASE_CHECK_MAGIC(metric, PROM_METRIC_MAGIC);
    if (!metric->core) {
        prom_fail("%.80s is scraped with the registry of its family", metric->family->name);
        return false;
    }
    return true;
}

int prom_collector_add_metric(prom_collector_t *self, prom_metric_t *metric)
{
    if (!can_be_held(self, metric))
        return 1;
    struct prom_link *link = prom_link_new(metric);
    if (!link)
        return 1;
    prom_catalog_lock();
    const struct prom_metric *clash = prom_catalog_clash(self, metric);
    char name[81] = "";
    if (clash) {
        snprintf(name, sizeof name, "%s", clash->family->name);
    } else {
        prom_catalog_append(&self->metrics, link);
        metric->life.holders++;
    }
    prom_catalog_unlock();
    if (!clash)
        return 0;
    free(link);
    return prom_fail("%.80s: its name is used by %s, or by one of its samples",
                     metric->family->name, name);
}

int prom_collector_remove_metric(prom_collector_t *self, prom_metric_t *metric)
{
    struct prom_dropped dropped = {0};
    if (!self || !metric)
        return prom_fail("the %s is NULL", self ? "metric" : "collector");
    BASE_CHECK_MAGIC(self, PROM_COLLECTOR_MAGIC);
    prom_catalog_lock();
    struct prom_link **at = prom_catalog_find(&self->metrics, metric);
    if (at)
        prom_catalog_drop_metric(at, &dropped);
    prom_catalog_unlock();
    prom_catalog_free_dropped(&dropped);
    return at ? 0 : prom_fail("the collector %.80s does not have the metric", self->name);
}

/* ---- the function --------------------------------------------------------------------------- */

int prom_collector_set_collect_fn(prom_collector_t *self, prom_collect_fn *fn)
{
    if (!self)
        return prom_fail("the collector is NULL");
    BASE_CHECK_MAGIC(self, PROM_COLLECTOR_MAGIC);
    prom_catalog_lock();
    prom_collect_fn *former = self->collect;
    self->collect = fn;
    prom_catalog_unlock();
    if (former) { /* returns when it has; without one, there is nothing to wait for with locks held
                   */
        pthread_mutex_lock(&self->running);
        pthread_mutex_unlock(&self->running);
    }
    return 0;
}

void prom_collector_run(struct prom_collector *collector)
{
    pthread_mutex_lock(&collector->running);
    prom_catalog_lock();
    prom_collect_fn *collect = collector->collect;
    prom_catalog_unlock();
    if (collect)
        collect(collector);
    pthread_mutex_unlock(&collector->running);
}
