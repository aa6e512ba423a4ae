/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds what, and what is freed when; catalog.h tells the story. Any thread. */
#include "lib/prom/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/metrics/family.h"
#include "lib/metrics/names.h"

static pthread_mutex_t catalog = PTHREAD_MUTEX_INITIALIZER;
static struct prom_collector *all_collectors;
static struct prom_collector_registry *all_registries;
static uint64_t last_registry_id;

void prom_catalog_lock(void)
{
    pthread_mutex_lock(&catalog);
}

void prom_catalog_unlock(void)
{
    pthread_mutex_unlock(&catalog);
}

struct prom_link *prom_link_new(void *held)
{
    struct prom_link *link = malloc(sizeof *link);
    if (link)
        *link = (struct prom_link){.held = held};
    else
        prom_fail("out of memory");
    return link;
}

/* ---- lists ---------------------------------------------------------------------------------- */

struct prom_link **prom_catalog_find(struct prom_link **list, const void *held)
{
    while (*list && (*list)->held != held)
        list = &(*list)->next;
    return *list ? list : NULL;
}

void prom_catalog_append(struct prom_link **list, struct prom_link *link)
{
    while (*list)
        list = &(*list)->next;
    *list = link;
}

static struct prom_link *unlink_at(struct prom_link **at)
{
    struct prom_link *link = *at;
    *at = link->next;
    link->next = NULL;
    return link;
}

static void push_link(struct prom_link **list, struct prom_link *link)
{
    link->next = *list;
    *list = link;
}

void prom_catalog_add_collector(struct prom_collector *collector)
{
    collector->next = all_collectors;
    all_collectors = collector;
}

void prom_catalog_add_registry(struct prom_collector_registry *registry)
{
    registry->id = ++last_registry_id;
    registry->next = all_registries;
    all_registries = registry;
}

uint64_t prom_catalog_registry_id(const struct prom_collector_registry *registry)
{
    const struct prom_collector_registry *known = all_registries;
    while (known && known != registry)
        known = known->next;
    return known ? known->id : 0;
}

const struct prom_collector_registry *prom_catalog_registry(uint64_t id)
{
    const struct prom_collector_registry *known = all_registries;
    while (known && known->id != id)
        known = known->next;
    return known;
}

static void forget_collector(const struct prom_collector *collector)
{
    struct prom_collector **at = &all_collectors;
    while (*at && *at != collector)
        at = &(*at)->next;
    if (*at)
        *at = collector->next;
}

static void forget_registry(const struct prom_collector_registry *registry)
{
    struct prom_collector_registry **at = &all_registries;
    while (*at && *at != registry)
        at = &(*at)->next;
    if (*at)
        *at = registry->next;
}

/* ---- names ---------------------------------------------------------------------------------- */

static bool metrics_clash(const struct prom_metric *one, const struct prom_metric *other)
{
    return metric_names_clash(one->family->name, one->type, other->family->name, other->type);
}

static const struct prom_metric *clash_within(const struct prom_collector *collector,
                                              const struct prom_metric *metric)
{
    const struct prom_link *link = collector->metrics;
    while (link && !metrics_clash(link->held, metric))
        link = link->next;
    return link ? link->held : NULL;
}

static const struct prom_metric *clash_in_registry(const struct prom_collector_registry *registry,
                                                   const struct prom_metric *metric)
{
    const struct prom_metric *clash = NULL;
    const struct prom_link *link = registry->collectors;
    for (; link && !clash; link = link->next) {
        const struct prom_collector *collector = link->held;
        clash = clash_within(collector, metric);
    }
    return clash;
}

const struct prom_metric *prom_catalog_clash(const struct prom_collector *collector,
                                             const struct prom_metric *metric)
{
    const struct prom_metric *clash = clash_within(collector, metric);
    struct prom_collector_registry *registry = all_registries;
    for (; registry && !clash; registry = registry->next) {
        if (prom_catalog_find(&registry->collectors, collector))
            clash = clash_in_registry(registry, metric);
    }
    return clash;
}

const struct prom_metric *prom_catalog_clash_in(const struct prom_collector_registry *registry,
                                                const struct prom_collector *collector)
{
    const struct prom_metric *clash = NULL;
    const struct prom_link *link = collector->metrics;
    for (; link && !clash; link = link->next)
        clash = clash_in_registry(registry, link->held);
    return clash;
}

struct prom_collector *prom_catalog_named(const struct prom_collector_registry *registry,
                                          const char *name)
{
    for (const struct prom_link *link = registry->collectors; link; link = link->next) {
        struct prom_collector *collector = link->held;
        if (strcmp(collector->name, name) == 0)
            return collector;
    }
    return NULL;
}

/* ---- letting go ----------------------------------------------------------------------------- */

static void let_go_of_metric(struct prom_link *link, struct prom_dropped *dropped)
{
    struct prom_metric *metric = link->held;
    BASE_CHECK(metric->life.holders > 0);
    if (--metric->life.holders == 0)
        metric->life.gone = true;
    push_link(prom_life_is_over(&metric->life) ? &dropped->metrics_over : &dropped->spare, link);
}

void prom_catalog_drop_metric(struct prom_link **at, struct prom_dropped *dropped)
{
    let_go_of_metric(unlink_at(at), dropped);
}

/* No registry has it any more, so no scrape begins to run its function or shows its metrics. It
 * keeps them, and whatever is added to it, until its last reader leaves. */
static void end_collector(struct prom_collector *collector)
{
    collector->life.gone = true;
    collector->collect = NULL;
}

void prom_catalog_drop_collector(struct prom_link **at, struct prom_dropped *dropped)
{
    struct prom_link *link = unlink_at(at);
    struct prom_collector *collector = link->held;
    BASE_CHECK(collector->life.holders > 0);
    if (--collector->life.holders > 0) {
        push_link(&dropped->spare, link);
        return;
    }
    end_collector(collector);
    collector->life.readers++; /* ours, until it is freed */
    push_link(&dropped->collectors_over, link);
}

void prom_catalog_detach_metric(struct prom_metric *metric, struct prom_dropped *dropped)
{
    struct prom_collector *collector = all_collectors;
    metric->life.holders++; /* so that the last collector does not end it, but the caller */
    for (; collector; collector = collector->next) {
        struct prom_link **at = prom_catalog_find(&collector->metrics, metric);
        if (at)
            prom_catalog_drop_metric(at, dropped);
    }
    metric->life.holders--;
    metric->life.gone = true;
}

void prom_catalog_detach_collector(struct prom_collector *collector, struct prom_dropped *dropped)
{
    struct prom_collector_registry *registry = all_registries;
    for (; registry; registry = registry->next) {
        struct prom_link **at = prom_catalog_find(&registry->collectors, collector);
        if (!at)
            continue;
        collector->life.holders--;
        push_link(&dropped->spare, unlink_at(at));
    }
    BASE_CHECK(collector->life.holders == 0);
    end_collector(collector);
    collector->life.readers++; /* the caller's */
}

void prom_catalog_detach_registry(struct prom_collector_registry *registry,
                                  struct prom_dropped *dropped)
{
    forget_registry(registry);
    while (registry->collectors)
        prom_catalog_drop_collector(&registry->collectors, dropped);
}

/* ---- freeing -------------------------------------------------------------------------------- */

static void free_links(struct prom_link **list)
{
    while (*list)
        free(unlink_at(list));
}

static void free_dropped_metrics(struct prom_dropped *dropped)
{
    for (const struct prom_link *link = dropped->metrics_over; link; link = link->next)
        prom_metric_free(link->held);
    free_links(&dropped->metrics_over);
    free_links(&dropped->spare);
}

/* Under the lock. */
static void empty_collector(struct prom_collector *collector, struct prom_dropped *dropped)
{
    forget_collector(collector);
    while (collector->metrics)
        prom_catalog_drop_metric(&collector->metrics, dropped);
}

void prom_catalog_leave_collector(struct prom_collector *collector)
{
    struct prom_dropped dropped = {0};
    prom_catalog_lock();
    collector->life.readers--;
    const bool over = prom_life_is_over(&collector->life);
    if (over)
        empty_collector(collector, &dropped);
    prom_catalog_unlock();
    if (!over)
        return;
    free_dropped_metrics(&dropped);
    prom_collector_free(collector);
}

void prom_catalog_leave_metric(struct prom_metric *metric)
{
    prom_catalog_lock();
    metric->life.readers--;
    const bool over = prom_life_is_over(&metric->life);
    prom_catalog_unlock();
    if (over)
        prom_metric_free(metric);
}

void prom_catalog_free_dropped(struct prom_dropped *dropped)
{
    for (const struct prom_link *link = dropped->collectors_over; link; link = link->next)
        prom_catalog_leave_collector(link->held);
    free_links(&dropped->collectors_over);
    free_dropped_metrics(dropped);
}
