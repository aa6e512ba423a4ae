/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dormant.h - a handoff that waits far back in its receiver's line is a row in the store, and a
 * small entry in memory until its turn comes.
 *
 * What waits for others (an offer in an inbox, a place in the order of a line or of a held feed)
 * may wait for days, and there may be any number of them. So a lane looks at the end of each turn
 * of its loop at those that began to wait: one with `waiting_in_memory` others of its agent before
 * it, that no one waits for and of which the store has everything, becomes dormant. Its delivery is
 * freed, with the envelope. What other threads know of it (the live index, the place in its line,
 * in the inbox or the feed) is kept by the entry, in the same place.
 *
 * What looks for a delivery by its id, which is always by mail to its lane, uses
 * handoff_lane_find: the delivery is then loaded from its rows by a reader thread, and the mail is
 * delivered once more when it is there. So a poller that took its offer, a call-up, a reply, a
 * watch and the clock (deadline, reload) all wake it. The next of an inbox from which a poller
 * takes rows are loaded ahead of it. On the lane's thread.
 */
#ifndef HANDOFF_DELIVER_DORMANT_H
#define HANDOFF_DELIVER_DORMANT_H

#include "client/deliver/delivery.h"

enum { HANDOFF_DORMANT_MAGIC = 0x646f726du };

struct handoff_dormant {
    unsigned magic;                     /* first, as a delivery's */
    bool in_feed;                       /* waits until its feed is released */
    bool late;                          /* as the delivery's */
    bool loading;                       /* or waits until others were loaded */
    TAILQ_ENTRY(handoff_dormant) entry; /* of its lane's `dormant` or `to_load` */
    struct handoff_live_entry live;
    struct base_uuid id;
    struct handoff_turn turn;
    union {                         /* where it waits, beside its turn */
        struct handoff_offer offer; /* `pulled` */
        struct handoff_held held;   /* `in_feed` */
    } place;
    const struct handoff_protocol *pulled; /* it is in its agent's inbox, or on its way from there;
                                              NULL: it is not */
    struct base_timer timer;               /* its deadline, or the next look */
    int64_t deadline_mono_ms;              /* INT64_MAX: none */
    struct base_mail *waiting, **last;     /* to be delivered once it is loaded, the oldest first */
    const struct handoff_error *failed; /* while these are told that it could not be; else NULL */
    char task_id[];                     /* that its turn names, if its line is a task's */
};

/* It leaves its lane. */
void handoff_delivery_waits_no_more(struct handoff_delivery *delivery);
/* Of a lane that is made. false: out of memory. */
bool handoff_lane_begin_dormant(struct handoff_lane *lane);
/* Frees what it has for them; harmless where it has nothing. */
void handoff_lane_end_dormant(struct handoff_lane *lane);
/* The end of the turn. */
void handoff_lane_rest(struct handoff_lane *lane);
/* The lane has stopped: the store keeps them for the next start. */
void handoff_lane_drop_dormant(struct handoff_lane *lane);

/* At startup: its row was loaded, but for the envelope, and it was counted. NULL: it is not to
   begin as a dormant one, or there is no memory. */
struct handoff_dormant *handoff_dormant_for_start(const struct handoff_delivery *delivery,
                                                  struct handoff_agent *agent,
                                                  const struct handoff_stored *stored);
/* It was entered. */
void handoff_delivery_start_dormant(struct handoff_delivery *delivery,
                                    struct handoff_dormant *dormant);

#endif
