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

#include <stdint.h>
#include <yyjson.h>

#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/span.h"

enum { HANDOFF_MENTIONED_MAX = 1000 }; /* ids of one request; further ones are not looked for */

#define HANDOFF_UNSOUGHT_MAX ((uint64_t)1000000000000000) /* more are not counted */

/* An array of texts in the arena, some perhaps twice; NULL: there are none. First those that stand
 * in the texts, in their order; then, as far as there is room, those between the ends of ranges.
 * `unsought`: how many others there are. */
enum handoff_code handoff_find_references(struct base_arena *arena, const struct base_span *texts,
                                          size_t ntexts, yyjson_val **ids, uint64_t *unsought,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
