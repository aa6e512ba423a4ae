/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - byte-pair merging of one piece of text.
 *
 * Every byte begins as one token; of all neighbours that may merge, those with the lowest rank do,
 * the leftmost first, until none may. Short pieces are merged by scanning a small array on the
 * stack, which is fastest and cannot fail. Long ones use a heap of candidates over a linked list: n
 * log n steps even for hostile text, and 32 bytes of memory per byte.
 */
#ifndef HANDOFF_TOKENS_MERGE_H
#define HANDOFF_TOKENS_MERGE_H

#include "lib/tokens/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

/* Up to this length scanning beats the heap (tests/bench/bench_tokens.c measures it). */
#define HANDOFF_MERGE_SHORT 64

/* Up to this length the heap and the list fit on the stack, in 8 KB. */
#define HANDOFF_MERGE_ON_STACK 256

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

/* Merges a piece of at least one byte. On OUT_OF_MEMORY and TOO_LARGE the sink is unchanged. */
enum handoff_code handoff_merge(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                                size_t length, struct handoff_token_sink *sink) HANDOFF_MUST_CHECK;

#endif
