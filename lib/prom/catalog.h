/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog.h - metrics, collectors and registries in memory, and how long each of them lives.
 *
 * The interface lets a metric be in several collectors and a collector in several registries, and
 * any of them be freed at any time, also while it is scraped. So each counts its holders (what it
 * is in) and its readers (scrapes, and a collect function that runs). It is gone when its last
 * holder lets go of it or when it is destroyed; it is freed when it is gone and has no reader. A
 * collector holds its metrics until then, since its function may still set them and add others.
 *
 * One lock for the whole process, the catalog's, guards who holds what: these change when a program
 * starts or adds something, never at an observation. Nothing is allocated or called under it; links
 * are made before and freed after. Observations read only what is constant from the metric's birth.
 */
#ifndef PROM_CATALOG_H
#define PROM_CATALOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/metrics/metric.h"
#include "lib/prom/prom_collector.h"
#include "lib/prom/prom_collector_registry.h"
#include "lib/prom/prom_histogram_buckets.h"
#include "lib/prom/prom_metric.h"

#define PROM_METRIC_MAGIC    0x706d6501u
#define PROM_COLLECTOR_MAGIC 0x70636f01u
#define PROM_REGISTRY_MAGIC  0x70726701u
#define PROM_SCRAPE_MAGIC    0x70736301u

/* Under the catalog's lock. */
struct prom_life {
    unsigned holders;
    unsigned readers;
    bool gone; /* nobody can find it any more */
};

/* A place in a list: a collector's metric, or a registry's collector. */
struct prom_link {
    struct prom_link *next;
    void *held;
};

struct prom_metric {
    /* constant; what an observation reads */
    unsigned magic;
    enum metric_type type;
    size_t nlabels;
    struct metric_family *family;
    /* constant */
    struct metric_registry *core;      /* of this family alone; NULL: the family is not ours */
    prom_histogram_buckets_t *buckets; /* taken over; NULL: none */

    struct prom_life life;
};

struct prom_process;

struct prom_collector {
    unsigned magic;
    char *name;                   /* constant */
    struct prom_process *process; /* constant; NULL: not a collector of the process */

    /* held while the collect function runs, so that it runs once at a time; recursive, because the
     * function may change its collector */
    pthread_mutex_t running;

    /* under the catalog's lock */
    prom_collect_fn *collect;
    struct prom_link *metrics;
    struct prom_collector *next; /* of all collectors */
    struct prom_life life;
};

struct prom_collector_registry {
    unsigned magic;
    uint64_t id;                /* constant; of no registry before or after */
    char *name;                 /* constant */
    struct prom_collector *own; /* constant: of the metrics that are registered without one */

    /* under the catalog's lock */
    struct prom_link *collectors;
    struct prom_collector_registry *next; /* of all registries */
};

/* ---- the lock, and what is only called under it --------------------------------------------- */

void prom_catalog_lock(void);
void prom_catalog_unlock(void);

void prom_catalog_add_collector(struct prom_collector *collector);
void prom_catalog_add_registry(struct prom_collector_registry *registry);
/* Also of one that was freed: the pointer is only compared. 0: there is no such registry. */
uint64_t prom_catalog_registry_id(const struct prom_collector_registry *registry);
/* NULL: there is none (any more). */
const struct prom_collector_registry *prom_catalog_registry(uint64_t id);

struct prom_link **prom_catalog_find(struct prom_link **list, const void *held);
void prom_catalog_append(struct prom_link **list, struct prom_link *link);

/* What clashes with a metric in the collector or in one of its registries, or NULL. */
const struct prom_metric *prom_catalog_clash(const struct prom_collector *collector,
                                             const struct prom_metric *metric);
/* The same for a whole collector that is to be added to the registry. */
const struct prom_metric *prom_catalog_clash_in(const struct prom_collector_registry *registry,
                                                const struct prom_collector *collector);
/* The registry's collector of this name, or NULL. */
struct prom_collector *prom_catalog_named(const struct prom_collector_registry *registry,
                                          const char *name);

/* Take one out of what holds it. The links go to `spare`, to be freed without the lock; a metric or
 * collector that is over is listed as such. */
struct prom_dropped {
    struct prom_link *spare;
    struct prom_link *metrics_over;
    struct prom_link *collectors_over;
};
void prom_catalog_drop_metric(struct prom_link **at, struct prom_dropped *dropped);
void prom_catalog_drop_collector(struct prom_link **at, struct prom_dropped *dropped);
void prom_catalog_detach_metric(struct prom_metric *metric, struct prom_dropped *dropped);
/* The caller is a reader of it then. */
void prom_catalog_detach_collector(struct prom_collector *collector, struct prom_dropped *dropped);
/* Forgets the registry and lets go of its collectors. */
void prom_catalog_detach_registry(struct prom_collector_registry *registry,
                                  struct prom_dropped *dropped);

static inline bool prom_life_is_over(const struct prom_life *life)
{
    return life->gone && life->readers == 0;
}

/* ---- without the lock ----------------------------------------------------------------------- */

/* Frees the links, and what is over. */
void prom_catalog_free_dropped(struct prom_dropped *dropped);

/* NULL: no memory, and prom_last_error() says so. */
struct prom_link *prom_link_new(void *held);

/* One reader less; the last one of what is gone frees it. */
void prom_catalog_leave_metric(struct prom_metric *metric);
void prom_catalog_leave_collector(struct prom_collector *collector);

void prom_metric_free(struct prom_metric *metric);
void prom_collector_free(struct prom_collector *collector);

/* Records what prom_last_error() returns; always 1. */
int prom_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
