/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - byte-pair merging of one piece of text.
 *
 * Every byte begins as one token; of all neighbours that may merge, those with the lowest rank do,
 * the leftmost first, until none may. Short pieces are merged by scanning a small array on the
 * stack, which is fastest. Longer ones use a heap of candidates over a linked list, in windows of a
 * fixed size, so that a piece takes time in proportion to its length and, on the stack, always the
 * same memory: a word of 4 MB in one heap would spend most of its time waiting for memory.
 *
 * Why windows give the same tokens: a list of tokens is the result for the bytes that it covers if
 * and only if every two neighbours are the result for theirs. (The first merge that crosses a
 * border would be the first in those two tokens alone, too, since merges elsewhere change nothing
 * there.) Two neighbours from one window are. So two windows may be joined where a token begins
 * that both have: its neighbour on the left is from the first, the one on the right from the
 * second. The end of a window is uncertain, because what follows is missing; so the next window
 * begins at a token that ends well before it, and must begin with that token, too. Where it does
 * not, wider windows are tried, up to the whole piece.
 */
#ifndef HANDOFF_TOKENS_MERGE_H
#define HANDOFF_TOKENS_MERGE_H

#include "lib/tokens/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

/* Up to this length scanning beats the heap (tests/bench/bench_tokens.c measures it). */
#define HANDOFF_MERGE_SHORT 64

/* The heap and the list of a window take 32 bytes for each of its bytes, on the stack. The longest
 * token of a published vocabulary has 128 bytes. */
#define HANDOFF_MERGE_WINDOW 1024

/* Longer pieces are rejected: positions have 32 bits, and no honest text needs more. */
#define HANDOFF_MERGE_LONGEST ((size_t)1 << 30)

/* Collects tokens: counts all, and writes as many as fit. */
struct handoff_token_sink {
    uint32_t *ids;
    size_t capacity;
    size_t count;
};

static inline void handoff_token_sink_put(struct handoff_token_sink *sink, uint32_t id)
{
    if (sink->count < sink->capacity)
        sink->ids[sink->count] = id;
    sink->count++;
}

/* Merges a piece of at least one byte. On OUT_OF_MEMORY and TOO_LARGE the sink's count is
 * unchanged; memory is needed only where windows disagree. */
enum handoff_code handoff_merge(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                                size_t length, struct handoff_token_sink *sink) HANDOFF_MUST_CHECK;

/* The same, beginning with windows of another width; for tests. */
enum handoff_code handoff_merge_in_windows(const struct handoff_vocabulary *vocabulary,
                                           const uint8_t *piece, size_t length, size_t width,
                                           struct handoff_token_sink *sink) HANDOFF_MUST_CHECK;

#endif
