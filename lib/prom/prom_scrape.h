/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_scrape.h - a scrape of a registry in any format and in steps; an addition to the interface
 * of prometheus-client-c, for programs that have an HTTP server of their own.
 *
 *     struct metric_scrape_options options = {.format = METRIC_OPENMETRICS};
 *     struct metric_buffer out = {0};
 *     prom_scrape_t *scrape = prom_scrape_begin(PROM_COLLECTOR_REGISTRY_DEFAULT, &options);
 *     for (bool more = scrape != NULL; more; out.length = 0) {
 *         more = metric_scrape_step(prom_scrape_reading(scrape), &out, 65536);
 *         fwrite(out.data, 1, out.length, stdout);
 *     }
 *     prom_scrape_end(&scrape);
 *     metric_buffer_free(&out);
 *
 * The types come from metric.h, which such a program includes too.
 */
#ifndef PROM_SCRAPE_H
#define PROM_SCRAPE_H

#include "prom_collector_registry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prom_scrape prom_scrape_t;

struct metric_scrape; /* metric.h */
struct metric_scrape_options;

/* Runs the collect functions and begins a scrape of the metrics that the registry has now. They are
 * kept until the scrape ends, even if they are removed. The scrape belongs to the caller, who ends
 * it with prom_scrape_end. `options` must live as long. NULL: memory ran out, there is no such
 * registry (any more), or a collect function calls it. Used by one thread at a time. */
prom_scrape_t *prom_scrape_begin(prom_collector_registry_t *self,
                                 const struct metric_scrape_options *options);

/* The same of the registry that has this id (prom_collector_registry_id). */
prom_scrape_t *prom_scrape_begin_id(uint64_t id, const struct metric_scrape_options *options);

/* Lent, for metric_scrape_step. */
struct metric_scrape *prom_scrape_reading(prom_scrape_t *self);

/* At any time; sets the pointer to NULL, and takes NULL. */
void prom_scrape_end(prom_scrape_t **self);

#ifdef __cplusplus
}
#endif

#endif
