/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.h - one host loop's share of delivery.
 *
 * A host runs one loop per core and gives each a lane: it watches handoff_lane_fd in its own epoll,
 * sleeps no longer than handoff_lane_wait_ms, and calls handoff_lane_run when either comes due. A
 * handoff stays on the lane that accepted it, so that nothing of it is ever shared between threads;
 * what other threads want of it comes by mail.
 */
#ifndef HANDOFF_DELIVER_LANE_H
#define HANDOFF_DELIVER_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/store/store.h"
#include "client/transport/transport.h"
#include "lib/base/mailbox.h"
#include "lib/base/poller.h"
#include "lib/base/timers.h"

struct handoff_engine;
struct handoff_delivery;
struct handoff_poller_request;

struct handoff_lane {
    unsigned magic;
    struct handoff_engine *engine;
    struct base_mailbox mailbox; /* any thread posts, the lane's thread runs */

    /* the lane's thread: */
    struct base_poller poller;
    struct base_watch mailbox_watch;
    struct base_timers timers;
    struct handoff_transport *transport;
    TAILQ_HEAD(handoff_delivery_list, handoff_delivery) deliveries; /* all that live here */
    TAILQ_HEAD(handoff_open_list, handoff_poller_request) pollers;  /* whose caller is not told */
    struct handoff_store_batch writes; /* of this turn, submitted at its end */
    unsigned awaited;                  /* mails that will come: what the store was asked to write */
    bool closing;                      /* begins nothing any more */
    bool wound_down;                   /* who waits in vain was told so, when the engine began */
};

enum handoff_code handoff_lane_new(struct handoff_lane **lane, struct handoff_engine *engine,
                                   struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Breaks off what is under way: the store has it, and the next start resumes it. Waits for the
   store's answers; the store must still be open. Pollers are told to go when the lane runs next:
   what was on its way to them may be with another lane, which is not waited for here. */
void handoff_lane_stop(struct handoff_lane *lane);
/* Stops it, too. */
void handoff_lane_free(struct handoff_lane **lane);

static inline int handoff_lane_fd(const struct handoff_lane *lane)
{
    return lane->poller.fd;
}

/* How long the host may sleep: -1 for ever. */
int64_t handoff_lane_wait_ms(const struct handoff_lane *lane);
void handoff_lane_run(struct handoff_lane *lane);

int64_t handoff_lane_now_ms(const struct handoff_lane *lane); /* monotonic */

#endif
