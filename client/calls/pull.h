/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h - what polling an inbox and following it (follow.c) have in common. On the loop's thread.
 */
#ifndef HANDOFF_CALLS_PULL_H
#define HANDOFF_CALLS_PULL_H

#include "client/client.h"

/* Offers a leased handoff again that its receiver never got. Out of memory: its lease expires. */
void handoff_give_back(struct handoff_loop *loop, const struct base_uuid *id, uint32_t attempt);

/* unknown_agent (`agent` is NULL); invalid: it has a url, so its inbox would stay empty for ever.
 */
enum handoff_code handoff_check_pulls(struct handoff_agents *agents, struct handoff_agent *agent,
                                      const char *name, struct handoff_error *error);

/* What the request was told; the texts are lent. */
void handoff_pulled_fill(struct handoff_pulled *got, const struct handoff_poller_request *request);

#endif
