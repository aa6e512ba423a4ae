/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_collector_registry.h - what is scraped together: collectors, and metrics of its own.
 *
 * A registry owns its collectors; a collector in several registries is freed with the last of them.
 * A registry belongs to who made it, the default one to the program.
 *
 * All functions may be called from any thread, while scrapes run too.
 */
#ifndef PROM_COLLECTOR_REGISTRY_H
#define PROM_COLLECTOR_REGISTRY_H

#include <stdint.h>

#include "prom_collector.h"
#include "prom_metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prom_collector_registry prom_collector_registry_t;

/* The registry that is meant where none is named; NULL until prom_collector_registry_default_init,
 * and again after it was destroyed. */
extern prom_collector_registry_t *PROM_COLLECTOR_REGISTRY_DEFAULT;

/* Makes the default registry, with the metrics of the process. Again, it does nothing. Returns 0,
 * or non-zero if memory ran out. */
int prom_collector_registry_default_init(void);

/* An empty registry, which belongs to the caller. The name is copied and not shown. NULL: no name,
 * or memory ran out. */
prom_collector_registry_t *prom_collector_registry_new(const char *name);

/* Frees the registry with the collectors that no other registry has; takes NULL. Returns 0. A
 * scrape that is reading ends as if nothing had happened. */
int prom_collector_registry_destroy(prom_collector_registry_t *self);

/* An addition: a number that no other registry of this process has, had or will have, unlike its
 * address. 0: there is no such registry (any more). */
uint64_t prom_collector_registry_id(prom_collector_registry_t *self);

/* Adds the collector of prom_collector_process_new. Returns 0, also if the registry has a collector
 * named "process"; or non-zero if one of its names is that of another metric, or memory ran out. */
int prom_collector_registry_enable_process_metrics(prom_collector_registry_t *self);

/* Adds a metric to the default registry's own, which from now on belongs to it. Returns 0, or
 * non-zero and leaves the metric to the caller, as prom_collector_add_metric; also if there is no
 * default registry. */
int prom_collector_registry_register_metric(prom_metric_t *metric);

/* The same, for prom_..._new to be its argument. Returns the metric, also if it was registered
 * before; or NULL if it is NULL or could not be added, and prom_last_error() tells why.
 * prometheus-client-c ended the process; here a program goes on without the metric, since every
 * function takes NULL and returns non-zero. */
prom_metric_t *prom_collector_registry_must_register_metric(prom_metric_t *metric);

/* Takes a metric out of the default registry's own, and frees it if no other collector has it.
 * Returns 0, or non-zero if it is not there. */
int prom_collector_registry_unregister_metric(prom_metric_t *metric);

/* Adds a collector, which from now on belongs to the registry. Returns 0, or non-zero and leaves it
 * to the caller: one of them is NULL, the registry has a collector of that name, or a metric whose
 * names would clash, the collector has ended and its function still runs, or memory ran out. */
int prom_collector_registry_register_collector(prom_collector_registry_t *self,
                                               prom_collector_t *collector);

/* Takes a collector out, and frees it as prom_collector_destroy if no other registry has it.
 * Returns 0, or non-zero if the registry does not have it. */
int prom_collector_registry_unregister_collector(prom_collector_registry_t *self,
                                                 prom_collector_t *collector);

/* 0 if the name is allowed for a metric: letters, digits, _ and :, not a digit first, at most 255
 * of them. The registry is not looked at, and may be NULL. */
int prom_collector_registry_validate_metric_name(prom_collector_registry_t *self,
                                                 const char *metric_name);

/* All metrics of the registry as text 0.0.4, in memory that the caller frees with free(). NULL:
 * there is no such registry, memory ran out, or a collect function calls it. Several threads may
 * scrape at once. For other formats, or without the whole text in memory: prom_scrape.h. */
const char *prom_collector_registry_bridge(prom_collector_registry_t *self);

#ifdef __cplusplus
}
#endif

#endif
