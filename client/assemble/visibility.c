/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may see an envelope, and who began a task; visibility.h has the rules. Most readers are named
 * in the envelope; only the store knows whom else the handoff was sent to, so it is asked last. Any
 * thread; may read the disk.
 */
#include "client/assemble/visibility.h"

#include "client/envelope/inheritance.h"
#include "client/store/parties.h"
#include "lib/base/arena.h"

static bool names_agent(const struct handoff_envelope *envelope, struct base_span agent)
{
    return base_span_equal(agent, envelope->source_agent) ||
           base_span_equal(agent, envelope->target_agent);
}

enum handoff_code handoff_visibility_check(struct handoff_store *store, const struct base_uuid *id,
                                           const struct handoff_envelope *envelope,
                                           struct base_span agent, struct handoff_error *error)
{
    bool is_party;
    if (!agent.data || names_agent(envelope, agent))
        return HANDOFF_OK;
    enum handoff_code code = handoff_store_is_party(store, id, agent, &is_party, error);
    if (code != HANDOFF_OK || is_party)
        return code;
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope with this id", "id", NULL);
}

/* Reads what is left of an envelope whose body retention removed; if nothing is left, it names no
   one. The caller frees *envelope; its texts are lent by the arena, so free it first. */
static enum handoff_code read_what_is_left(const struct handoff_stored_envelope *stored,
                                           struct base_arena *arena,
                                           struct handoff_envelope *envelope,
                                           struct handoff_error *error)
{
    size_t steps;
    *envelope = (struct handoff_envelope){0};
    handoff_error_clear(error);
    if (!stored->inheritance.data)
        return HANDOFF_OK;
    return handoff_inheritance_read(stored->inheritance, &stored->id, stored->digest, arena,
                                    envelope, &steps, error);
}

enum handoff_code handoff_visibility_began_task(struct handoff_store *store,
                                                const struct base_uuid *first,
                                                struct base_span agent, bool *began,
                                                struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored_envelope stored;
    struct handoff_envelope envelope;
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_store_get_envelope(store, first, &arena, &stored, error);
    if (code == HANDOFF_OK)
        code = handoff_envelope_read(stored.body, &envelope, error);
    else if (code == HANDOFF_ERR_ENVELOPE_REMOVED)
        code = read_what_is_left(&stored, &arena, &envelope, error);
    if (code == HANDOFF_OK) {
        *began = names_agent(&envelope, agent);
        handoff_envelope_free(&envelope);
    }
    base_arena_free(&arena);
    return code;
}
