/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visibility.h - which envelopes an agent may see, and which tasks it may name.
 *
 * An envelope: its source, the agent it was addressed to, and every agent that its handoff was sent
 * to, such as an alternate. A task: its parties (client/store/parties.h), or anybody, if no
 * envelope names it yet. An absent agent may see and name everything. If the store fails, access is
 * denied. Any thread; may read the disk.
 */
#ifndef HANDOFF_ASSEMBLE_VISIBILITY_H
#define HANDOFF_ASSEMBLE_VISIBILITY_H

#include "client/envelope/read.h"
#include "client/store/store.h"
#include "lib/base/uuid.h"

/* OK, or not_found if `agent` may not see it. `id` is the envelope's. */
enum handoff_code handoff_visibility_check(struct handoff_store *store, const struct base_uuid *id,
                                           const struct handoff_envelope *envelope,
                                           struct base_span agent,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

/* OK, or not_found if the task belongs to others. */
enum handoff_code handoff_visibility_check_task(struct handoff_store *store,
                                                struct base_span task_id, struct base_span agent,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
