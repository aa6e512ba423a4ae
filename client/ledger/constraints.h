/* SPDX-License-Identifier: Apache-2.0 */
/*
 * constraints.h - constraints accumulate along a chain.
 *
 * A request names only what it adds; it has all that its ancestors named. It may add constraints,
 * repeat one unchanged, or tighten one. Anything else (another value, null) is rejected, because a
 * constraint lost on the way is the failure that this program exists to prevent. What tightens:
 *
 *   max_...     a smaller number, which is not -1, nor negative where the other was not: that often
 *               means unlimited             (max_cost, max_retries)
 *   min_...     a larger number             (min_coverage)
 *   deadline    an earlier time, RFC 3339
 *   object      each member by these rules
 *   array       under a name that lists demands or bans (do_not, must, never, avoid, forbidden,
 *               denied, excluded, required, guardrails, rules): further entries. The lists are
 *               united
 *   all others  the same value: no rule can say whether "fast" is tighter than "thorough"
 *
 * A member that is null, also inside an object, is absent where nothing was inherited for it: a
 * value that no later hop could tighten would lock the name for all of them.
 *
 * max_tokens is a budget of the receiver's and no promise: a request may name any, and has the
 * newest one where it names none.
 *
 * Where a request continues several envelopes, their constraints are joined first, and of two
 * values the tighter one holds. Two of which neither is tighter cannot be joined.
 *
 * A key that differs from a known or an inherited one, or from another of its object, only in case,
 * `_`, `-` or a plural s would be a constraint that is not heeded, so it is refused; inside objects
 * too, where all known names but max_tokens have their meaning.
 *
 * Pure but for the arena, any thread.
 */
#ifndef HANDOFF_LEDGER_CONSTRAINTS_H
#define HANDOFF_LEDGER_CONSTRAINTS_H

#include <stdbool.h>
#include <yyjson.h>

#include "lib/base/arena.h"
#include "lib/base/buffer.h"
#include "lib/base/error.h"

/* How a hop's are joined to those before. */
enum {
    HANDOFF_JOIN_CHILD = 0,        /* they may only tighten the first */
    HANDOFF_JOIN_SIBLING = 1,      /* neither inherits from the other */
    HANDOFF_JOIN_ANY_DEADLINE = 2, /* an operator's edit, which may have a later one */
    HANDOFF_JOIN_NO_DEADLINE = 4,  /* another hop's holds */
};

/* What could not be joined, of one hop. In the arena. */
struct handoff_join_refusal {
    size_t count;
    struct base_buffer names; /* "style, limits.max_cost" */
    struct base_buffer first; /* "style" */
    yyjson_val *inherited;    /* the value of the first: as it was supplied, or the tightest */
};

/* Hops are added one by one, and cost no more than they have themselves. All in the arena; the
 * values are lent. NULL: out of memory. */
struct handoff_joined;
struct handoff_joined *handoff_joined_begin(struct base_arena *arena);
/* Members keep their places, and new ones come behind. NULL adds nothing. What is refused is not
 * added. False: out of memory. */
bool handoff_joined_add(struct handoff_joined *joined, yyjson_val *constraints, unsigned join,
                        struct handoff_join_refusal *refusal) HANDOFF_MUST_CHECK;
/* Appends all as compact JSON. */
void handoff_joined_write(struct base_buffer *out, const struct handoff_joined *joined);

/* Whether some member is null, here or inside an object, and is left out when it is joined. */
bool handoff_has_null_members(yyjson_val *constraints);

/* Whether a deadline comes before the other. False where one is no time. */
bool handoff_deadline_is_earlier(yyjson_val *deadline, yyjson_val *other);

/* The value at a path that a refusal names; NULL: there is none. */
yyjson_val *handoff_constraint_at(yyjson_val *constraints, struct base_span path);

/* Whether some of what a hop named is in the constraints that it was joined to. */
bool handoff_constraint_holds(struct base_span name, yyjson_val *value, yyjson_val *joined);

/* Whether this name lists demands, so that lists under it are united. */
bool handoff_lists_demands(struct base_span name);

/* Refuses keys that look like known or inherited ones, or like each other. */
enum handoff_code handoff_check_spelling(struct base_arena *arena, yyjson_val *constraints,
                                         yyjson_val *inherited,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Two keys of one object of constraints that look alike, as paths. */
struct handoff_look_alikes {
    struct base_buffer one, other;
};

/* Finds such a pair that `counts` accepts. False: there is none, or one of the buffers failed.
 */
bool handoff_find_look_alikes(struct base_arena *arena, yyjson_val *constraints,
                              bool (*counts)(void *context, const struct handoff_look_alikes *),
                              void *context, struct handoff_look_alikes *found);

#endif
