/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the series have counted, read back for the status page: the same cells that a scrape prints,
 * so the page and the alerts cannot count differently, and an event costs nothing more.
 *
 * Beyond the series limit, agents and calls share the series of "other". Those are read once, as
 * the counts of "other": read for each of them, one failure would be a failure of all.
 *
 * Any thread.
 */
#include <string.h>

#include "collectors/collectors.h"
#include "collectors/rows.h"
#include "lib/base/check.h"

const double *collectors_latency_bounds(void)
{
    size_t count;
    const struct metric_desc *duration = &collectors_metrics(&count)[COLLECTORS_DURATION];
    BASE_CHECK(duration->nbounds == COLLECTORS_LATENCY_BUCKETS - 1);
    return duration->bounds;
}

static uint64_t read_own(const struct collectors_target *target,
                         const struct metric_series *counter)
{
    return collectors_owns(target, counter) ? metric_read_counter(counter) : 0;
}

static void read_own_histogram(const struct collectors_target *target,
                               const struct metric_series *histogram,
                               struct metric_reading *reading)
{
    if (collectors_owns(target, histogram))
        metric_read_histogram(histogram, reading);
    else
        *reading = (struct metric_reading){0};
}

static void read_outcomes(const struct collectors_target *target, uint64_t *counts)
{
    for (int pattern = 0; pattern < HANDOFF_PATTERN_COUNT; pattern++) {
        for (int i = HANDOFF_OUTCOME_NONE + 1; i < HANDOFF_OUTCOME_COUNT; i++)
            counts[COLLECTORS_COUNTED_OUTCOME + i] +=
                read_own(target, target->handoffs[pattern][i]);
    }
}

static void read_items(const struct collectors_target *target, uint64_t *counts)
{
    for (int part = 0; part < HANDOFF_PART_COUNT; part++) {
        for (int presence = 0; presence < HANDOFF_PRESENCE_COUNT; presence++) {
            if (target->items[part][presence] == NULL)
                continue;
            const uint64_t items = read_own(target, target->items[part][presence]);
            counts[COLLECTORS_COUNTED_ITEMS] += items;
            counts[COLLECTORS_COUNTED_ITEMS_OMITTED] +=
                presence == HANDOFF_PRESENCE_OMITTED ? items : 0;
        }
    }
}

static void read_context(const struct collectors_target *target, uint64_t *counts)
{
    struct metric_reading reading;
    for (int i = 0; i < COLLECTORS_REFS; i++)
        counts[COLLECTORS_COUNTED_REFS_REQUESTED] += read_own(target, target->refs[i]);
    counts[COLLECTORS_COUNTED_REFS_INCLUDED] = read_own(target, target->refs[COLLECTORS_INCLUDED]);
    counts[COLLECTORS_COUNTED_UNRECOVERED] =
        read_own(target, target->recovery[HANDOFF_RECOVERY_MISSING]);
    read_own_histogram(target, target->completeness, &reading);
    counts[COLLECTORS_COUNTED_ENVELOPES] = reading.count;
    read_own_histogram(target, target->utilization, &reading);
    counts[COLLECTORS_COUNTED_BUDGETS] = reading.count;
    counts[COLLECTORS_COUNTED_BUDGET_PERMILL] = (uint64_t)(reading.sum * 1000);
}

static void read_latency(const struct collectors_target *target, uint64_t *counts)
{
    struct metric_reading reading;
    for (int pattern = 0; pattern < HANDOFF_PATTERN_COUNT; pattern++) {
        const struct metric_series *series = atomic_load_explicit(
            &target->duration[pattern][HANDOFF_OUTCOME_ACKNOWLEDGED], memory_order_acquire);
        if (series == NULL)
            continue;
        read_own_histogram(target, series, &reading);
        for (int i = 0; i < COLLECTORS_LATENCY_BUCKETS; i++)
            counts[COLLECTORS_COUNTED_LATENCY + i] += reading.buckets[i];
    }
}

void collectors_read_agent(const struct collectors *collectors, const char *agent,
                           uint64_t counts[COLLECTORS_COUNTED])
{
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    const struct collectors_target *target = collectors_target(&collectors->targets, agent);
    memset(counts, 0, COLLECTORS_COUNTED * sizeof counts[0]);
    read_outcomes(target, counts);
    read_items(target, counts);
    read_context(target, counts);
    read_latency(target, counts);
    counts[COLLECTORS_COUNTED_OPENED] = read_own(target, target->opened);
}

const struct collectors_call *collectors_calls(const struct collectors *collectors, size_t *count)
{
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    *count = collectors->ncalls;
    return collectors->calls;
}

/* NULL: none was given so far. `folded`: beyond the series limit, so that calls share it. */
static const struct metric_series *answers_of(const struct collectors *collectors, size_t call,
                                              enum handoff_code code, bool folded)
{
    const struct metric_series *series =
        atomic_load_explicit(&collectors->answers[call][code], memory_order_acquire);
    if (series == NULL)
        return NULL;
    const bool own = strcmp(metric_label_value(series, 0), collectors->calls[call].name) == 0;
    return own != folded ? series : NULL;
}

uint64_t collectors_read_answers(const struct collectors *collectors, size_t call,
                                 enum handoff_code code)
{
    BASE_CHECK(call <= collectors->ncalls);
    const bool folded = call == collectors->ncalls;
    const struct metric_series *series = NULL;
    if (!folded)
        series = answers_of(collectors, call, code, false);
    for (size_t i = 0; folded && i < collectors->ncalls && series == NULL; i++)
        series = answers_of(collectors, i, code, true);
    return series != NULL ? metric_read_counter(series) : 0;
}

const char *collectors_call_name(const struct collectors *collectors, size_t call)
{
    return call < collectors->ncalls ? collectors->calls[call].name
                                     : handoff_reserved_name(HANDOFF_RESERVED_OTHER);
}

uint64_t collectors_read_commit_failures(const struct collectors *collectors)
{
    return metric_read_counter(collectors->single[COLLECTORS_STORE_COMMITS_FAILED]);
}

uint64_t collectors_read_ping_pongs(const struct collectors *collectors)
{
    return metric_read_counter(collectors->single[COLLECTORS_PING_PONGS]);
}

uint64_t collectors_read_shortages(const struct collectors *collectors,
                                   enum handoff_shortage resource)
{
    return metric_read_counter(collectors->shortages[resource]);
}
