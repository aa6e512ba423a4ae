/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inherit_scopes.h - the scopes of memories that a request sees.
 *
 * They are inherited along the chain, and no hop widens them: a request without `scope` sees what
 * its parents saw, another one may name fewer. The parents of a fan-in saw the same. Where a chain
 * begins, the request's scopes are those that it names, or else those that its caller is bound to;
 * whoever is not bound and names none sees what is shared.
 *
 * Who is bound to scopes asks only within them: it may name no other, and of what is inherited it
 * sees only its own. Who answers a push shows no token: what it hands on sees what the chain saw,
 * and where it begins a chain, only what is shared. Pure; any thread.
 */
#ifndef HANDOFF_ASSEMBLE_INHERIT_SCOPES_H
#define HANDOFF_ASSEMBLE_INHERIT_SCOPES_H

#include "client/assemble/assemble.h"
#include "client/spine/spine.h"

/* `asked`: what the request names; NULL: it has no `scope`. `bound`: those of the caller, or `all`.
 * The result may lend the names of any of them. scope_conflict: the parents differ;
 * scope_widened: a name that they did not see; forbidden: one that the caller is not bound to. */
enum handoff_code handoff_inherit_scopes(const struct handoff_scopes *asked,
                                         const struct handoff_scopes *parents, size_t nparents,
                                         const struct handoff_scopes *bound,
                                         struct base_arena *arena, struct handoff_scopes *result,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The same for an assembly; the scopes of its parents are the members `scope` of their envelopes,
 * or NULL. */
enum handoff_code handoff_assembly_inherit_scopes(struct handoff_assembly *assembly,
                                                  yyjson_val *const *parents, size_t nparents,
                                                  struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
