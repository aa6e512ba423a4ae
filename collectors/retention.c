/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of finished handoffs, how old the oldest of it is, and what retention removed before
 * its age. Read from the client when a scrape begins, on the thread that scrapes; the client reads
 * memory only.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"

void collectors_retention_init(struct collectors *collectors)
{
    static const char *const removals[COLLECTORS_REMOVALS][2] = {
        [COLLECTORS_BODY_BY_SIZE] = {"body", "size"},
        [COLLECTORS_CHAIN_BY_AGE] = {"chain", "age"},
        [COLLECTORS_CHAIN_BY_SIZE] = {"chain", "size"},
    };
    static const char *const body[] = {"body"}, *const index[] = {"index"}, *const key[] = {"key"},
                             *const chain[] = {"chain"};
    struct metric_family *const *families = collectors->families;
    struct collectors_retention *series = &collectors->retention;
    series->body_bytes = metric_resolve(families[COLLECTORS_RETAINED_BYTES], body);
    series->index_bytes = metric_resolve(families[COLLECTORS_RETAINED_BYTES], index);
    series->oldest_body = metric_resolve(families[COLLECTORS_RETAINED_OLDEST], body);
    series->oldest_key = metric_resolve(families[COLLECTORS_RETAINED_OLDEST], key);
    series->oldest_chain = metric_resolve(families[COLLECTORS_RETAINED_OLDEST], chain);
    for (int i = 0; i < COLLECTORS_REMOVALS; i++)
        series->removed[i] = metric_resolve(families[COLLECTORS_RETENTION_REMOVED], removals[i]);
}

static double age_seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

void collectors_retention_read(struct collectors *collectors,
                               const struct handoff_retention_stats *stats)
{
    const struct collectors_retention *series = &collectors->retention;
    metric_gauge_set(series->body_bytes, (double)stats->body_bytes);
    metric_gauge_set(series->index_bytes, (double)stats->index_bytes);
    metric_gauge_set(series->oldest_body, age_seconds(stats->oldest_body_ns));
    metric_gauge_set(series->oldest_key, age_seconds(stats->oldest_key_ns));
    metric_gauge_set(series->oldest_chain, age_seconds(stats->oldest_chain_ns));
    metric_mirror(series->removed[COLLECTORS_BODY_BY_SIZE], (double)stats->bodies_removed);
    metric_mirror(series->removed[COLLECTORS_CHAIN_BY_AGE], (double)stats->chains_removed_by_age);
    metric_mirror(series->removed[COLLECTORS_CHAIN_BY_SIZE], (double)stats->chains_removed_by_size);
    metric_mirror(collectors->single[COLLECTORS_STORE_ORPHANS], (double)stats->orphans);
}
