/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries in order, for agents with `ordered` (turns.h): which one may be attempted, and who is
 * told when its turn has come. Runs on the lane of the delivery. Declared in delivery.h.
 */
#include "client/deliver/delivery.h"
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
    const struct call_up call = *(const struct call_up *)(const void *)mail;
    base_free(mail);
    struct handoff_delivery *delivery =
        handoff_live_find(&call.lane->engine->live, &call.id, call.lane);
    if (!delivery)
        return; /* it has ended meanwhile */
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    if (delivery->state == HANDOFF_STATE_READY && delivery->seq && !delivery->writing)
        handoff_delivery_advance(delivery);
}

static void call_up_first(struct handoff_engine *engine, const struct handoff_agent *agent,
                          struct base_span task_id)
{
    struct base_uuid id;
    struct handoff_lane *lane;
    if (!handoff_turns_first(&engine->turns, agent, task_id, &id, &lane))
        return;
    struct call_up *call = base_malloc(sizeof *call);
    if (!call)
        return; /* it looks by itself */
    *call = (struct call_up){.mail.deliver = called_up, .lane = lane, .id = id};
    base_mailbox_post(lane->mailbox, &call->mail);
}

void handoff_delivery_join(struct handoff_delivery *delivery)
{
    BASE_CHECK(delivery->turn.agent == NULL);
    delivery->turn = (struct handoff_turn){.agent = delivery->agent,
                                           .task_id = delivery->task_id,
                                           .lane = delivery->lane,
                                           .id = delivery->id};
    handoff_turns_join(&delivery->lane->engine->turns, &delivery->turn);
}

void handoff_delivery_quit(struct handoff_delivery *delivery)
{
    struct handoff_engine *engine = delivery->lane->engine;
    const struct handoff_agent *agent = delivery->turn.agent;
    handoff_turns_leave(&engine->turns, &delivery->turn);
    if (agent && !delivery->lane->closing &&
        atomic_load_explicit(&agent->ordered, memory_order_relaxed))
        call_up_first(engine, agent, delivery->task_id);
}

bool handoff_delivery_has_turn(struct handoff_delivery *delivery)
{
    if (!delivery->settings->options.ordered ||
        handoff_turns_is_first(&delivery->lane->engine->turns, &delivery->turn))
        return true;
    handoff_delivery_break_off(delivery); /* it may be offered since before a reload */
    handoff_settings_release(&delivery->settings);
    handoff_delivery_wake_in(delivery, TURN_LOOK_MS);
    return false;
}
