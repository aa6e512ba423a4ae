/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request supplied, as it is folded into its ledger and kept for later hops. The thread that
 * runs the assembly.
 */
#include "client/assemble/assemble.h"
#include "client/ledger/constraints.h"
#include "client/ledger/contribution.h"
#include "lib/base/json.h"

struct handoff_said handoff_assembly_said(const struct handoff_assembly *assembly)
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
                                 .mentioned = assembly->mentioned,
                                 .expected_output = request->expected_output,
                                 .parents = assembly->chain.places,
                                 .nparents = assembly->chain.nplaces,
                                 .revises = assembly->chain.replaced != NULL};
}

/* Those of the replaced request hold, and those of the edit. NULL: out of memory. */
static yyjson_val *constraints_of_edit(struct handoff_assembly *assembly)
{
    const struct handoff_continued_chain *chain = &assembly->chain;
    struct base_buffer out = {.arena = &assembly->arena};
    struct handoff_join_refusal refusal;
    yyjson_doc *doc = NULL;
    struct handoff_joined *joined = handoff_joined_begin(&assembly->arena);
    if (!joined ||
        !handoff_joined_add(joined, chain->said[chain->nsaid - 1].constraints, HANDOFF_JOIN_CHILD,
                            &refusal) ||
        !handoff_joined_add(joined, assembly->request.constraints, HANDOFF_JOIN_ANY_DEADLINE,
                            &refusal))
        return NULL;
    if (refusal.count) /* by rules that were others when the replaced request was accepted */
        return assembly->ledger.constraints;
    handoff_joined_write(&out, joined);
    if (out.failed || base_json_read_in(&assembly->arena, base_buffer_span(&out), "constraints",
                                        &doc, NULL) != HANDOFF_OK)
        return NULL;
    return yyjson_doc_get_root(doc);
}

/* What continues a branch has no other ancestor to inherit the task's intent and constraints from;
 * what continues an edit has none to inherit the constraints of the replaced request from. False:
 * out of memory. */
static bool add_for_later(struct handoff_assembly *assembly, struct handoff_said *own)
{
    if (assembly->chain.branches) {
        own->intent = assembly->ledger.items[HANDOFF_ITEM_INTENT].at[0].value;
        own->constraints = assembly->ledger.constraints;
    }
    if (assembly->chain.replaced)
        own->constraints = constraints_of_edit(assembly);
    return own->constraints || !assembly->chain.replaced;
}

static bool is_news(const struct handoff_reference *reference, bool found)
{
    const struct handoff_item *item = reference->item;
    return found ? item->mentioned || item->missing_since > 0
                 : !item->mentioned && item->missing_since == 0;
}

static const struct base_span *list_news(struct handoff_assembly *assembly, bool found,
                                         size_t *count)
{
    const size_t most = found ? assembly->nslots : assembly->nmissing;
    struct base_span *news = base_arena_alloc(&assembly->arena, (most + 1) * sizeof *news);
    for (size_t i = 0; news && i < most; i++) {
        const struct base_span id = found ? assembly->slots[i].show.id : assembly->missing[i].id;
        const struct handoff_reference *reference = handoff_assembly_reference(assembly, id);
        if (reference && is_news(reference, found))
            news[(*count)++] = id;
    }
    return news;
}

/* What a later hop cannot see in the request: since when a reference is missing, and that what
 * stands in a text is one. */
static bool list_looked_up(struct handoff_assembly *assembly, struct handoff_looked_up *looked_up)
{
    *looked_up = (struct handoff_looked_up){0};
    if (assembly->nreferences == 0)
        return true;
    looked_up->missing = list_news(assembly, false, &looked_up->nmissing);
    looked_up->found = list_news(assembly, true, &looked_up->nfound);
    return looked_up->missing && looked_up->found;
}

/* A delivery of a publication says nothing: what continues it has the publication's ledger, and its
 * way. */
static bool pass_on(struct handoff_assembly *assembly, const struct handoff_way *way)
{
    if (!assembly->publishes)
        return true;
    assembly->passed_on.arena = &assembly->arena;
    handoff_contribution_pass_on(&assembly->passed_on, way);
    return !assembly->passed_on.failed;
}

bool handoff_assembly_contribute(struct handoff_assembly *assembly)
{
    struct handoff_said own = handoff_assembly_said(assembly);
    if (!add_for_later(assembly, &own))
        return false;
    const struct handoff_way way = {.hop_max = assembly->hop_max,
                                    .path = assembly->path,
                                    .npath = assembly->npath,
                                    .scopes = assembly->scopes.names,
                                    .nscopes = assembly->scopes.count,
                                    .traceparent = assembly->traceparent,
                                    .tracestate = assembly->tracestate};
    struct handoff_looked_up looked_up;
    if (!list_looked_up(assembly, &looked_up))
        return false;
    assembly->contribution.arena = &assembly->arena;
    base_buffer_reserve(&assembly->contribution, assembly->body.size);
    handoff_contribution_write(
        &assembly->contribution, &own, &assembly->ledger, &way, &looked_up,
        yyjson_doc_get_root(assembly->request.doc),
        base_span_text(handoff_tokenizer_encoding(assembly->with->tokenizer)));
    return !assembly->contribution.failed && pass_on(assembly, &way);
}
