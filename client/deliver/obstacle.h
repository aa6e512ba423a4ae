/* SPDX-License-Identifier: Apache-2.0 */
/*
 * obstacle.h - whether an agent can be given an envelope that was made for another one.
 *
 * An envelope is made for the agent that was asked for: within its token budget, in the versions
 * that it reads. An alternate, or the agent that a replay names, may read and hold less. Its
 * protocol knows what it reads.
 */
#ifndef HANDOFF_DELIVER_OBSTACLE_H
#define HANDOFF_DELIVER_OBSTACLE_H

#include "client/agents/agents.h"

/* Why the envelope cannot go to the agent now; UNKNOWN_AGENT also for NULL, and NONE if it can.
   Any thread. */
enum handoff_obstacle handoff_fit_obstacle(struct handoff_agent *agent, struct base_span envelope,
                                           uint64_t tokens, int64_t now_ms);

#endif
