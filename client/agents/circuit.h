/* SPDX-License-Identifier: Apache-2.0 */
/* circuit.h - a breaker's memory across restarts. */
#ifndef HANDOFF_AGENTS_CIRCUIT_H
#define HANDOFF_AGENTS_CIRCUIT_H

#include "client/agents/agents.h"
#include "client/deliver/lane.h"

/* On the lane: it is written, or the error says why not. */
typedef void handoff_circuit_saved(void *context, const struct handoff_error *error);

/* Has the store write the current state of the agent's breaker, which may be more than the caller
   was told: whichever lane comes last, what is written last is true. saved: NULL where nobody waits
   for it; a breaker that is forgotten is learnt again. false: out of memory, and nobody is told. */
bool handoff_circuit_save(struct handoff_lane *lane, struct handoff_agent *agent,
                          handoff_circuit_saved *saved, void *context) HANDOFF_MUST_CHECK;

#endif
