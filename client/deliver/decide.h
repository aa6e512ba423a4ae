/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decide.h - what a person, or a late acknowledgement, makes of a parked handoff.
 *
 * A parked handoff is not in memory. A decision claims it in the table of live handoffs, has a
 * reader thread read its row and its envelope, puts it on the caller's lane, moves it like any
 * other, and has it written before the caller is told. The claim comes before the
 * read, so a concurrent decision on another lane finds either the claim or the row as the first
 * decision left it, never a row that has just become outdated. One that finds the claim waits for
 * what becomes of it: then its caller is told who decided what, or, where the first decision was
 * refused, it decides.
 */
#ifndef HANDOFF_DELIVER_DECIDE_H
#define HANDOFF_DELIVER_DECIDE_H

#include "client/deliver/engine.h"

enum {
    HANDOFF_REPLAYS_MAX = 3,    /* of one handoff, without a second word */
    HANDOFF_DECIDED_SIZE = 160, /* room for what was decided, with its NUL */
};

enum handoff_decision {
    HANDOFF_DECISION_REPLAY,
    HANDOFF_DECISION_DISCARD,
    HANDOFF_DECISION_CANCEL,      /* a discard by its sender */
    HANDOFF_DECISION_ACKNOWLEDGE, /* the agent had done the work */
    HANDOFF_DECISION_HOLD,        /* none yet; internal */
};

/* Decides about one, on the lane's thread. Calls `decided` of the waiter, later unless memory ran
   out. After OK it reports as for a new handoff: `accepted` for a replay only, then `settled`.
   Other codes: not_found, conflict (it is not parked, its deadline has passed, or an earlier
   decision takes too long), unknown_agent, too_many_in_flight, shutting_down, out_of_memory, or a
   failure of the store. target: to another agent; absent: to the one it was parked for. author: is
   recorded in the commit that carries it out; NULL: the author is unknown. Both are copied. */
void handoff_engine_decide(struct handoff_lane *lane, const struct base_uuid *id,
                           enum handoff_decision decision, struct base_span target,
                           const struct handoff_author *author, struct handoff_waiter *waiter);

/* Ends those that wait for an earlier decision: the lane is closing. */
void handoff_engine_end_contenders(struct handoff_lane *lane);

/* What was decided about it last, of these actions: "replay by @operator (alice) at
   2030-01-31T18:00:00Z: it is back", or "". On a reader thread. */
void handoff_read_decided(struct handoff_store *store, const struct base_uuid *id, uint32_t actions,
                          char text[HANDOFF_DECIDED_SIZE]);
/* Refuses the edit of one that is neither parked nor expired, or was revived; names who decided. On
   a reader thread. */
enum handoff_code handoff_check_can_be_edited(struct handoff_store *store,
                                              const struct handoff_stored *stored,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* ---- making a new one of it -------------------------------------------------------------------
 */

/* Holds a parked or an expired one on the lane: once `decided` with OK, nobody else decides about
   it until it is let go or replaced. `settled` of the waiter is called when it was replaced, or
   when the lane ends; then the store has it as it was. Refused as a replay is, but for its
   deadline. */
void handoff_engine_hold(struct handoff_lane *lane, const struct base_uuid *id,
                         struct handoff_waiter *waiter);
/* How it stands with the one that is held. */
void handoff_engine_held(const struct handoff_waiter *waiter, struct handoff_status *status);
/* It is as before, and the waiter is told nothing. Harmless where nothing is held any more,
   or where the agent has acknowledged it meanwhile. */
void handoff_engine_let_go(struct handoff_waiter *waiter);
/* Accepts the submission in its place, as handoff_engine_deliver does, and discards it in the same
   commit. OK: `waiter` is told of the new one, and `settled` of `held` is called once the old one
   is over, which it is only if the new one was accepted. Otherwise it is held as before; conflict:
   it is not held any more, or the agent has acknowledged it meanwhile. What has
   expired stays so: it is held until it is let go, and `settled` is not called. */
enum handoff_code handoff_engine_replace(struct handoff_lane *lane, struct handoff_waiter *held,
                                         const struct handoff_submission *submission,
                                         struct handoff_waiter *waiter,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
