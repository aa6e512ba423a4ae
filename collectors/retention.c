/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of finished handoffs, how old the oldest of it is, and what retention removed before
 * its age. Read from the client when a scrape begins, on the thread that scrapes; the client reads
 * memory only.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"

static void set_removed(struct collectors *collectors, enum collectors_removal removal,
                        uint64_t count)
{
    static const char *labels[COLLECTORS_REMOVALS][2] = {
        [COLLECTORS_BODY_BY_SIZE] = {"body", "size"},
        [COLLECTORS_CHAIN_BY_AGE] = {"chain", "age"},
        [COLLECTORS_CHAIN_BY_SIZE] = {"chain", "size"},
    };
    prom_counter_set(collectors->metrics[COLLECTORS_RETENTION_REMOVED], (double)count,
                     labels[removal]);
}

void collectors_retention_init(struct collectors *collectors)
{
    static const char *const body[] = {"body"}, *const index[] = {"index"}, *const key[] = {"key"},
                             *const chain[] = {"chain"};
    struct collectors_retention *series = &collectors->retention;
    series->body_bytes = collectors_gauge(collectors, COLLECTORS_RETAINED_BYTES, body);
    series->index_bytes = collectors_gauge(collectors, COLLECTORS_RETAINED_BYTES, index);
    series->oldest_body = collectors_gauge(collectors, COLLECTORS_RETAINED_OLDEST, body);
    series->oldest_key = collectors_gauge(collectors, COLLECTORS_RETAINED_OLDEST, key);
    series->oldest_chain = collectors_gauge(collectors, COLLECTORS_RETAINED_OLDEST, chain);
    for (int i = 0; i < COLLECTORS_REMOVALS; i++)
        set_removed(collectors, (enum collectors_removal)i, 0);
}

static double age_seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

void collectors_retention_read(struct collectors *collectors,
                               const struct handoff_retention_stats *stats)
{
    const struct collectors_retention *series = &collectors->retention;
    prom_metric_sample_set(series->body_bytes, (double)stats->body_bytes);
    prom_metric_sample_set(series->index_bytes, (double)stats->index_bytes);
    prom_metric_sample_set(series->oldest_body, age_seconds(stats->oldest_body_ns));
    prom_metric_sample_set(series->oldest_key, age_seconds(stats->oldest_key_ns));
    prom_metric_sample_set(series->oldest_chain, age_seconds(stats->oldest_chain_ns));
    set_removed(collectors, COLLECTORS_BODY_BY_SIZE, stats->bodies_removed);
    set_removed(collectors, COLLECTORS_CHAIN_BY_AGE, stats->chains_removed_by_age);
    set_removed(collectors, COLLECTORS_CHAIN_BY_SIZE, stats->chains_removed_by_size);
    prom_counter_set(collectors->metrics[COLLECTORS_STORE_ORPHANS], (double)stats->orphans, NULL);
}
