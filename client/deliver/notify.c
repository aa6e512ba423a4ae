/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports what happens to a delivery: to the waiter, which sent it or decided about it, and to the
 * observer, which counts. The observer gets every move, every attempt once, and every change of a
 * circuit. Runs on the lane of the delivery. Declared in delivery.h and engine.h.
 */
#include <string.h>

#include "client/deliver/author.h"
#include "client/deliver/delivery.h"
#include "client/deliver/dormant.h"
#include "client/deliver/open_tasks.h"
#include "client/model/model.h"
#include "lib/base/check.h"

void handoff_delivery_status(const struct handoff_delivery *delivery, struct handoff_status *status)
{
    *status = (struct handoff_status){.label = {.pattern = delivery->pattern,
                                                .source = delivery->source,
                                                .task_id = delivery->task_id,
                                                .created_ms = delivery->created_ms},
                                      .envelope = delivery->envelope,
                                      .excerpt = delivery->excerpt,
                                      .state = delivery->state,
                                      .target = delivery->agent->name,
                                      .reason = delivery->reason,
                                      .words = delivery->words,
                                      .attempts = delivery->attempts,
                                      .settled_ms = delivery->settled_ms,
                                      .progress = handoff_progress_told(delivery->progress)};
    if (delivery->gaps.size > 0)
        status->gaps = base_buffer_span(&delivery->gaps);
    memcpy(status->label.id, delivery->id_text, sizeof status->label.id);
}

void handoff_delivery_view(const struct handoff_delivery *delivery, struct handoff_live_view *view)
{
    *view = (struct handoff_live_view){.state = delivery->state,
                                       .target = delivery->agent->name,
                                       .reason = delivery->reason,
                                       .attempts = delivery->attempts,
                                       .settled_ms = delivery->settled_ms};
}

void handoff_status_overlay(struct handoff_status *status, const struct handoff_live_view *view)
{
    status->state = view->state;
    status->target = view->target;
    if (view->reason != HANDOFF_REASON_OTHER)
        status->words = "";
    status->reason = view->reason;
    status->attempts = view->attempts;
    status->settled_ms = view->settled_ms;
    if (!handoff_state_is_over(view->state))
        status->replaced_by = (struct base_uuid){0};
}

/* With an error, the status as last published: only this thread changes it. */
static void describe(const struct handoff_delivery *delivery, const struct handoff_error *error,
                     struct handoff_status *status)
{
    handoff_delivery_status(delivery, status);
    if (!error)
        return;
    if (delivery->live.view.state != HANDOFF_STATE_NONE)
        handoff_status_overlay(status, &delivery->live.view);
    status->error = *error;
}

void handoff_delivery_tell_ready(struct handoff_delivery *delivery,
                                 const struct handoff_error *error)
{
    struct handoff_waiter *waiter = delivery->waiter;
    if (!waiter || !waiter->accepted || delivery->state != HANDOFF_STATE_READY)
        return;
    struct handoff_status status;
    describe(delivery, error, &status);
    waiter->accepted(waiter, &status);
}

void handoff_delivery_tell_settled(struct handoff_delivery *delivery,
                                   const struct handoff_error *error)
{
    struct handoff_waiter *waiter = delivery->waiter;
    if (!waiter)
        return;
    struct handoff_status status;
    describe(delivery, error, &status);
    if (!delivery->seq) /* the handoff was not stored */
        status.envelope = base_span(NULL, 0);
    delivery->waiter = NULL;
    waiter->delivery = NULL;
    waiter->settled(waiter, &status);
}

void handoff_waiter_status(const struct handoff_waiter *waiter, struct handoff_status *status)
{
    handoff_delivery_status(waiter->delivery, status);
    if (waiter->delivery->live.view.state != HANDOFF_STATE_NONE)
        handoff_status_overlay(status, &waiter->delivery->live.view);
}

void handoff_waiter_withdraw(struct handoff_waiter *waiter)
{
    struct handoff_delivery *delivery = waiter->delivery;
    waiter->delivery = NULL;
    if (!delivery)
        return;
    delivery->waiter = NULL;
    handoff_delivery_waits(delivery);
}

/* ---- the observer --------------------------------------------------------------------------- */

void handoff_copy_trace_id(char to[33], struct base_span trace_id)
{
    BASE_CHECK(trace_id.size < 33);
    if (trace_id.data)
        memcpy(to, trace_id.data, trace_id.size);
    to[trace_id.data ? trace_id.size : 0] = '\0';
}

static void observe(const struct handoff_delivery *delivery, struct handoff_event *event)
{
    const struct handoff_engine_options *options = &delivery->lane->engine->options;
    const struct handoff_feed *feed =
        atomic_load_explicit(&delivery->live.feed, memory_order_relaxed);
    event->who = (struct handoff_who){.id = delivery->id_text,
                                      .task_id = delivery->task_id.data,
                                      .source_agent = delivery->source.data,
                                      .target_agent = delivery->agent->name,
                                      .channel = feed ? feed->channel : NULL,
                                      .receiver = feed ? feed->receiver : NULL,
                                      .pattern = delivery->pattern};
    handoff_copy_trace_id(event->who.trace_id, delivery->trace_id);
    if (options->observe)
        options->observe(options->observer, event);
}

void handoff_delivery_observe_circuit(struct handoff_delivery *delivery,
                                      const struct handoff_breaker *breaker)
{
    struct handoff_event event = {
        .kind = HANDOFF_EVENT_CIRCUIT,
        .of.circuit = {.circuit = breaker->circuit,
                       .opened = breaker->opened && breaker->circuit == HANDOFF_CIRCUIT_OPEN,
                       .closed = breaker->closed && breaker->circuit == HANDOFF_CIRCUIT_CLOSED,
                       .consecutive_failures = breaker->consecutive_failures}};
    observe(delivery, &event);
}

void handoff_delivery_observe_shortage(struct handoff_delivery *delivery,
                                       enum handoff_shortage shortage)
{
    struct handoff_event event = {
        .kind = HANDOFF_EVENT_SHORTAGE,
        .of.shortage = {.resource = shortage, .hindered = "connecting to an agent"}};
    observe(delivery, &event);
}

void handoff_delivery_observe_secrets(struct handoff_delivery *delivery, handoff_secret_set kinds)
{
    for (int kind = 0; kinds != 0; kind++, kinds >>= 1) {
        struct handoff_event event = {.kind = HANDOFF_EVENT_SECRETS,
                                      .of.secrets = {.kind = (enum handoff_secret)kind,
                                                     .place = HANDOFF_SECRET_PLACE_REASON,
                                                     .count = 1}};
        if (kinds & 1)
            observe(delivery, &event);
    }
}

void handoff_delivery_observe_decision(struct handoff_delivery *delivery,
                                       const struct handoff_stored_decision *row)
{
    struct handoff_event event = {.kind = HANDOFF_EVENT_DECIDED,
                                  .of.decided = {.action = row->action,
                                                 .author = row->who.data,
                                                 .by = row->by.data,
                                                 .reason = row->reason.data}};
    observe(delivery, &event);
}

/* As the observer knows it: what somebody said is for whoever decides about the handoff. */
static enum handoff_reason kind_of_reason(const struct handoff_delivery *delivery)
{
    return delivery->by_hand ? HANDOFF_REASON_BY_HAND : delivery->reason;
}

static enum handoff_outcome outcome_of(const struct handoff_delivery *delivery)
{
    switch (delivery->state) {
    case HANDOFF_STATE_ACKNOWLEDGED:
        return HANDOFF_OUTCOME_ACKNOWLEDGED;
    case HANDOFF_STATE_EXPIRED:
    case HANDOFF_STATE_PARKED:
        return handoff_reason_outcome(kind_of_reason(delivery));
    default:
        return HANDOFF_OUTCOME_NONE;
    }
}

/* Each attempt is reported once, when it has ended: not when it begins, not while the
   acknowledgement after a 202 is outstanding, and not again if a late acknowledgement follows a
   timeout. */
static bool attempt_is_new(struct handoff_delivery *delivery)
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
    struct handoff_open_tasks *open_tasks = delivery->lane->engine->options.open_tasks;
    if (open_tasks)
        handoff_open_tasks_moved(open_tasks, delivery->task_id, from, delivery->state,
                                 delivery->settled_ms);
    int64_t elapsed_us = (handoff_delivery_now_ns(delivery) - delivery->began_ns) / 1000;
    struct handoff_event event = {
        .kind = HANDOFF_EVENT_MOVED,
        .of.moved = {.from = from,
                     .to = delivery->state,
                     .resumed = resumed,
                     .replaced = delivery->replaced,
                     .outcome = resumed ? HANDOFF_OUTCOME_NONE : outcome_of(delivery),
                     .reason = kind_of_reason(delivery),
                     .elapsed_ns = elapsed_us * 1000,
                     .attempts = delivery->attempts,
                     .replays = delivery->replays,
                     .attempted = attempt_is_new(delivery),
                     .attempt_target = delivery->attempt_target,
                     .result = delivery->attempt.result,
                     .attempt_ns = delivery->attempt.duration_us * 1000,
                     .status = delivery->attempt.status,
                     .said = delivery->attempt_error}};
    observe(delivery, &event);
}
