/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.h - one host loop's share of delivery.
 *
 * A host runs one loop per core and gives each a lane. The lane is a guest of a struct base_loop:
 * the host's, or one of its own, which the host then drives. A handoff stays on the lane that
 * accepted it, so that nothing of it is ever shared between threads; what other threads want of it
 * comes by mail.
 */
#ifndef HANDOFF_DELIVER_LANE_H
#define HANDOFF_DELIVER_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/protocol/protocol.h"
#include "client/store/store.h"
#include "lib/base/loop.h"

struct handoff_engine;
struct handoff_delivery;
struct handoff_dormant;
struct handoff_dormant_batch;
struct handoff_pending_decision;

TAILQ_HEAD(handoff_dormant_list, handoff_dormant);

struct handoff_lane {
    unsigned magic;
    struct handoff_engine *engine;
    struct base_mailbox *mailbox; /* the loop's: any thread posts, the lane's thread runs */

    /* the lane's thread: */
    struct base_loop *loop;
    struct base_timers *timers; /* the loop's */
    struct base_loop own;       /* zeroed: the loop is the host's */
    struct base_guest guest;
    struct handoff_protocol_lane protocols;
    TAILQ_HEAD(handoff_delivery_list, handoff_delivery) deliveries; /* all that live here */
    struct handoff_delivery_list waiting; /* of these, that began to wait for others in this turn */
    struct handoff_dormant_list dormant, to_load; /* rows until their turn comes (dormant.h) */
    struct handoff_dormant_batch *batch;          /* of these, that are being read together */
    TAILQ_HEAD(handoff_contender_list, handoff_pending_decision) contenders; /* decide.h */
    struct handoff_store_batch writes; /* of this turn, submitted at its end */
    unsigned awaited;                  /* mails that will come: what the store was asked to write */
    bool closing;                      /* starts nothing new */
    void *host;      /* the loop that it is a part of, for the engine's `hand_on`; NULL: none */
    bool wound_down; /* the waiters have been answered, as the engine is winding down */
};

/* May run on another thread than the lane's, before the lane runs. The lane runs on `loop`, whose
 * clock is the engine's; NULL: it makes its own loop. */
enum handoff_code handoff_lane_new(struct handoff_lane **lane, struct handoff_engine *engine,
                                   struct base_loop *loop,
                                   struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Breaks off what is under way: the store has it, and the next start resumes it. Waits for the
   store's answers; the store must still be open. Pollers are told to go when the lane runs next:
   what was on its way to them may be with another lane, which is not waited for here. */
void handoff_lane_stop(struct handoff_lane *lane);
/* Stops it, too. */
void handoff_lane_free(struct handoff_lane **lane);

int64_t handoff_lane_now_ms(const struct handoff_lane *lane); /* monotonic */

#endif
