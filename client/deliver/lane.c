/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, runs and closes a lane. It has two places in a turn of the loop (lane.h): after sockets,
 * mail and timers were served, the protocols report the attempts that ended; at the end of the
 * turn, what began to wait far back becomes dormant, and everything to be written is submitted to
 * the store as one batch. Runs on the lane's thread,
 * except that another thread may make the lane before it runs, and stop and free it once it no
 * longer runs.
 */
#include "client/deliver/lane.h"

#include "client/deliver/decide.h"
#include "client/deliver/delivery.h"
#include "client/deliver/dormant.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* A drain hands out nothing new, and waiting pollers must not delay the shutdown. */
static bool keeps_pollers_in_a_drain(const struct handoff_lane *lane)
{
    return atomic_load(&lane->engine->draining) &&
           handoff_protocol_lane_has_pollers(&lane->protocols);
}

static bool must_wind_down(const struct handoff_lane *lane)
{
    return !lane->wound_down &&
           atomic_load_explicit(&lane->engine->winding_down, memory_order_relaxed);
}

/* The notified waiters only answer; they do not remove other handoffs from the lane. */
static void wind_down(struct handoff_lane *lane)
{
    struct handoff_delivery *next;
    lane->wound_down = true;
    for (struct handoff_delivery *delivery = TAILQ_FIRST(&lane->deliveries); delivery;
         delivery = next) {
        next = TAILQ_NEXT(delivery, entry);
        handoff_delivery_wind_down(delivery);
    }
}

static void submit_writes(struct handoff_lane *lane)
{
    handoff_store_submit_batch(lane->engine->options.store, &lane->writes);
}

/* ---- its places in a turn of the loop -------------------------------------------------------- */

static struct handoff_lane *lane_of(struct base_guest *guest)
{
    struct handoff_lane *lane = BASE_CONTAINER_OF(guest, struct handoff_lane, guest);
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    return lane;
}

static int64_t lane_wait_ms(struct base_guest *guest)
{
    const struct handoff_lane *lane = lane_of(guest);
    if (lane->writes.first || keeps_pollers_in_a_drain(lane) || must_wind_down(lane))
        return 0; /* writes requested between two turns are submitted now */
    return -1;
}

static void settle_lane(struct base_guest *guest)
{
    struct handoff_lane *lane = lane_of(guest);
    if (keeps_pollers_in_a_drain(lane))
        handoff_protocol_lane_dismiss_pollers(&lane->protocols);
    if (must_wind_down(lane))
        wind_down(lane);
    handoff_protocol_lane_settle(&lane->protocols);
}

static void finish_lane(struct base_guest *guest)
{
    struct handoff_lane *lane = lane_of(guest);
    handoff_lane_rest(lane);
    submit_writes(lane);
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static enum handoff_code choose_loop(struct handoff_lane *lane, struct base_loop *loop,
                                     struct handoff_error *error)
{
    const struct base_clock *clock = lane->engine->options.clock;
    enum handoff_code code = loop ? HANDOFF_OK : base_loop_init(&lane->own, clock, error);
    if (code != HANDOFF_OK)
        return code;
    lane->loop = loop ? loop : &lane->own;
    BASE_CHECK(lane->loop->clock == clock);
    lane->mailbox = &lane->loop->mailbox;
    lane->timers = &lane->loop->timers;
    return HANDOFF_OK;
}

static enum handoff_code open_lane(struct handoff_lane *lane, struct base_loop *loop,
                                   struct handoff_error *error)
{
    enum handoff_code code = choose_loop(lane, loop, error);
    if (code == HANDOFF_OK)
        code = handoff_protocol_lane_open(&lane->protocols, lane->loop, &lane->engine->connections,
                                          error);
    if (code != HANDOFF_OK)
        return code;
    lane->guest =
        (struct base_guest){.wait_ms = lane_wait_ms, .settle = settle_lane, .finish = finish_lane};
    base_loop_invite(lane->loop, &lane->guest);
    return HANDOFF_OK;
}

static void free_lane(struct handoff_lane *lane)
{
    handoff_protocol_lane_close(&lane->protocols);
    base_loop_free(&lane->own);
    handoff_lane_end_dormant(lane);
    lane->magic = 0;
    base_free(lane);
}

enum handoff_code handoff_lane_new(struct handoff_lane **lane, struct handoff_engine *engine,
                                   struct base_loop *loop, struct handoff_error *error)
{
    *lane = NULL;
    struct handoff_lane *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = HANDOFF_LANE_MAGIC;
    made->engine = engine;
    TAILQ_INIT(&made->deliveries);
    TAILQ_INIT(&made->contenders);
    enum handoff_code code = handoff_lane_begin_dormant(made) ? open_lane(made, loop, error)
                                                              : handoff_error_no_memory(error);
    if (code != HANDOFF_OK)
        free_lane(made);
    else
        *lane = made;
    return code;
}

void handoff_lane_stop(struct handoff_lane *lane)
{
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    lane->closing = true;
    handoff_protocol_lane_dismiss_pollers(&lane->protocols);
    handoff_engine_end_contenders(lane);
    while (lane->awaited > 0) {
        submit_writes(lane);
        base_mailbox_wait(lane->mailbox, -1);
    }
    while (!TAILQ_EMPTY(&lane->deliveries)) /* a notified waiter may release others */
        handoff_delivery_abandon(TAILQ_FIRST(&lane->deliveries));
    handoff_lane_drop_dormant(lane);
}

void handoff_lane_free(struct handoff_lane **lane)
{
    struct handoff_lane *dying = *lane;
    if (!dying)
        return;
    handoff_lane_stop(dying);
    while (handoff_protocol_lane_has_pollers(&dying->protocols))
        base_mailbox_wait(dying->mailbox, -1);
    base_loop_settle(&dying->own); /* drops call-ups that came too late */
    *lane = NULL;
    base_loop_dismiss(dying->loop, &dying->guest);
    free_lane(dying);
}

int64_t handoff_lane_now_ms(const struct handoff_lane *lane)
{
    return base_monotonic_ns(lane->engine->options.clock) / 1000000;
}
