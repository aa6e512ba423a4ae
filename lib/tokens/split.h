/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.h - cuts text into the pieces that byte-pair merging never crosses.
 *
 * An encoding defines its pieces by a regular expression. Both expressions are matched by hand
 * here, alternative by alternative in their order (docs/decisions.md has the reason). Text must be
 * valid UTF-8. Every byte belongs to exactly one piece, and cutting a whole text takes linear time:
 * characters given back by a match are examined at most once more. Pure, any thread.
 */
#ifndef HANDOFF_TOKENS_SPLIT_H
#define HANDOFF_TOKENS_SPLIT_H

#include <stdint.h>

/* The numbers are part of the vocabulary file format. */
enum handoff_split_pattern {
    HANDOFF_SPLIT_CL100K = 1,
    HANDOFF_SPLIT_O200K = 2,
};

/* Returns the end of the piece that begins at a place before the end of the text. */
typedef const uint8_t *handoff_split_function(const uint8_t *at, const uint8_t *end);

handoff_split_function handoff_split_cl100k;
handoff_split_function handoff_split_o200k;

/* NULL for an unknown pattern. */
handoff_split_function *handoff_split_for(uint32_t pattern);

#endif
