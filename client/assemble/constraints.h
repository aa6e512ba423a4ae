/* SPDX-License-Identifier: Apache-2.0 */
/*
 * constraints.h - the constraints that a child inherits, and how it may change them.
 *
 * Constraints travel the whole chain. A child has all of its parent's; it may add new ones, repeat
 * one unchanged, or tighten one. Anything else (a different value, null, a list that lost an entry)
 * is rejected with the names, because a constraint lost on the way is the failure that this program
 * exists to prevent. What counts as tightening:
 *
 *   max_...     a smaller number, not -1    (max_tokens, max_cost)
 *   min_...     a larger number             (min_coverage)
 *   deadline    an earlier time, RFC 3339
 *   object      each member by these rules
 *   array       under a name that lists demands or bans (do_not, must, never, avoid, forbidden,
 *               denied, excluded, required, guardrails, rules): further entries, none removed
 *   all others  the same value: no rule can say whether "fast" is tighter than "thorough"
 */
#ifndef HANDOFF_ASSEMBLE_CONSTRAINTS_H
#define HANDOFF_ASSEMBLE_CONSTRAINTS_H

#include <yyjson.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"

/* Appends the child's constraints as compact JSON: the parent's order, then what is new. Either may
 * be NULL. HANDOFF_ERR_CONSTRAINT_LOOSENED has the rejected names in error->seen; the buffer's
 * content is then undefined. */
enum handoff_code handoff_inherit_constraints(struct base_buffer *out, yyjson_val *parent,
                                              yyjson_val *child, struct handoff_error *error);

#endif
