/* SPDX-License-Identifier: Apache-2.0 */
/* edit.h - the request that an edit of an envelope amounts to. Pure, any thread. */
#ifndef HANDOFF_CALLS_EDIT_H
#define HANDOFF_CALLS_EDIT_H

#include "lib/base/error.h"
#include "lib/base/span.h"

/* What a new handoff would have to ask for to be `envelope` again, with the members of the object
   `edit` in `body` in their place, for the agent that `body` names as target_agent, or else for
   `target`. The text is malloc'ed. invalid_json, invalid_request, store_corrupt, out_of_memory. */
enum handoff_code handoff_edit_request(struct base_span envelope, struct base_span body,
                                       const char *target, char **request, size_t *size,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
