/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visibility.h - who may see an envelope: its source, the agent it was addressed to, and the agent
 * that currently has its handoff, which may be an alternate. Any thread; may read the disk.
 */
#ifndef HANDOFF_ASSEMBLE_VISIBILITY_H
#define HANDOFF_ASSEMBLE_VISIBILITY_H

#include "client/envelope/read.h"
#include "client/store/store.h"
#include "lib/base/uuid.h"

/* OK, or not_found if `agent` may not see it; an absent agent sees all. If the store fails, access
 * is denied. `id` is the envelope's. */
enum handoff_code handoff_visibility_check(struct handoff_store *store, const struct base_uuid *id,
                                           const struct handoff_envelope *envelope,
                                           struct base_span agent,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
