/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - from any text to a full-text query that cannot be anything else. */
#ifndef HANDOFF_SPINE_EMBEDDED_QUERY_H
#define HANDOFF_SPINE_EMBEDDED_QUERY_H

#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/span.h"

/* Words of a query that count, because the cost of a search grows with their number. Of more, the
   longest count: in every language the short words are the ones that stand everywhere. */
enum { HANDOFF_QUERY_TERMS = 16 };

struct handoff_query {
    struct base_span terms[HANDOFF_QUERY_TERMS]; /* parts of the text */
    int count;
};

/* Splits text into words: runs of letters, digits and bytes above ASCII. Words that differ in the
   case of ASCII letters only count once; a single ASCII letter or digit is no word. */
void handoff_query_split(struct handoff_query *query, struct base_span text);

/* Appends the FTS5 expression "a" OR "b" OR ... of those terms whose bit is set in which. Every
   term is quoted and contains no quote, so none is ever an operator, a column name or a prefix. */
void handoff_query_append(struct base_buffer *buffer, const struct handoff_query *query,
                          uint32_t which);

#endif
