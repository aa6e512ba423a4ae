/* SPDX-License-Identifier: Apache-2.0 */
/*
 * constraints.h - constraints accumulate along a chain.
 *
 * A request names only what it adds; it has all that its ancestors named. It may add constraints,
 * repeat one unchanged, or tighten one. Anything else (another value, null) is rejected, because a
 * constraint lost on the way is the failure that this program exists to prevent. What tightens:
 *
 *   max_...     a smaller number, not -1    (max_cost, max_retries)
 *   min_...     a larger number             (min_coverage)
 *   deadline    an earlier time, RFC 3339
 *   object      each member by these rules
 *   array       under a name that lists demands or bans (do_not, must, never, avoid, forbidden,
 *               denied, excluded, required, guardrails, rules): further entries. The lists are
 *               united
 *   all others  the same value: no rule can say whether "fast" is tighter than "thorough"
 *
 * max_tokens is a budget of the receiver's and no promise: a request may name any, and has the
 * newest one where it names none.
 *
 * Where a request continues several envelopes, their constraints are joined first, and of two
 * values the tighter one holds. Two of which neither is tighter cannot be joined.
 *
 * A key that differs from a known or an inherited one only in case, `_`, `-` or a plural s would be
 * a constraint that is not heeded, so it is refused.
 *
 * Pure but for the allocator, any thread.
 */
#ifndef HANDOFF_LEDGER_CONSTRAINTS_H
#define HANDOFF_LEDGER_CONSTRAINTS_H

#include <stdbool.h>
#include <yyjson.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"

/* How the second ones are joined. */
enum {
    HANDOFF_JOIN_CHILD = 0,        /* they may only tighten the first */
    HANDOFF_JOIN_SIBLING = 1,      /* neither inherits from the other */
    HANDOFF_JOIN_ANY_DEADLINE = 2, /* an operator's edit, which may have a later one */
    HANDOFF_JOIN_NO_DEADLINE = 4,  /* another hop's holds */
};

/* What could not be joined. In the arena of the output, where that has one. */
struct handoff_join_refusal {
    size_t count;
    struct base_buffer names; /* "style, limits.max_cost" */
    struct base_buffer first; /* "style" */
    yyjson_val *inherited;    /* the value of the first */
};

/* Appends both as compact JSON: the order of the first, then what is new. Either may be NULL. Frees
 * nothing; after a refusal the content is undefined, unless they are siblings: then the first one's
 * values stay. */
void handoff_join_constraints(struct base_buffer *out, yyjson_val *inherited, yyjson_val *added,
                              unsigned join, struct handoff_join_refusal *refusal);
void handoff_join_refusal_free(struct handoff_join_refusal *refusal);

/* Whether a deadline comes before the other. False where one is no time. */
bool handoff_deadline_is_earlier(yyjson_val *deadline, yyjson_val *other);

/* The value at a path that a refusal names; NULL: there is none. */
yyjson_val *handoff_constraint_at(yyjson_val *constraints, struct base_span path);

/* Whether this name lists demands, so that lists under it are united. */
bool handoff_lists_demands(struct base_span name);

/* Refuses keys that look like known or inherited ones. */
enum handoff_code handoff_check_spelling(yyjson_val *constraints, yyjson_val *inherited,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
