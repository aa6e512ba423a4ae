/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a delivery tells: the waiter, who sent it or decided about it, and the observer, who counts.
 * The observer hears of every move, of every attempt once, and of circuits that change.
 */
#include <string.h>

#include "client/deliver/delivery.h"

const char *handoff_outcome_name(enum handoff_outcome outcome)
{
    static const char *const names[] = {
        [HANDOFF_OUTCOME_NONE] = "",
        [HANDOFF_OUTCOME_ACKNOWLEDGED] = "acknowledged",
        [HANDOFF_OUTCOME_EXHAUSTED] = "exhausted",
        [HANDOFF_OUTCOME_REFUSED] = "refused",
        [HANDOFF_OUTCOME_EXPIRED] = "expired",
        [HANDOFF_OUTCOME_HOP_LIMIT] = "hop_limit",
        [HANDOFF_OUTCOME_CIRCUIT_OPEN] = "circuit_open",
    };
    return names[outcome];
}

void handoff_delivery_news(const struct handoff_delivery *delivery, struct handoff_news *news)
{
    *news = (struct handoff_news){.label = {.pattern = delivery->pattern,
                                            .source = delivery->source,
                                            .task_id = delivery->task_id,
                                            .created_ms = delivery->created_ms},
                                  .envelope = delivery->envelope,
                                  .excerpt = delivery->excerpt,
                                  .tokens = delivery->tokens,
                                  .state = delivery->state,
                                  .target = delivery->agent->name,
                                  .reason = delivery->reason,
                                  .attempts = delivery->attempts,
                                  .settled_ms = delivery->settled_ms};
    memcpy(news->label.id, delivery->id_text, sizeof news->label.id);
}

void handoff_delivery_view(const struct handoff_delivery *delivery, struct handoff_live_view *view)
{
    *view = (struct handoff_live_view){.state = (int)delivery->state,
                                       .target = delivery->agent->name,
                                       .reason = delivery->reason,
                                       .attempts = delivery->attempts,
                                       .settled_ms = delivery->settled_ms};
}

void handoff_delivery_tell_ready(struct handoff_delivery *delivery)
{
    struct handoff_waiter *waiter = delivery->waiter;
    if (!waiter || !waiter->accepted || delivery->state != HANDOFF_STATE_READY)
        return;
    struct handoff_news news;
    handoff_delivery_news(delivery, &news);
    waiter->accepted(waiter, &news);
}

void handoff_delivery_tell_settled(struct handoff_delivery *delivery,
                                   const struct handoff_error *error)
{
    struct handoff_waiter *waiter = delivery->waiter;
    if (!waiter)
        return;
    struct handoff_news news;
    handoff_delivery_news(delivery, &news);
    if (error)
        news.error = *error;
    if (!delivery->seq) /* there is no such handoff */
        news.envelope = base_span(NULL, 0);
    delivery->waiter = NULL;
    waiter->delivery = NULL;
    waiter->settled(waiter, &news);
}

void handoff_waiter_withdraw(struct handoff_waiter *waiter)
{
    if (waiter->delivery)
        waiter->delivery->waiter = NULL;
    waiter->delivery = NULL;
}

static void observe(struct handoff_delivery *delivery, struct handoff_delivery_event *event)
{
    const struct handoff_engine_options *options = &delivery->lane->engine->options;
    if (!options->observe)
        return;
    event->handoff_id = delivery->id_text;
    event->source = delivery->source;
    event->trace_id = delivery->trace_id;
    event->target = delivery->agent->name;
    event->pattern = delivery->pattern;
    event->attempts = delivery->attempts;
    event->replays = delivery->replays;
    event->elapsed_us = (handoff_delivery_now_ns(delivery) - delivery->began_ns) / 1000;
    options->observe(options->observer, event);
}

void handoff_delivery_observe_circuit(struct handoff_delivery *delivery,
                                      const struct handoff_breaker *breaker)
{
    struct handoff_delivery_event event = {
        .happened = HANDOFF_HAPPENED_CIRCUIT,
        .circuit = breaker->circuit,
        .opened = breaker->opened && breaker->circuit == HANDOFF_CIRCUIT_OPEN,
        .closed = breaker->closed && breaker->circuit == HANDOFF_CIRCUIT_CLOSED,
        .consecutive_failures = breaker->consecutive_failures};
    observe(delivery, &event);
}

static enum handoff_outcome outcome_of(const struct handoff_delivery *delivery,
                                       enum handoff_state state)
{
    if (state == HANDOFF_STATE_ACKNOWLEDGED)
        return HANDOFF_OUTCOME_ACKNOWLEDGED;
    if (state == HANDOFF_STATE_EXPIRED)
        return HANDOFF_OUTCOME_EXPIRED;
    if (state != HANDOFF_STATE_PARKED)
        return HANDOFF_OUTCOME_NONE;
    if (strcmp(delivery->reason, "refused") == 0)
        return HANDOFF_OUTCOME_REFUSED;
    if (strcmp(delivery->reason, "circuit_open") == 0)
        return HANDOFF_OUTCOME_CIRCUIT_OPEN;
    return HANDOFF_OUTCOME_EXHAUSTED;
}

/* Each attempt is told of once, when it has ended: not when it begins, not while the word on a 202
   is still to come, and not again where a late acknowledgement follows a time-out. */
static bool attempt_is_news(struct handoff_delivery *delivery)
{
    if (!delivery->has_attempt || delivery->attempt.number == delivery->attempt_told ||
        delivery->state == HANDOFF_STATE_IN_FLIGHT || delivery->state == HANDOFF_STATE_AWAITING_ACK)
        return false;
    delivery->attempt_told = delivery->attempt.number;
    return true;
}

void handoff_delivery_observe_move(struct handoff_delivery *delivery, enum handoff_state from,
                                   bool resumed)
{
    struct handoff_delivery_event event = {
        .happened = HANDOFF_HAPPENED_MOVE,
        .from = from,
        .to = delivery->state,
        .resumed = resumed,
        .outcome = resumed ? HANDOFF_OUTCOME_NONE : outcome_of(delivery, delivery->state),
        .reason = delivery->reason,
        .has_attempt = attempt_is_news(delivery),
        .attempt_target = delivery->attempt_target,
        .result = (enum handoff_attempt_result)delivery->attempt.result,
        .attempt_us = delivery->attempt.duration_us,
        .said = delivery->attempt_error,
    };
    observe(delivery, &event);
}
