/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency: how long a handoff takes from its acceptance to its end, and each stage of it.
 *
 * Handoffs that were given up are timed too, in separate series: a receiver that answers in
 * 10 ms or not at all has a fast "acknowledged" and a slow "exhausted", and a mean of the two would
 * tell neither. What was refused before it was accepted (hop_limit, an open circuit) took no time.
 *
 * Only direct handoffs have their series from the start, and of those not the rejected ones, a
 * fault of the set-up. With the others, durations would be four fifths of the samples of an agent.
 * A duration need not begin at 0 as a count of failures must: what its first sample loses to a rate
 * is one observation.
 *
 * Any thread.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"
#include "lib/base/check.h"

static const char *const stages[COLLECTORS_STAGES] = {"resolve", "trim", "encode", "persist",
                                                      "attempt"};

static double latency_seconds(int64_t nanoseconds)
{
    return (double)nanoseconds / 1e9;
}

void collectors_latency_init(struct collectors *collectors)
{
    struct metric_family *family = collectors->families[COLLECTORS_STAGE_DURATION];
    for (int i = 0; i < COLLECTORS_STAGES; i++)
        collectors->stages[i] = metric_resolve(family, (const char *const[]){stages[i]});
}

static struct metric_series *resolve_duration(struct collectors *collectors,
                                              const struct collectors_target *target,
                                              enum handoff_pattern pattern,
                                              enum handoff_outcome end)
{
    return metric_resolve(collectors->families[COLLECTORS_DURATION],
                          (const char *const[]){target->name, handoff_pattern_name(pattern),
                                                handoff_outcome_name(end)});
}

/* One that was never accepted took no time. */
static bool is_timed(enum handoff_outcome outcome)
{
    return outcome != HANDOFF_OUTCOME_NONE && outcome != HANDOFF_OUTCOME_HOP_LIMIT;
}

void collectors_latency_resolve(struct collectors *collectors, struct collectors_target *target)
{
    for (int i = 0; i < HANDOFF_OUTCOME_COUNT; i++) {
        enum handoff_outcome end = (enum handoff_outcome)i;
        if (is_timed(end) && end != HANDOFF_OUTCOME_REJECTED)
            atomic_init(&target->duration[HANDOFF_PATTERN_DIRECT][end],
                        resolve_duration(collectors, target, HANDOFF_PATTERN_DIRECT, end));
    }
}

/* Its first event. Under the lock, which is held otherwise only while a configuration comes into
 * force: a target that was removed meanwhile must not begin a series that nothing would end. */
static struct metric_series *begin_duration(struct collectors *collectors,
                                            struct collectors_target *target,
                                            enum handoff_pattern pattern, enum handoff_outcome end)
{
    struct collectors_targets *targets = &collectors->targets;
    pthread_mutex_lock(&targets->lock);
    if (!target->configured)
        target = targets->other;
    struct metric_series *series = resolve_duration(collectors, target, pattern, end);
    atomic_store_explicit(&target->duration[pattern][end], series, memory_order_release);
    pthread_mutex_unlock(&targets->lock);
    return series;
}

static struct metric_series *duration_of(struct collectors *collectors,
                                         struct collectors_target *target,
                                         enum handoff_pattern pattern, enum handoff_outcome end)
{
    struct metric_series *series =
        atomic_load_explicit(&target->duration[pattern][end], memory_order_acquire);
    return series != NULL ? series : begin_duration(collectors, target, pattern, end);
}

/* A stage that was not reached took no time, which is not the same as 0 seconds. */
static void observe_stage(struct collectors *collectors, enum collectors_stage stage, int64_t ns)
{
    if (ns > 0)
        metric_observe(collectors->stages[stage], latency_seconds(ns));
}

void collectors_latency_assembled(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_assembled *assembled = &event->of.assembled;
    observe_stage(collectors, COLLECTORS_RESOLVE, assembled->resolve_ns);
    observe_stage(collectors, COLLECTORS_TRIM, assembled->trim_ns);
    observe_stage(collectors, COLLECTORS_ENCODE, assembled->encode_ns);
    observe_stage(collectors, COLLECTORS_PERSIST, assembled->persist_ns);
}

/* It is told of an acceptance when the commit is done, so that is what it took. */
static bool was_just_accepted(const struct handoff_moved *moved)
{
    return moved->from == HANDOFF_STATE_NONE && !moved->resumed;
}

static void observe_end(struct collectors *collectors, const struct handoff_event *event,
                        int64_t elapsed_ns)
{
    struct collectors_mark mark;
    enum handoff_outcome end = collectors_end_of(event);
    if (!is_timed(end))
        return;
    struct collectors_target *target =
        collectors_target(&collectors->targets, event->who.target_agent);
    collectors_mark(&mark, event);
    metric_observe_exemplar(duration_of(collectors, target, event->who.pattern, end),
                            latency_seconds(elapsed_ns), &mark.exemplar);
}

void collectors_latency_moved(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_moved *moved = &event->of.moved;
    if (was_just_accepted(moved))
        observe_stage(collectors, COLLECTORS_PERSIST, moved->elapsed_ns);
    if (moved->attempted)
        observe_stage(collectors, COLLECTORS_STAGE_ATTEMPT, moved->attempt_ns);
    observe_end(collectors, event, moved->elapsed_ns);
}

void collectors_latency_observed(struct collectors *collectors, const struct handoff_event *event)
{
    if (event->of.observed.told & HANDOFF_TOLD_LATENCY)
        observe_end(collectors, event, event->of.observed.elapsed_ns);
}
