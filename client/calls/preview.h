/* SPDX-License-Identifier: Apache-2.0 */
/* preview.h - what an edit would make of a handoff, before it is sent. On the loop of the request.
 */
#ifndef HANDOFF_CALLS_PREVIEW_H
#define HANDOFF_CALLS_PREVIEW_H

#include "client/handoff.h"

/*
 * Shows what handoff_replay_edited would make of a handoff, and stores nothing: the body is the
 * same. The answer's body is
 * {"id", "target_agent", "token_count", "token_budget", "token_count_before", "fields": {today's
 * values of what an edit can replace}, "difference": [{"change", "line"}] between the two briefs}.
 * Its errors are those of handoff_replay_edited.
 */
void handoff_preview_edit(struct handoff_loop *loop, const char *id, const char *body, size_t size,
                          handoff_answered *answered, void *context);

#endif
