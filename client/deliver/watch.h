/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - waits for a handoff that another lane may have: until it is accepted, or until it has
 * ended.
 *
 * A sender waits for its own handoff as its waiter (engine.h), of which there is one. Whoever
 * repeats a request waits for the first one's handoff by a watch, of which there may be many. A
 * watch goes to the owning lane by mail and comes back the same way, exactly once; what became of
 * the handoff is then in the store. To recall a watch, its owner sends a second mail after it, and
 * is told when both are back.
 */
#ifndef HANDOFF_DELIVER_WATCH_H
#define HANDOFF_DELIVER_WATCH_H

#include "client/deliver/engine.h"

enum handoff_watch_for { HANDOFF_WATCH_ACCEPTED, HANDOFF_WATCH_END };

/* Embedded in its owner, who keeps it until `told`. */
struct handoff_watch {
    unsigned magic;
    /* the caller's lane */
    struct handoff_lane *lane;
    struct base_uuid id;
    enum handoff_watch_for what;
    void (*told)(struct handoff_watch *watch); /* on the caller's lane; never within a call */
    unsigned trips;                            /* mails that are not back */
    bool recalled;

    struct base_mail mail, recall;
    struct handoff_lane *owner; /* that has the handoff; NULL: none */

    /* the owning lane's */
    LIST_ENTRY(handoff_watch) entry;
    bool listed; /* in `watches` of the delivery */
    bool ended;  /* the recall has arrived */
};

/* Begins to watch; on the caller's lane. `id`, `what` and `told` are set by the caller. It is told
   at once if no lane has the handoff. */
void handoff_engine_watch(struct handoff_lane *lane, struct handoff_watch *watch);
/* It is told soon, whatever the handoff does. On the caller's lane, until `told`. */
void handoff_engine_recall(struct handoff_watch *watch);

#endif
