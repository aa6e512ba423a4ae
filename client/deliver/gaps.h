/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gaps.h - memories that the receiver of a handoff lacks, or has fetched by now.
 *
 * They are stored by a job of their own, since they may come after the handoff is over. What comes
 * with an acknowledgement is submitted before the write of that, so the store never has the
 * acknowledgement alone. The observer is told once they are stored, and a repeat is told nothing.
 *
 * On the lane's thread.
 */
#ifndef HANDOFF_DELIVER_GAPS_H
#define HANDOFF_DELIVER_GAPS_H

#include "client/deliver/engine.h"
#include "client/protocol/protocol.h"

/* Called once they are stored, or could not be. */
typedef void handoff_gaps_kept(void *context, const struct handoff_error *error);

/* Stores them. Ids are one on each line, and copied; an absent agent is the one that has the
   handoff. `kept` may be NULL. out_of_memory: nothing is stored, and `kept` is not called. */
enum handoff_code handoff_lane_keep_gaps(struct handoff_lane *lane, const struct base_uuid *id,
                                         struct base_span lacking, struct base_span found,
                                         struct base_span agent, handoff_gaps_kept *kept,
                                         void *context,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

struct handoff_delivery;

/* Notes them with a delivery in memory, for what its sender is told. Without memory it is told
   nothing of them. */
void handoff_delivery_note_gaps(struct handoff_delivery *delivery, struct base_span lacking);

/* Notes and stores them. Called before the acknowledgement that has them is stored, so that nobody
   sees that one without them. false: out of memory. */
bool handoff_delivery_take_gaps(struct handoff_delivery *delivery,
                                struct base_span lacking) HANDOFF_MUST_CHECK;

#endif
