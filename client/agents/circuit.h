/* SPDX-License-Identifier: Apache-2.0 */
/* circuit.h - a breaker's memory across restarts. */
#ifndef HANDOFF_AGENTS_CIRCUIT_H
#define HANDOFF_AGENTS_CIRCUIT_H

#include "client/agents/agents.h"
#include "client/deliver/lane.h"

/* On the lane: it is written, or the error says why not. */
typedef void handoff_circuit_saved(void *context, const struct handoff_error *error);

/* Has the store write the current state of the agent's breaker, which may be newer than what the
   caller saw: in whatever order lanes call this, the last write has the latest state. saved: NULL
   if no caller waits; a breaker that is lost in a crash is learned again. false: out of memory, and
   `saved` is not called. */
bool handoff_circuit_save(struct handoff_lane *lane, struct handoff_agent *agent,
                          handoff_circuit_saved *saved, void *context) HANDOFF_MUST_CHECK;

#endif
