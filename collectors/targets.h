/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h - the series of each agent that handoffs can go to.
 *
 * A target holds every series that its events can touch, resolved when it was configured: so they
 * exist at 0 before the first event, and an event costs one lookup by name and atomics. The
 * exception are durations by patterns that most agents never see (latency.c): each is a histogram
 * of 21 samples. A name that is not configured is answered with the target "other", which is always
 * there; so whatever names requests bring, the series do not grow.
 *
 * The lookup takes no lock. The table it reads is immutable and replaced as a whole; replaced
 * tables and removed targets stay until the end, for those who still look at them; neither changes
 * once it is published, except for series that begin with their first event. An agent that comes
 * back goes on with the counts it had.
 */
#ifndef COLLECTORS_TARGETS_H
#define COLLECTORS_TARGETS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/handoff.h"
#include "lib/metrics/metric.h"
#include "lib/prom/prom_metric_sample.h"

struct collectors;

enum collectors_ref {
    COLLECTORS_INCLUDED,
    COLLECTORS_MISSING,
    COLLECTORS_TRIMMED,
    COLLECTORS_REFS,
};

struct collectors_target {
    struct collectors_target *next; /* of all that were ever made; under the lock */
    bool configured, ended;         /* under the lock; ended: its series are about to be retired */

    /* arrays are indexed by the enums of handoff_model.h */

    /* latency.c; those of other patterns than direct are NULL until their first event, those of
       outcomes that take no time for ever */
    _Atomic(struct metric_series *) duration[HANDOFF_PATTERN_COUNT][HANDOFF_OUTCOME_COUNT];
    /* completeness.c */
    struct metric_series *completeness, *refs[COLLECTORS_REFS];
    struct metric_series *recovery[HANDOFF_RECOVERY_COUNT];
    /* tokens.c */
    struct metric_series *utilization, *tokens;
    struct metric_series *items[HANDOFF_PART_COUNT][HANDOFF_PRESENCE_COUNT]; /* NULL: never so */
    /* reliability.c */
    struct metric_series *handoffs[HANDOFF_PATTERN_COUNT][HANDOFF_OUTCOME_COUNT];
    struct metric_series *attempts[HANDOFF_RESULT_COUNT];
    struct metric_series *opened, *parked[HANDOFF_REASON_COUNT], *replayed;
    /* standing.c */
    prom_metric_sample_t *in_flight, *oldest_in_flight, *parked_entries, *oldest_parked;
    prom_metric_sample_t *consecutive_failures, *consecutive_refusals, *timeout,
        *circuit[HANDOFF_CIRCUIT_COUNT];                /* not of "other" */
    prom_metric_sample_t *inbox_waiting, *inbox_polled; /* NULL: it has not pulled yet */

    char name[];
};

struct collectors_table;

struct collectors_targets {
    _Atomic(struct collectors_table *) table;
    struct collectors_target *other;
    pthread_mutex_t lock; /* one change at a time; made by collectors_new */
    struct collectors_target *all;
};

/* Makes the target "other". false: out of memory. */
bool collectors_targets_init(struct collectors *collectors);
/* Takes what is only half made too. */
void collectors_targets_free(struct collectors_targets *targets);

/* Whether a series, whose first label is target_agent, is the target's alone: beyond the series
 * limit it is that of "other". */
bool collectors_owns(const struct collectors_target *target, const struct metric_series *series);

/* The target of this name, or "other"; also where there is no name. */
struct collectors_target *collectors_target(const struct collectors_targets *targets,
                                            const char *name);

#endif
