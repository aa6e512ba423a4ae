/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may see an envelope; visibility.h has the rule. Most readers are named in the envelope; only
 * the store knows that an alternate has the handoff, so it is asked last. Any thread; may read the
 * disk.
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
            handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope with this id", "id", NULL);
    base_arena_free(&arena);
    return code;
}
