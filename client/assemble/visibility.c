/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An envelope says itself who sent it and to whom. That an alternate has it stands only in the
 * store, which is asked last: most readers are named in the envelope.
 */
#include "client/assemble/visibility.h"

#include "client/store/handoffs.h"
#include "lib/base/arena.h"

enum handoff_code handoff_visibility_check(struct handoff_store *store, const struct base_uuid *id,
                                           const struct handoff_envelope *envelope,
                                           struct base_span agent, struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored stored;
    if (!agent.data || base_span_equal(agent, envelope->source_agent) ||
        base_span_equal(agent, envelope->target_agent))
        return HANDOFF_OK;
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_store_get_handoff(store, id, &arena, &stored, error);
    if (code == HANDOFF_OK && !handoff_stored_concerns(&stored, agent))
        code =
            handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope has this id", "id", NULL);
    base_arena_free(&arena);
    return code;
}
