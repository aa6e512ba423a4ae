/* SPDX-License-Identifier: Apache-2.0 */
#include "client/deliver/lane.h"

#include <sys/epoll.h>

#include "client/deliver/delivery.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

static void mail_arrived(struct base_watch *watch, uint32_t events)
{
    (void)events;
    struct handoff_lane *lane =
        (void *)((char *)watch - offsetof(struct handoff_lane, mailbox_watch));
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    base_mailbox_run(&lane->mailbox);
}

static enum handoff_code open_parts(struct handoff_lane *lane, struct handoff_error *error)
{
    enum handoff_code code = base_poller_init(&lane->poller, error);
    if (code == HANDOFF_OK)
        code = base_mailbox_init(&lane->mailbox, error);
    if (code == HANDOFF_OK)
        code = handoff_transport_new(&lane->transport, &lane->poller, &lane->timers,
                                     lane->engine->options.clock, error);
    if (code != HANDOFF_OK)
        return code;
    lane->mailbox_watch.ready = mail_arrived;
    if (base_poller_watch(&lane->poller, base_mailbox_fd(&lane->mailbox), EPOLLIN,
                          &lane->mailbox_watch) != 0)
        return handoff_error_no_memory(error);
    return HANDOFF_OK;
}

static void close_parts(struct handoff_lane *lane)
{
    handoff_transport_free(&lane->transport);
    base_mailbox_free(&lane->mailbox);
    base_poller_free(&lane->poller);
    lane->magic = 0;
    base_free(lane);
}

enum handoff_code handoff_lane_new(struct handoff_lane **lane, struct handoff_engine *engine,
                                   struct handoff_error *error)
{
    *lane = NULL;
    struct handoff_lane *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = HANDOFF_LANE_MAGIC;
    made->engine = engine;
    TAILQ_INIT(&made->deliveries);
    TAILQ_INIT(&made->pollers);
    enum handoff_code code = open_parts(made, error);
    if (code != HANDOFF_OK)
        close_parts(made);
    else
        *lane = made;
    return code;
}

static void dismiss_pollers(struct handoff_lane *lane)
{
    struct handoff_poller_request *next;
    for (struct handoff_poller_request *request = TAILQ_FIRST(&lane->pollers); request;
         request = next) {
        next = TAILQ_NEXT(request, open);
        handoff_inbox_withdraw(request);
    }
}

static void submit_writes(struct handoff_lane *lane)
{
    handoff_store_submit_batch(lane->engine->options.store, &lane->writes);
}

void handoff_lane_stop(struct handoff_lane *lane)
{
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    lane->closing = true;
    dismiss_pollers(lane);
    while (lane->awaited > 0) {
        submit_writes(lane);
        base_mailbox_wait(&lane->mailbox, -1);
    }
    while (!TAILQ_EMPTY(&lane->deliveries)) /* whoever is told may let go of others */
        handoff_delivery_abandon(TAILQ_FIRST(&lane->deliveries));
}

void handoff_lane_free(struct handoff_lane **lane)
{
    struct handoff_lane *dying = *lane;
    if (!dying)
        return;
    handoff_lane_stop(dying);
    while (!TAILQ_EMPTY(&dying->pollers))
        base_mailbox_wait(&dying->mailbox, -1);
    *lane = NULL;
    close_parts(dying);
}

int64_t handoff_lane_now_ms(const struct handoff_lane *lane)
{
    return base_monotonic_ns(lane->engine->options.clock) / 1000000;
}

/* Nothing new is handed out in a drain, and who waits for it must not hold up the end. */
static bool keeps_pollers_in_a_drain(const struct handoff_lane *lane)
{
    return atomic_load(&lane->engine->draining) && !TAILQ_EMPTY(&lane->pollers);
}

static bool must_wind_down(const struct handoff_lane *lane)
{
    return !lane->wound_down &&
           atomic_load_explicit(&lane->engine->winding_down, memory_order_relaxed);
}

/* Whoever is told only waits, and takes no other handoff away. */
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

int64_t handoff_lane_wait_ms(const struct handoff_lane *lane)
{
    if (lane->writes.first || keeps_pollers_in_a_drain(lane) || must_wind_down(lane))
        return 0; /* the host's turn is over: they are submitted now, or sent home */
    return base_timers_wait_ms(&lane->timers, handoff_lane_now_ms(lane));
}

void handoff_lane_run(struct handoff_lane *lane)
{
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    if (keeps_pollers_in_a_drain(lane))
        dismiss_pollers(lane);
    if (must_wind_down(lane))
        wind_down(lane);
    base_poller_run(&lane->poller);
    base_timers_run(&lane->timers, handoff_lane_now_ms(lane));
    handoff_transport_settle(lane->transport);
    submit_writes(lane);
}
