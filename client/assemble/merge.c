/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair merging; merge.h tells the story. A merge's rank is the id of the token it gives. */
#include "client/assemble/merge.h"

#include "client/base/check.h"
#include "client/base/memory.h"

#include <string.h>

/* The highest rank, so that it never is the lowest. */
#define NO_MERGE HANDOFF_VOCABULARY_NO_TOKEN

/* The tokens of single bytes, and the rank of merging each with its right neighbour. */
static void start_from_bytes(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                             size_t length, uint32_t *ids, uint32_t *ranks)
{
    for (size_t i = 0; i < length; i++)
        ids[i] = vocabulary->byte_ids[piece[i]];
    for (size_t i = 0; i + 1 < length; i++)
        ranks[i] = vocabulary->byte_pairs[piece[i] << 8 | piece[i + 1]];
    ranks[length - 1] = NO_MERGE;
}

/* --- short pieces -------------------------------------------------------------------------- */

static size_t leftmost_lowest(const uint32_t *ranks, size_t count)
{
    uint32_t lowest = ranks[0];
    size_t at = 0;

    for (size_t i = 1; i < count; i++) {
        if (ranks[i] < lowest) {
            lowest = ranks[i];
            at = i;
        }
    }
    return at;
}

static void merge_short(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                        size_t length, struct handoff_token_sink *sink)
{
    uint32_t ids[HANDOFF_MERGE_SHORT], ranks[HANDOFF_MERGE_SHORT];
    size_t count = length;

    start_from_bytes(vocabulary, piece, length, ids, ranks);
    for (;;) {
        size_t at = leftmost_lowest(ranks, count);

        if (ranks[at] == NO_MERGE)
            break;
        ids[at] = ranks[at];
        count--;
        memmove(&ids[at + 1], &ids[at + 2], (count - at - 1) * sizeof(ids[0]));
        memmove(&ranks[at], &ranks[at + 1], (count - at) * sizeof(ranks[0]));
        if (at + 1 < count)
            ranks[at] = handoff_vocabulary_merge(vocabulary, ids[at], ids[at + 1]);
        if (at > 0)
            ranks[at - 1] = handoff_vocabulary_merge(vocabulary, ids[at - 1], ids[at]);
    }
    for (size_t i = 0; i < count; i++)
        handoff_token_sink_put(sink, ids[i]);
}

/* --- long pieces --------------------------------------------------------------------------- */

/*
 * Parts are known by the place of their first byte. A candidate is a rank above a place, so that
 * comparing two numbers compares ranks first and places second. Candidates are never removed when
 * their parts change: one whose rank is no longer that of its place is stale and skipped.
 * Each merge takes one candidate and adds at most two, so the heap never holds more than 2 n.
 */
struct long_merge {
    const struct handoff_vocabulary *vocabulary;
    uint32_t length;
    uint32_t *ids;
    uint32_t *ranks;
    uint32_t *next;     /* length marks the end */
    uint32_t *previous; /* unused for place 0 */
    uint64_t *heap;
    size_t heap_count;
};

static void sift_down(uint64_t *heap, size_t count, size_t at)
{
    uint64_t moving = heap[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= count)
            break;
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= moving)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void heap_push(struct long_merge *merge, uint32_t rank, uint32_t place)
{
    uint64_t candidate = (uint64_t)rank << 32 | place;
    size_t at = merge->heap_count++;

    while (at > 0 && merge->heap[(at - 1) / 2] > candidate) {
        merge->heap[at] = merge->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    merge->heap[at] = candidate;
}

static uint64_t heap_pop(struct long_merge *merge)
{
    uint64_t lowest = merge->heap[0];

    merge->heap[0] = merge->heap[--merge->heap_count];
    if (merge->heap_count > 0)
        sift_down(merge->heap, merge->heap_count, 0);
    return lowest;
}

static void long_merge_start(struct long_merge *merge, const uint8_t *piece)
{
    start_from_bytes(merge->vocabulary, piece, merge->length, merge->ids, merge->ranks);
    for (uint32_t i = 0; i < merge->length; i++) {
        merge->next[i] = i + 1;
        merge->previous[i] = i - 1;
        if (merge->ranks[i] != NO_MERGE)
            merge->heap[merge->heap_count++] = (uint64_t)merge->ranks[i] << 32 | i;
    }
    for (size_t i = merge->heap_count / 2; i-- > 0;)
        sift_down(merge->heap, merge->heap_count, i);
}

/* Finds anew what the part at a place and its right neighbour would merge into. */
static void update_rank(struct long_merge *merge, uint32_t place)
{
    uint32_t right = merge->next[place], rank = NO_MERGE;

    if (right < merge->length)
        rank = handoff_vocabulary_merge(merge->vocabulary, merge->ids[place], merge->ids[right]);
    merge->ranks[place] = rank;
    if (rank != NO_MERGE)
        heap_push(merge, rank, place);
}

static void long_merge_run(struct long_merge *merge)
{
    while (merge->heap_count > 0) {
        uint64_t candidate = heap_pop(merge);
        uint32_t place = (uint32_t)candidate, rank = (uint32_t)(candidate >> 32), gone;

        if (merge->ranks[place] != rank)
            continue;
        gone = merge->next[place];
        merge->ids[place] = rank;
        merge->ranks[gone] = NO_MERGE;
        merge->next[place] = merge->next[gone];
        if (merge->next[gone] < merge->length)
            merge->previous[merge->next[gone]] = place;
        update_rank(merge, place);
        if (place > 0)
            update_rank(merge, merge->previous[place]);
    }
}

static enum handoff_code merge_long(const struct handoff_vocabulary *vocabulary,
                                    const uint8_t *piece, size_t length,
                                    struct handoff_token_sink *sink)
{
    struct long_merge merge = {.vocabulary = vocabulary, .length = (uint32_t)length};
    /* One block for all: the heap first, because its words are the widest. */
    size_t bytes = length * (2 * sizeof(*merge.heap) + 4 * sizeof(*merge.ids));

    merge.heap = handoff_malloc(bytes);
    if (!merge.heap)
        return HANDOFF_ERR_OUT_OF_MEMORY;
    merge.ids = (uint32_t *)(merge.heap + 2 * length);
    merge.ranks = merge.ids + length;
    merge.next = merge.ranks + length;
    merge.previous = merge.next + length;
    long_merge_start(&merge, piece);
    long_merge_run(&merge);
    for (uint32_t place = 0; place < merge.length; place = merge.next[place])
        handoff_token_sink_put(sink, merge.ids[place]);
    handoff_free(merge.heap);
    return HANDOFF_OK;
}

enum handoff_code handoff_merge(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                                size_t length, struct handoff_token_sink *sink)
{
    HANDOFF_CHECK(length > 0);
    if (length > HANDOFF_MERGE_LONGEST)
        return HANDOFF_ERR_TOO_LARGE;
    if (length > HANDOFF_MERGE_SHORT)
        return merge_long(vocabulary, piece, length, sink);
    merge_short(vocabulary, piece, length, sink);
    return HANDOFF_OK;
}
