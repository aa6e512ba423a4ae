/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `inherit`: what an envelope takes from the previous one. Intent, constraints, history
 * and path are the parent's; the request adds to them. Without a parent, a new chain starts. Where
 * retention removed the parent's body, its history is gone, and the rest is inherited all the same.
 *
 * The thread that runs the assembly, except for the parent, which a reader thread of the store
 * reads.
 */
#include "client/assemble/assemble.h"
#include "client/assemble/inherit_scopes.h"
#include "client/assemble/visibility.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

static enum handoff_code no_parent(struct base_span previous, struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope with this id",
                             "previous_id", previous.data);
}

/* Better no child than one that has shed its constraints. */
static enum handoff_code nothing_to_inherit(struct base_span previous, struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_ENVELOPE_REMOVED,
                             "retention removed the previous envelope's body, and what it passes "
                             "on was too large to keep or was stored by an older version; raise "
                             "storage.retention.size to keep bodies longer, or start a new chain",
                             "previous_id", previous.data);
}

/* In place of the parent's body, which the store has told is removed. */
static enum handoff_code read_inheritance(struct handoff_assembly *assembly,
                                          const struct handoff_stored_envelope *stored,
                                          struct handoff_error *error)
{
    handoff_error_clear(error);
    if (!stored->inheritance.data) {
        enum handoff_code code =
            handoff_visibility_check(assembly->with->store, &assembly->parent_id, &assembly->parent,
                                     assembly->caller, error);
        return code == HANDOFF_OK ? nothing_to_inherit(assembly->request.previous_id, error) : code;
    }
    assembly->parent_size = stored->inheritance.size;
    return handoff_inheritance_read(stored->inheritance, &assembly->parent_id, stored->digest,
                                    &assembly->arena, &assembly->parent, &assembly->history_dropped,
                                    error);
}

/* A child repeats its parent's content, so only a caller that may see the parent may continue it.
 */
static enum handoff_code read_parent(struct handoff_assembly *assembly, struct handoff_error *error)
{
    struct handoff_stored_envelope stored;
    struct handoff_store *store = assembly->with->store;
    const struct base_uuid *id = &assembly->parent_id;
    enum handoff_code code =
        handoff_store_get_envelope(store, id, &assembly->arena, &stored, error);
    if (code == HANDOFF_OK) {
        assembly->parent_size = stored.body.size;
        code = handoff_envelope_read(stored.body, &assembly->parent, error);
    } else if (code == HANDOFF_ERR_ENVELOPE_REMOVED) {
        code = read_inheritance(assembly, &stored, error);
    }
    if (code == HANDOFF_OK)
        code = handoff_visibility_check(store, id, &assembly->parent, assembly->caller, error);
    return code == HANDOFF_ERR_NOT_FOUND ? no_parent(assembly->request.previous_id, error) : code;
}

static struct handoff_assembly *assembly_of_read(struct handoff_store_read *read)
{
    return BASE_CONTAINER_OF(read, struct handoff_assembly, parent_read);
}

/* On a reader thread, which owns the assembly until parent_was_read. Without a parent there is only
 * the task to check. */
static void run_parent_read(struct handoff_store_read *read)
{
    struct handoff_assembly *assembly = assembly_of_read(read);
    enum handoff_code code =
        assembly->request.previous_id.data
            ? read_parent(assembly, &assembly->error)
            : handoff_visibility_check_task(assembly->with->store, assembly->request.task_id,
                                            assembly->caller, &assembly->error);
    BASE_CHECK(code == assembly->error.code);
}

static void parent_was_read(struct handoff_store_read *read)
{
    struct handoff_assembly *assembly = assembly_of_read(read);
    assembly->parent_is_read = true;
    assembly->size += assembly->parent_size;
    assembly->uncounted += assembly->parent_size;
    handoff_assembly_go_on(assembly);
}

static bool ask_for_parent(struct handoff_assembly *assembly)
{
    assembly->parent_read.mailbox = assembly->mailbox;
    assembly->parent_read.run = run_parent_read;
    assembly->parent_read.done = parent_was_read;
    handoff_store_submit_read(assembly->with->store, &assembly->parent_read);
    return true;
}

/* A request that names a task joins it, where others have begun it. Only of a known caller can be
 * said whether it may. */
static bool joins_task(const struct handoff_assembly *assembly)
{
    return assembly->caller.data && assembly->request.task_id.data;
}

static enum handoff_progress load_parent(struct handoff_assembly *assembly)
{
    const struct base_span previous = assembly->request.previous_id;
    if (assembly->parent_is_read || !(previous.data || joins_task(assembly)))
        return assembly->error.code == HANDOFF_OK ? HANDOFF_PROGRESS_NEXT : HANDOFF_PROGRESS_FAILED;
    if (previous.data && !base_uuid_parse(previous.data, previous.size, &assembly->parent_id)) {
        no_parent(previous, &assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    assembly->ask = ask_for_parent;
    return HANDOFF_PROGRESS_ASK;
}

static enum handoff_code inherit_task(struct handoff_assembly *assembly,
                                      struct handoff_error *error)
{
    const struct handoff_request *request = &assembly->request;
    const struct handoff_envelope *parent = &assembly->parent;
    assembly->task_id = request->task_id;
    if (parent->doc) {
        if (request->task_id.data && !base_span_equal(request->task_id, parent->task_id)) {
            handoff_error_set(error, HANDOFF_ERR_INVALID,
                              "task_id differs from that of the previous envelope", "task_id",
                              request->task_id.data);
            handoff_error_allow(error, "%s, or omit it", parent->task_id.data);
            return HANDOFF_ERR_INVALID;
        }
        assembly->task_id = parent->task_id;
    }
    if (!assembly->task_id.data) {
        struct base_uuid id = base_uuid_make(assembly->with->uuids);
        char *text = base_arena_alloc(&assembly->arena, BASE_UUID_TEXT);
        if (!text)
            return handoff_error_no_memory(error);
        base_uuid_format(&id, text);
        assembly->task_id = base_span_text(text);
    }
    return HANDOFF_OK;
}

static enum handoff_code count_hop(struct handoff_assembly *assembly, struct handoff_error *error)
{
    const struct handoff_envelope *parent = &assembly->parent;
    assembly->hop_count = 1;
    if (parent->doc) {
        assembly->hop_count = parent->hop_count + 1;
        if (parent->hop_max < assembly->hop_max)
            assembly->hop_max = parent->hop_max;
    }
    assembly->over_limit = assembly->hop_count > assembly->hop_max;
    if (!assembly->over_limit || assembly->parks_at_limit)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_HOP_LIMIT, "hop limit reached (hops.max)", "hop.count",
                      NULL);
    handoff_error_seen(error, "%lld", (long long)assembly->hop_count);
    handoff_error_allow(error, "%lld", (long long)assembly->hop_max);
    return HANDOFF_ERR_HOP_LIMIT;
}

static enum handoff_code inherit_scopes(struct handoff_assembly *assembly,
                                        struct handoff_error *error)
{
    const bool has_parent = assembly->parent.doc != NULL;
    return handoff_assembly_inherit_scopes(assembly, &assembly->parent.scope, has_parent, error);
}

/* What the parent's envelope shows stands for all that was said before. */
static struct handoff_said said_by_parent(const struct handoff_assembly *assembly)
{
    const struct handoff_envelope *parent = &assembly->parent;
    yyjson_val *task = yyjson_obj_get(parent->context, "task");
    struct handoff_said said = {.intent = yyjson_obj_get(task, "intent"),
                                .summary = yyjson_obj_get(task, "summary"),
                                .constraints = parent->constraints,
                                .state = parent->state,
                                .steps = parent->history,
                                .expected_output = parent->expected_output,
                                .steps_lost = assembly->history_dropped};
    if (!said.intent) /* its body is gone */
        said.intent = yyjson_obj_get(yyjson_doc_get_root(parent->doc), "intent");
    said.hop = (struct handoff_hop){.id = assembly->parent_id,
                                    .hop = parent->hop_count,
                                    .agent = parent->source_agent,
                                    .target = parent->target_agent};
    base_rfc3339_parse(parent->created_at.data, parent->created_at.size, &said.hop.at_ms);
    return said;
}

static struct handoff_said said_by_request(const struct handoff_assembly *assembly)
{
    const struct handoff_request *request = &assembly->request;
    yyjson_val *root = yyjson_doc_get_root(request->doc);
    return (struct handoff_said){.hop = {.hop = assembly->hop_count,
                                         .agent = request->source_agent,
                                         .target = request->target_agent},
                                 .intent =
                                     request->intent.data ? yyjson_obj_get(root, "intent") : NULL,
                                 .summary = yyjson_obj_get(root, "task_summary"),
                                 .constraints = request->constraints,
                                 .state = request->state,
                                 .steps = request->execution_history,
                                 .references = request->memory_ids,
                                 .expected_output = request->expected_output};
}

static enum handoff_code fold_ledger(struct handoff_assembly *assembly, struct handoff_error *error)
{
    struct handoff_ledger *ledger = &assembly->ledger;
    struct handoff_said *parent = base_arena_alloc(&assembly->arena, sizeof *parent);
    const struct handoff_said own = said_by_request(assembly);
    if (!parent)
        return handoff_error_no_memory(error);
    if (assembly->parent.doc)
        *parent = said_by_parent(assembly);
    enum handoff_code code = handoff_ledger_fold(ledger, &assembly->arena, parent,
                                                 assembly->parent.doc ? 1 : 0, &own, error);
    assembly->intent = ledger->intent;
    assembly->constraints = ledger->constraints;
    return code;
}

/* ---- the way here -----------------------------------------------------------------------------
 */

static enum handoff_code name_parents(struct handoff_assembly *assembly,
                                      struct handoff_error *error)
{
    const struct handoff_envelope *parent = &assembly->parent;
    size_t i, n;
    yyjson_val *agent;
    if (!parent->doc)
        return HANDOFF_OK;
    assembly->parents = base_arena_alloc(&assembly->arena, sizeof *assembly->parents);
    assembly->path = base_arena_alloc(&assembly->arena,
                                      (yyjson_arr_size(parent->path) + 1) * sizeof *assembly->path);
    if (!assembly->parents || !assembly->path)
        return handoff_error_no_memory(error);
    assembly->parents[assembly->nparents++] = (struct handoff_parent){parent->id, parent->digest};
    yyjson_arr_foreach(parent->path, i, n, agent)
    {
        assembly->path[assembly->npath++] = base_json_span(agent);
    }
    assembly->path[assembly->npath++] = parent->source_agent;
    return HANDOFF_OK;
}

/* The caller's trace, else the parent's, else a new one. */
static enum handoff_code inherit_trace(struct handoff_assembly *assembly,
                                       struct handoff_error *error)
{
    const struct handoff_envelope *parent = &assembly->parent;
    if (handoff_traceparent_is_valid(assembly->given_traceparent)) {
        assembly->traceparent = assembly->given_traceparent;
        if (handoff_tracestate_is_valid(assembly->given_tracestate))
            assembly->tracestate = assembly->given_tracestate;
        return HANDOFF_OK;
    }
    if (parent->doc && handoff_traceparent_is_valid(parent->traceparent)) {
        assembly->traceparent = parent->traceparent;
        assembly->tracestate = parent->tracestate;
        return HANDOFF_OK;
    }
    char *text = base_arena_alloc(&assembly->arena, HANDOFF_TRACEPARENT_SIZE);
    if (!text)
        return handoff_error_no_memory(error);
    handoff_traceparent_make(assembly->with->random, text);
    assembly->traceparent = base_span_text(text);
    return HANDOFF_OK;
}

enum handoff_progress handoff_stage_inherit(struct handoff_assembly *assembly)
{
    static enum handoff_code (*const steps[])(struct handoff_assembly *, struct handoff_error *) = {
        inherit_task, count_hop, name_parents, inherit_scopes, fold_ledger, inherit_trace,
    };
    const enum handoff_progress loaded = load_parent(assembly);
    if (loaded != HANDOFF_PROGRESS_NEXT)
        return loaded;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i](assembly, &assembly->error) != HANDOFF_OK)
            return HANDOFF_PROGRESS_FAILED;
    }
    return HANDOFF_PROGRESS_NEXT;
}
