/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, moves and frees a delivery. handoff_delivery_move is the only function that changes the
 * state: it checks the move against the model, counts it, reports it to the observer and has the
 * store write it. Runs on the lane of the delivery; the counts are atomic or under the agent's
 * lock.
 */
#include <string.h>

#include "client/deliver/delivery.h"
#include "client/deliver/dormant.h"
#include "client/deliver/hand_on.h"
#include "client/model/model.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    ROOM_FOR_ENDS = 256, /* for the texts: each ends in a NUL, and the next one begins aligned */
    LATER_BLOCK = 1024,  /* a second attempt to record, a reason: rare, and short */
};

/* ---- making and freeing --------------------------------------------------------------------- */

/* "Name: value" */
static void write_header(char *to, struct base_span name, struct base_span value)
{
    memcpy(to, name.data, name.size);
    memcpy(to + name.size, ": ", 2);
    memcpy(to + name.size + 2, value.data, value.size);
    to[name.size + 2 + value.size] = '\0';
}

struct handoff_delivery *handoff_delivery_new(struct handoff_lane *lane, const struct base_uuid *id,
                                              size_t texts_size)
{
    struct base_arena arena;
    base_arena_init(&arena, sizeof(struct handoff_delivery) + ROOM_FOR_ENDS + texts_size);
    struct handoff_delivery *delivery = base_arena_calloc(&arena, 1, sizeof *delivery);
    if (!delivery)
        return NULL;
    arena.block_size = LATER_BLOCK;
    delivery->magic = HANDOFF_DELIVERY_MAGIC;
    delivery->arena = arena;
    delivery->lane = lane;
    delivery->id = *id;
    base_uuid_format(id, delivery->id_text);
    delivery->live.id = &delivery->id;
    delivery->live.lane = lane;
    delivery->live.owner = delivery;
    delivery->timer.fire = handoff_delivery_timer_fired;
    delivery->write_timer.fire = handoff_delivery_write_timer_fired;
    delivery->words = "";
    delivery->last_record = &delivery->records;
    STAILQ_INIT(&delivery->replies);
    STAILQ_INIT(&delivery->lent_replies);
    return delivery;
}

bool handoff_delivery_keep(struct handoff_delivery *delivery, struct base_span from,
                           struct base_span *to)
{
    *to = from;
    if (!from.data)
        return true;
    to->data = base_arena_copy(&delivery->arena, from.data, from.size);
    return to->data != NULL;
}

static bool copy_header(struct base_arena *arena, const char *name, struct base_span value,
                        const char **header)
{
    *header = NULL;
    if (!value.data || value.size == 0)
        return true;
    char *text = base_arena_alloc(arena, strlen(name) + sizeof ": " + value.size);
    if (text)
        write_header(text, base_span_text(name), value);
    *header = text;
    return text != NULL;
}

/* "00-<32 digits>-<16 digits>-01" */
struct base_span handoff_trace_id(struct base_span traceparent)
{
    enum { BEFORE = sizeof "00-" - 1, DIGITS = 32 };
    if (!traceparent.data || traceparent.size < BEFORE + DIGITS)
        return base_span(NULL, 0);
    return base_span(traceparent.data + BEFORE, DIGITS);
}

bool handoff_delivery_keep_trace(struct handoff_delivery *delivery, struct base_span traceparent,
                                 struct base_span tracestate)
{
    if (!copy_header(&delivery->arena, "traceparent", traceparent, &delivery->traceparent) ||
        !copy_header(&delivery->arena, "tracestate", tracestate, &delivery->tracestate))
        return false;
    if (delivery->traceparent)
        delivery->trace_id =
            handoff_trace_id(base_span_text(delivery->traceparent + sizeof "traceparent: " - 1));
    return true;
}

bool handoff_delivery_join_feed(struct handoff_delivery *delivery, struct base_span channel)
{
    struct handoff_feeds *feeds = delivery->lane->engine->options.feeds;
    if (!feeds)
        return true;
    struct handoff_feed *feed = handoff_feeds_get(feeds, channel, delivery->asked_target);
    atomic_store_explicit(&delivery->live.feed, feed, memory_order_release);
    return feed != NULL;
}

void handoff_delivery_leave_feed(struct handoff_delivery *delivery)
{
    struct handoff_feed *feed = atomic_load_explicit(&delivery->live.feed, memory_order_relaxed);
    atomic_store_explicit(&delivery->live.feed, NULL, memory_order_relaxed);
    if (feed)
        handoff_feeds_put(delivery->lane->engine->options.feeds, feed);
}

void handoff_delivery_free(struct handoff_delivery *delivery)
{
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    BASE_CHECK(!delivery->writing && !delivery->attempting && !delivery->held.queued &&
               !delivery->looked_at);
    BASE_CHECK(STAILQ_EMPTY(&delivery->replies) && STAILQ_EMPTY(&delivery->lent_replies));
    BASE_CHECK(LIST_EMPTY(&delivery->watches));
    handoff_settings_release(&delivery->settings);
    base_free(delivery->progress);
    base_free(delivery->accepting);
    base_buffer_free(&delivery->gaps);
    handoff_delivery_clear_protocol(delivery);
    base_free(delivery->contribution);
    base_free(delivery->own_contribution);
    base_free(delivery->own_envelope);
    handoff_shared_envelope_release(&delivery->shared);
    handoff_delivery_leave_feed(delivery);     /* it is no longer listed */
    struct base_arena arena = delivery->arena; /* the arena contains the delivery itself */
    delivery->magic = 0;
    base_arena_free(&arena);
}

static bool agent_counts(struct handoff_agent *agent, unsigned limit)
{
    pthread_mutex_lock(&agent->lock);
    bool room = limit == 0 || agent->in_flight < limit;
    agent->in_flight += room;
    pthread_mutex_unlock(&agent->lock);
    return room;
}

static void agent_uncounts(struct handoff_agent *agent)
{
    pthread_mutex_lock(&agent->lock);
    agent->in_flight--;
    pthread_mutex_unlock(&agent->lock);
}

bool handoff_delivery_count(struct handoff_engine *engine, struct handoff_agent *agent,
                            bool limited)
{
    unsigned all = limited ? atomic_load(&engine->max_in_flight) : 0;
    unsigned per_agent = limited ? atomic_load(&engine->max_in_flight_per_agent) : 0;
    unsigned before = atomic_fetch_add_explicit(&engine->in_flight, 1, memory_order_relaxed);
    if ((all == 0 || before < all) && agent_counts(agent, per_agent))
        return true;
    atomic_fetch_sub_explicit(&engine->in_flight, 1, memory_order_relaxed);
    return false;
}

void handoff_delivery_uncount(struct handoff_engine *engine, struct handoff_agent *agent)
{
    agent_uncounts(agent);
    atomic_fetch_sub_explicit(&engine->in_flight, 1, memory_order_relaxed);
}

/* ---- moving --------------------------------------------------------------------------------- */

void handoff_delivery_note_parked(struct handoff_delivery *delivery)
{
    delivery->parked_for = delivery->agent;
    delivery->parked_ms = delivery->settled_ms;
    handoff_parked_note(delivery->parked_for, delivery->parked_ms);
}

/* The status as stored, or with an attempt in flight, which is not stored. */
static void show(struct handoff_delivery *delivery)
{
    struct handoff_live_view view;
    handoff_delivery_view(delivery, &view);
    handoff_live_publish(&delivery->lane->engine->live, &delivery->live, &view);
}

void handoff_delivery_move(struct handoff_delivery *delivery, enum handoff_state to)
{
    enum handoff_state from = delivery->state;
    BASE_CHECK(handoff_life_move(from, to) != NULL);
    if (to != HANDOFF_STATE_IN_FLIGHT)
        handoff_delivery_break_off(delivery);
    if (!handoff_state_is_live(to)) {
        base_timers_stop(delivery->lane->timers, &delivery->timer);
        delivery->settled_ms = handoff_delivery_wall_ms(delivery);
        delivery->due_mono_ms = 0;
    }
    if (handoff_state_is_live(to) && !delivery->turn.agent)
        handoff_delivery_join(delivery); /* a replay */
    if (handoff_state_is_live(from) && !handoff_state_is_live(to))
        handoff_delivery_uncount(delivery->lane->engine, delivery->agent);
    if (from == HANDOFF_STATE_PARKED)
        handoff_parked_forget(delivery->parked_for, delivery->parked_ms);
    if (to == HANDOFF_STATE_PARKED)
        handoff_delivery_note_parked(delivery);
    delivery->state = to;
    handoff_live_note(&delivery->live, (int)to);
    handoff_delivery_observe_move(delivery, from, false);
    if (to != HANDOFF_STATE_IN_FLIGHT)
        handoff_delivery_write(delivery);
    else if (!delivery->changed)
        show(delivery); /* not written: a restart repeats the attempt either way */
}

void handoff_delivery_hand_to(struct handoff_delivery *delivery, struct handoff_agent *agent)
{
    handoff_delivery_break_off(delivery);
    agent_uncounts(delivery->agent);
    agent_counts(agent, 0);
    handoff_delivery_quit(delivery);
    delivery->agent = agent;
    handoff_delivery_join(delivery);
    handoff_live_note_agent(&delivery->live, agent);
    delivery->failures = 0;
    delivery->circuit_until_ms = 0;
    delivery->due_mono_ms = 0;
}

bool handoff_delivery_claim(struct handoff_delivery *delivery)
{
    handoff_live_note(&delivery->live, HANDOFF_STATE_PARKED); /* not counted for any agent yet */
    return handoff_live_add(&delivery->lane->engine->live, &delivery->live);
}

void handoff_delivery_give_up_claim(struct handoff_delivery *delivery)
{
    handoff_live_remove(&delivery->lane->engine->live, &delivery->live);
}

void handoff_delivery_unclaim(struct handoff_delivery *delivery)
{
    handoff_delivery_give_up_claim(delivery);
    handoff_delivery_free(delivery);
}

void handoff_delivery_enter(struct handoff_delivery *delivery, enum handoff_state state,
                            struct handoff_agent *agent)
{
    delivery->agent = agent;
    delivery->state = state;
    if (delivery->began_ns == 0)
        delivery->began_ns = handoff_delivery_now_ns(delivery);
    handoff_live_fill(&delivery->lane->engine->live, &delivery->live, (int)state, agent,
                      delivery->began_ns);
    if (handoff_state_is_live(state)) {
        handoff_delivery_join(delivery);
        show(delivery);
    }
    TAILQ_INSERT_TAIL(&delivery->lane->deliveries, delivery, entry);
}

void handoff_delivery_observe_start(struct handoff_delivery *delivery, bool resumed)
{
    handoff_delivery_observe_move(delivery, HANDOFF_STATE_NONE, resumed);
}

void handoff_delivery_leave(struct handoff_delivery *delivery)
{
    handoff_delivery_tell_watches(delivery, true);
    if (delivery->hand_on)
        handoff_hand_on_forget(delivery);
    handoff_delivery_break_off(delivery);
    base_timers_stop(delivery->lane->timers, &delivery->timer);
    base_timers_stop(delivery->lane->timers, &delivery->write_timer);
    handoff_delivery_waits_no_more(delivery);
    handoff_delivery_stop_waiting(delivery);
    handoff_delivery_quit(delivery); /* its end is written */
    handoff_delivery_give_up_claim(delivery);
    TAILQ_REMOVE(&delivery->lane->deliveries, delivery, entry);
    handoff_delivery_free(delivery);
}

void handoff_delivery_set_attempting(struct handoff_delivery *delivery, bool attempting)
{
    if (delivery->attempting != attempting)
        atomic_fetch_add_explicit(&delivery->lane->engine->attempting, attempting ? 1u : -1u,
                                  memory_order_relaxed);
    delivery->attempting = attempting;
}

void handoff_delivery_drop(struct handoff_delivery *delivery, const struct handoff_error *error)
{
    handoff_delivery_give_up_claim(delivery);
    handoff_delivery_tell_settled(delivery, error);
    if (handoff_state_is_live(delivery->state))
        handoff_delivery_uncount(delivery->lane->engine, delivery->agent);
    handoff_delivery_leave(delivery);
}

static void set_resumes_later_error(struct handoff_error *error)
{
    handoff_error_set(
        error, HANDOFF_ERR_SHUTTING_DOWN,
        "the process is shutting down; the handoff is stored and will resume at the next start",
        NULL, NULL);
}

void handoff_delivery_postpone(struct handoff_delivery *delivery)
{
    struct handoff_error error;
    set_resumes_later_error(&error);
    handoff_delivery_tell_settled(delivery, &error);
    handoff_delivery_tell_watches(delivery, true);
}

void handoff_delivery_abandon(struct handoff_delivery *delivery)
{
    struct handoff_error error;
    handoff_delivery_break_off(delivery);
    set_resumes_later_error(&error);
    handoff_delivery_drop(delivery, &error);
}
