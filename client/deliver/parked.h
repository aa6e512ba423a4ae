/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.h - what a person, or a late acknowledgement, makes of a parked handoff.
 *
 * A parked handoff is not in memory. A decision loads it onto the caller's lane, moves it like any
 * other, and has it written before the caller is told.
 */
#ifndef HANDOFF_DELIVER_PARKED_H
#define HANDOFF_DELIVER_PARKED_H

#include "client/deliver/engine.h"

enum handoff_decision {
    HANDOFF_DECISION_REPLAY,
    HANDOFF_DECISION_DISCARD,
    HANDOFF_DECISION_ACKNOWLEDGE, /* the agent had done the work */
};

/* Decides about one, on the lane's thread. The waiter is told of the outcome as for a new handoff:
   a replay `accepted` (never, for the others), then `settled`. Otherwise: not_found, conflict (it
   is not parked, or its deadline has passed, or somebody else just decided), unknown_agent,
   too_many_in_flight, out_of_memory, or a failure of the store.
   target: to another agent; absent: to the one it was parked for. reason: for a discard. */
enum handoff_code handoff_engine_decide(struct handoff_lane *lane, const struct handoff_uuid *id,
                                        enum handoff_decision decision, struct handoff_span target,
                                        struct handoff_span reason, struct handoff_waiter *waiter,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
