/* SPDX-License-Identifier: Apache-2.0 */
/* edit.h - the request that an edit of an envelope amounts to. Pure, any thread. */
#ifndef HANDOFF_CALLS_EDIT_H
#define HANDOFF_CALLS_EDIT_H

#include "client/store/store.h"
#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/span.h"
#include "lib/base/uuid.h"

/* What a new handoff would have to ask for to replace `envelope`, whose request
   supplied `contribution` (absent: an older version stored it, and the request continues the
   envelope), with the members of the object `edit` in `body` in their place, for the agent that
   `body` names as target_agent, or else for `target`. The constraints of the old request hold in
   any case, so the new one does not repeat them. The text is malloc'ed. invalid_json,
   invalid_request, store_corrupt, out_of_memory. */
enum handoff_code handoff_edit_request(struct base_span envelope, struct base_span contribution,
                                       struct base_span body, const char *target, char **request,
                                       size_t *size,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

/* What the request of an envelope supplied; absent: an older version stored it. Waits for the disk.
 */
enum handoff_code handoff_edit_contribution(struct handoff_store *store, const struct base_uuid *id,
                                            struct base_arena *arena, struct base_span *text,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The names of the fields that the edit in `body` replaces, separated by commas; as many as fit. */
void handoff_edit_names(struct base_span body, char *names, size_t size);

#endif
