/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visibility.h - which envelopes an agent may see, and which tasks it began.
 *
 * It sees an envelope if it is the source, the agent it was addressed to, or one that its handoff
 * was sent to, such as an alternate. An absent agent may see everything. If the store fails, access
 * is denied. Any thread; may read the disk.
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

/* Whether the agent is named in the first envelope of a task, which `first` is: an older version
 * may have assembled that for no handoff, and then only the envelope says who began the task. */
enum handoff_code handoff_visibility_began_task(struct handoff_store *store,
                                                const struct base_uuid *first,
                                                struct base_span agent, bool *began,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
