/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scopes.h - which memories somebody may see.
 *
 * A memory is in one scope, which has a name such as `user:alice`, or it is shared: then its scope
 * is the empty name. Who sees some scopes sees their memories and the shared ones. {0} is who sees
 * only what is shared.
 *
 * Names are lent, by an arena or by the document that they come from. Pure; any thread.
 */
#ifndef HANDOFF_SPINE_SCOPES_H
#define HANDOFF_SPINE_SCOPES_H

#include <stdbool.h>
#include <stddef.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "lib/base/arena.h"
#include "lib/base/span.h"

enum {
    HANDOFF_SCOPE_MAX = 128, /* bytes of a name */
    HANDOFF_SCOPES_MAX = 16, /* named at once: each is looked into by itself */
};

#define HANDOFF_SCOPE_ALLOWED "1 to 128 characters of A-Z a-z 0-9 . _ : @ / -"

struct handoff_scopes {
    const struct base_span *names; /* sorted, each once */
    size_t count;
    bool all; /* every scope; there are no names then */
};

/* From names that are separated by commas; NULL is `all`, "" is {0}. `field` names them in the
   error. */
enum handoff_code handoff_scopes_of_text(const char *text, const char *field,
                                         struct base_arena *arena, struct handoff_scopes *scopes,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;
/* From a name or an array of names; absent, "" and [] are {0}. */
enum handoff_code handoff_scopes_of_json(yyjson_val *value, const char *field,
                                         struct base_arena *arena, struct handoff_scopes *scopes,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Checks one name; the empty one is valid. */
enum handoff_code handoff_scope_validate(struct base_span name, const char *field,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

bool handoff_scopes_has(const struct handoff_scopes *scopes, struct base_span name);
bool handoff_scopes_equal(const struct handoff_scopes *a, const struct handoff_scopes *b);

/* Whether memories of this scope are seen, and whether they may be stored and changed. Who is
   bound to scopes stores only in these; who has none stores what is shared. */
bool handoff_scopes_see(const struct handoff_scopes *scopes, struct base_span name);
bool handoff_scopes_may_store(const struct handoff_scopes *scopes, struct base_span name);

/* Says in `allowed` which scopes these are, as far as there is room. */
void handoff_scopes_allow(const struct handoff_scopes *scopes, struct handoff_error *error);

#endif
