/* SPDX-License-Identifier: Apache-2.0 */
/* circuit.h - a breaker's memory across restarts. */
#ifndef HANDOFF_AGENTS_CIRCUIT_H
#define HANDOFF_AGENTS_CIRCUIT_H

#include "client/agents/agents.h"
#include "client/deliver/lane.h"

/* Has the store write the current state of the agent's breaker, which may be more than the caller
   was told: whichever lane comes last, what is written last is true. Best effort: a breaker that is
   forgotten is learnt again, so neither memory nor the disk is insisted on. */
void handoff_circuit_save(struct handoff_lane *lane, struct handoff_agent *agent);

#endif
