/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries in order, for agents with `ordered` (turns.h): which one may be attempted, and who is
 * told when its turn has come. Runs on the lane of the delivery. Declared in delivery.h.
 */
#include "client/deliver/delivery.h"
#include "client/deliver/dormant.h"
#include "lib/base/check.h"
#include "lib/base/memory.h"

/* How often one that waits looks by itself: a reload may have turned `ordered` off, and there may
   have been no memory for a mail. */
enum { TURN_LOOK_MS = 30000 };

/* It is your turn. */
struct call_up {
    struct base_mail mail; /* first */
    struct handoff_lane *lane;
    struct base_uuid id;
};

static void called_up(struct base_mail *mail)
{
    struct call_up *call = (struct call_up *)(void *)mail;
    struct handoff_delivery *delivery;
    struct handoff_error error;
    const enum handoff_lookup found =
        handoff_lane_find(call->lane, &call->id, mail, &delivery, &error);
    if (found == HANDOFF_LOOKUP_LATER)
        return;
    base_free(call);
    if (found != HANDOFF_LOOKUP_FOUND)
        return; /* it has ended meanwhile, or looks by itself */
    if (delivery->state == HANDOFF_STATE_READY && delivery->seq && !delivery->writing)
        handoff_delivery_advance(delivery);
}

static void call_up(struct handoff_lane *lane, const struct base_uuid *id)
{
    struct call_up *call = base_malloc(sizeof *call);
    if (!call)
        return; /* it looks by itself */
    *call = (struct call_up){.mail.deliver = called_up, .lane = lane, .id = *id};
    base_mailbox_post(lane->mailbox, &call->mail);
}

static void call_up_first(struct handoff_engine *engine, const struct handoff_turn *of)
{
    struct base_uuid id;
    struct handoff_lane *lane;
    if (handoff_turns_first(&engine->turns, of, &id, &lane))
        call_up(lane, &id);
}

static struct handoff_feed *feed_of(const struct handoff_delivery *delivery)
{
    return atomic_load_explicit(&delivery->live.feed, memory_order_relaxed);
}

void handoff_delivery_join(struct handoff_delivery *delivery)
{
    BASE_CHECK(delivery->turn.agent == NULL);
    delivery->turn = (struct handoff_turn){.agent = delivery->agent,
                                           .feed = feed_of(delivery),
                                           .task_id = delivery->task_id,
                                           .lane = delivery->lane,
                                           .id = delivery->id};
    handoff_turns_join(&delivery->lane->engine->turns, &delivery->turn);
}

void handoff_delivery_quit(struct handoff_delivery *delivery)
{
    struct handoff_engine *engine = delivery->lane->engine;
    /* without its entry, which the neighbours in the list change under the lock of the shard */
    const struct handoff_turn left = {.agent = delivery->turn.agent,
                                      .feed = delivery->turn.feed,
                                      .task_id = delivery->turn.task_id};
    handoff_turns_leave(&engine->turns, &delivery->turn);
    if (left.agent && !delivery->lane->closing &&
        atomic_load_explicit(&left.agent->ordered, memory_order_relaxed))
        call_up_first(engine, &left);
}

/* ---- feeds that are held ----------------------------------------------------------------------
 */

void handoff_engine_call_up_held(struct handoff_feed *feed)
{
    struct base_uuid id;
    struct handoff_lane *lane;
    if (handoff_feed_next(feed, &id, &lane))
        call_up(lane, &id);
}

/* It was attempted, or is offered. */
static bool has_passed_before(const struct handoff_delivery *delivery)
{
    return !delivery->held.queued &&
           (delivery->attempts > 0 || handoff_delivery_is_offered(delivery));
}

/* What is late is what the others wait for; what has passed before is not new. */
static bool may_pass(struct handoff_delivery *delivery)
{
    struct handoff_feed *feed = feed_of(delivery);
    if (!feed || delivery->late || has_passed_before(delivery))
        return true;
    delivery->held.lane = delivery->lane;
    delivery->held.id = delivery->id;
    delivery->held.seq = delivery->seq;
    return handoff_feed_pass(feed, &delivery->held);
}

void handoff_delivery_stop_waiting(struct handoff_delivery *delivery)
{
    struct handoff_feed *feed = feed_of(delivery);
    if (!feed || !delivery->held.queued)
        return;
    handoff_feed_leave(feed, &delivery->held);
    if (!delivery->lane->closing)
        handoff_engine_call_up_held(feed);
}

/* ---- turns ------------------------------------------------------------------------------------
 */

/* While it waits in its feed it has no place: what is late comes before it, and other handoffs of
   its task do not wait for it. */
static bool takes_place(struct handoff_delivery *delivery)
{
    const bool passes = may_pass(delivery);
    if (!passes)
        handoff_delivery_quit(delivery);
    else if (!delivery->turn.agent)
        handoff_delivery_join(delivery);
    return passes;
}

bool handoff_delivery_has_turn(struct handoff_delivery *delivery)
{
    const bool ordered = delivery->settings->options.ordered;
    if (takes_place(delivery) &&
        (!ordered || handoff_turns_is_first(&delivery->lane->engine->turns, &delivery->turn)))
        return true;
    handoff_delivery_break_off(delivery); /* it may be offered since before a reload */
    handoff_settings_release(&delivery->settings);
    handoff_delivery_wake_in(delivery, TURN_LOOK_MS);
    handoff_delivery_waits(delivery);
    return false;
}
