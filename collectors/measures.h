/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measures.h - the measures of handoff health, one file each.
 *
 * latency.c        how long handoffs and their stages take
 * completeness.c   how much of what was asked for is carried
 * reliability.c    how handoffs and attempts end, and what is parked and replayed
 * hops.c           how long chains become, and whether they turn in circles
 * channels.c       how far the receivers of channels have come
 * tokens.c         how well budgets are used
 * standing.c       the current state, read from the client when a scrape begins
 * requests.c       what callers of the agent API are answered
 * retention.c      what is kept of finished handoffs and for how long, likewise
 *
 * Each resolves its series of a target beforehand and then takes events, on any thread.
 */
#ifndef COLLECTORS_MEASURES_H
#define COLLECTORS_MEASURES_H

#include "client/handoff.h"
#include "collectors/targets.h"
#include "lib/metrics/metric.h"

struct collectors;

/* How the handoff ended with this event; NONE: it did not, or not for the first time. A replay is a
 * second life of a handoff that was counted when it was parked. */
enum handoff_outcome collectors_end_of(const struct handoff_event *event);

/* ---- exemplars ------------------------------------------------------------------------------- */

/* Points into itself and into the event. */
struct collectors_mark {
    const char *names[2], *values[2];
    struct metric_exemplar exemplar;
};

/* trace_id and handoff_id of the event, as far as it has them. */
void collectors_mark(struct collectors_mark *mark, const struct handoff_event *event);

/* ---- the measures ---------------------------------------------------------------------------- */

void collectors_latency_init(struct collectors *collectors);
void collectors_latency_resolve(struct collectors *collectors, struct collectors_target *target);
void collectors_latency_assembled(struct collectors *collectors, const struct handoff_event *event);
void collectors_latency_moved(struct collectors *collectors, const struct handoff_event *event);
void collectors_latency_observed(struct collectors *collectors, const struct handoff_event *event);

void collectors_completeness_resolve(struct collectors *collectors,
                                     struct collectors_target *target);
void collectors_completeness_assembled(struct collectors *collectors,
                                       const struct handoff_event *event);
void collectors_completeness_recovered(struct collectors *collectors,
                                       const struct handoff_event *event);
void collectors_completeness_observed(struct collectors *collectors,
                                      const struct handoff_event *event);

void collectors_tokens_resolve(struct collectors *collectors, struct collectors_target *target);
void collectors_tokens_assembled(struct collectors *collectors, const struct handoff_event *event);
void collectors_tokens_observed(struct collectors *collectors, const struct handoff_event *event);

void collectors_hops_init(struct collectors *collectors);
void collectors_hops_assembled(struct collectors *collectors, const struct handoff_event *event);
void collectors_hops_observed(struct collectors *collectors, const struct handoff_event *event);
void collectors_hops_completed(struct collectors *collectors, const struct handoff_event *event);

void collectors_channels_moved(struct collectors *collectors, const struct handoff_event *event);
void collectors_channels_read(void *arg); /* the collectors */

void collectors_reliability_resolve(struct collectors *collectors,
                                    struct collectors_target *target);
void collectors_reliability_ended(struct collectors *collectors, const struct handoff_event *event);
void collectors_reliability_moved(struct collectors *collectors, const struct handoff_event *event);
void collectors_reliability_observed(struct collectors *collectors,
                                     const struct handoff_event *event);
void collectors_reliability_circuit(struct collectors *collectors,
                                    const struct handoff_event *event);

void collectors_retention_init(struct collectors *collectors);
void collectors_retention_read(struct collectors *collectors,
                               const struct handoff_retention_stats *stats);

void collectors_standing_resolve(struct collectors *collectors, struct collectors_target *target);
void collectors_standing_read(void *arg); /* the collectors */

#endif
