/* SPDX-License-Identifier: Apache-2.0 */
/* The rule of inherit_scopes.h, for one parent and for many. Pure; any thread. */
#include "client/assemble/inherit_scopes.h"

#include "lib/base/check.h"
#include "lib/base/error.h"

static enum handoff_code refuse_scope(enum handoff_code code, const char *message,
                                      struct base_span seen, const struct handoff_scopes *allowed,
                                      struct handoff_error *error)
{
    handoff_error_set(error, code, message, "scope", NULL);
    handoff_error_seen(error, "%.*s", (int)seen.size, seen.data);
    handoff_scopes_allow(allowed, error);
    return code;
}

static enum handoff_code check_asked(const struct handoff_scopes *asked,
                                     const struct handoff_scopes *parent,
                                     const struct handoff_scopes *bound,
                                     struct handoff_error *error)
{
    for (size_t i = 0; i < asked->count; i++) {
        const struct base_span name = asked->names[i];
        if (!handoff_scopes_see(bound, name))
            return refuse_scope(HANDOFF_ERR_FORBIDDEN, "the token is bound to other scopes", name,
                                bound, error);
        if (parent && !handoff_scopes_see(parent, name))
            return refuse_scope(HANDOFF_ERR_SCOPE_WIDENED,
                                "a request cannot see scopes that its previous one did not see; "
                                "start a new chain for another scope",
                                name, parent, error);
    }
    return HANDOFF_OK;
}

static enum handoff_code check_parents(const struct handoff_scopes *parents, size_t nparents,
                                       struct handoff_error *error)
{
    for (size_t i = 1; i < nparents; i++) {
        if (handoff_scopes_equal(&parents[0], &parents[i]))
            continue;
        handoff_error_set(error, HANDOFF_ERR_SCOPE_CONFLICT,
                          "the previous envelopes have different scopes; name those of one scope "
                          "in previous_id",
                          "previous_id", NULL);
        handoff_error_allow(error, "envelopes with the same scopes");
        return HANDOFF_ERR_SCOPE_CONFLICT;
    }
    return HANDOFF_OK;
}

static enum handoff_code keep_common(const struct handoff_scopes *inherited,
                                     const struct handoff_scopes *bound, struct base_arena *arena,
                                     struct handoff_scopes *result, struct handoff_error *error)
{
    *result = *inherited;
    if (bound->all || inherited->count == 0)
        return HANDOFF_OK;
    struct base_span *names = base_arena_alloc(arena, inherited->count * sizeof *names);
    if (!names)
        return handoff_error_no_memory(error);
    result->names = names;
    result->count = 0;
    for (size_t i = 0; i < inherited->count; i++)
        if (handoff_scopes_has(bound, inherited->names[i]))
            names[result->count++] = inherited->names[i];
    return HANDOFF_OK;
}

enum handoff_code handoff_inherit_scopes(const struct handoff_scopes *asked,
                                         const struct handoff_scopes *parents, size_t nparents,
                                         const struct handoff_scopes *bound,
                                         struct base_arena *arena, struct handoff_scopes *result,
                                         struct handoff_error *error)
{
    const struct handoff_scopes *parent = nparents ? &parents[0] : NULL;
    BASE_CHECK(!asked || !asked->all);
    enum handoff_code code = check_parents(parents, nparents, error);
    if (code == HANDOFF_OK && asked)
        code = check_asked(asked, parent, bound, error);
    if (code != HANDOFF_OK)
        return code;
    if (!asked && parent)
        return keep_common(parent, bound, arena, result, error);
    *result = asked ? *asked : *bound;
    result->all = false;
    return HANDOFF_OK;
}

/* ---- of an assembly ------------------------------------------------------------------------- */

static enum handoff_code read_parent_scopes(struct base_arena *arena, yyjson_val *const *parents,
                                            size_t nparents, struct handoff_scopes **scopes,
                                            struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    *scopes = base_arena_alloc(arena, (nparents + 1) * sizeof **scopes);
    if (!*scopes)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < nparents && code == HANDOFF_OK; i++)
        code = handoff_scopes_of_json(parents[i], "scope", arena, &(*scopes)[i], error);
    return code;
}

/* Most requests have to do with no scope at all, and take none of these steps. */
enum handoff_code handoff_assembly_inherit_scopes(struct handoff_assembly *assembly,
                                                  yyjson_val *const *parents, size_t nparents,
                                                  struct handoff_error *error)
{
    struct base_arena *arena = &assembly->arena;
    yyjson_val *named = assembly->request.scope;
    struct handoff_scopes asked, bound, *inherited;
    bool concerned = named || assembly->bound;
    for (size_t i = 0; i < nparents; i++)
        concerned |= parents[i] != NULL;
    if (!concerned)
        return HANDOFF_OK;
    enum handoff_code code = handoff_scopes_of_json(named, "scope", arena, &asked, error);
    if (code == HANDOFF_OK)
        code =
            handoff_scopes_of_text(assembly->begins_shared && nparents == 0 ? "" : assembly->bound,
                                   "scope", arena, &bound, error);
    if (code == HANDOFF_OK)
        code = read_parent_scopes(arena, parents, nparents, &inherited, error);
    if (code != HANDOFF_OK)
        return code;
    return handoff_inherit_scopes(named ? &asked : NULL, inherited, nparents, &bound, arena,
                                  &assembly->scopes, error);
}
