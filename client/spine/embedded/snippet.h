/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snippet.h - the part of a memory that has most of what a query says, cut at its words.
 *
 *   {"The ", "bank", " ", "retries", " a ", "payment", " three times."}
 *
 * Every second piece, from the second on, is a word of the query, as the memory has it. Offsets
 * would have to say what they count: bytes, UTF-16 or characters. Pieces need not. Pure; any
 * thread.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_SNIPPET_H
#define HANDOFF_SPINE_EMBEDDED_SNIPPET_H

#include <stddef.h>

#include "client/spine/embedded/match.h"
#include "lib/base/span.h"

enum {
    HANDOFF_SNIPPET_BYTES = 200,
    HANDOFF_SNIPPET_PIECES = 33, /* further words are plain */
};

struct handoff_snippet {
    struct base_span pieces[HANDOFF_SNIPPET_PIECES]; /* of the text; the first may be empty */
    size_t count;                                    /* odd */
};

/* Looks at the first 16 KiB. A text without any of the words gives its beginning. */
void handoff_snippet_find(const struct handoff_match *match, struct base_span text,
                          struct handoff_snippet *snippet);

#endif
