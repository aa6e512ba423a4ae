/* SPDX-License-Identifier: Apache-2.0 */
/*
 * references.h - ids of memories that stand in a text.
 *
 * "Use the analysis in memories ms-4821 through ms-4825" names five memories. What looks like an id
 * is a run of letters, digits, `_`, `-`, `.` and `:` that begins and ends with a letter or digit,
 * and has a letter, a digit, and one of the others between two of them: ms-4821, mem:7, a UUID. So
 * no ordinary word is one, and no number or date. Two such with the same beginning and numbers at
 * their ends, joined by "through", "to" or "..", name those between as well; after ".." the number
 * is enough.
 *
 * What looks like an id need not be one: such a reference counts where the memory exists.
 *
 * Pure but for the arena; any thread.
 */
#ifndef HANDOFF_LEDGER_REFERENCES_H
#define HANDOFF_LEDGER_REFERENCES_H

#include <yyjson.h>

#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/span.h"

enum { HANDOFF_MENTIONED_MAX = 1000 }; /* ids of one request; further ones are not looked for */

/* An array of texts in the arena, in the order of the texts, some perhaps twice; NULL: there are
 * none. */
enum handoff_code handoff_find_references(struct base_arena *arena, const struct base_span *texts,
                                          size_t ntexts, yyjson_val **ids,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
