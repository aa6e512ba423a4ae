/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-pair merging; merge.h tells the story. A merge's rank is the id of the token that it makes.
 * Any thread.
 */
#include "lib/tokens/merge.h"

#include "lib/base/check.h"
#include "lib/base/memory.h"

#include <stdbool.h>

/* The highest rank, so it is never the lowest. */
#define NO_MERGE HANDOFF_VOCABULARY_NO_TOKEN

/* The rank of merging the byte at a place with the next one. */
static uint32_t byte_rank(const struct handoff_vocabulary *vocabulary, const uint8_t *at)
{
    return vocabulary->byte_pairs[at[0] << 8 | at[1]];
}

/* --- short pieces -------------------------------------------------------------------------- */

/*
 * Parts are known by the place of their first byte and never move. A candidate is a rank above a
 * place in one number, so that the lowest number is the leftmost merge of the lowest rank, and
 * finding it is a loop without a branch, which the compiler turns into vector instructions.
 */
#define PLACE_BITS 6
#define NOTHING    INT32_MAX
_Static_assert(HANDOFF_MERGE_SHORT <= 1 << PLACE_BITS, "a place must fit");
_Static_assert(HANDOFF_VOCABULARY_ID_BITS + PLACE_BITS < 31, "a candidate must fit");

struct short_merge {
    const struct handoff_vocabulary *vocabulary;
    unsigned length;
    unsigned width; /* the length rounded up, so that the loop has no odd end */
    int32_t candidates[HANDOFF_MERGE_SHORT];
    uint32_t ids[HANDOFF_MERGE_SHORT];
    uint8_t next[HANDOFF_MERGE_SHORT]; /* length marks the end */
    uint8_t previous[HANDOFF_MERGE_SHORT];
};

static int32_t candidate_of(uint32_t rank, unsigned place)
{
    return rank == NO_MERGE ? NOTHING : (int32_t)(rank << PLACE_BITS | place);
}

static int32_t lowest_candidate(const int32_t *candidates, unsigned width)
{
    int32_t lowest = NOTHING;

    for (unsigned i = 0; i < width; i++)
        lowest = candidates[i] < lowest ? candidates[i] : lowest;
    return lowest;
}

static void short_merge_start(struct short_merge *merge, const uint8_t *piece)
{
    for (unsigned i = 0; i < merge->length; i++) {
        merge->ids[i] = merge->vocabulary->byte_ids[piece[i]];
        merge->next[i] = (uint8_t)(i + 1);
        merge->previous[i] = (uint8_t)(i - 1);
    }
    for (unsigned i = 0; i + 1 < merge->length; i++)
        merge->candidates[i] = candidate_of(byte_rank(merge->vocabulary, piece + i), i);
    for (unsigned i = merge->length - 1; i < merge->width; i++)
        merge->candidates[i] = NOTHING;
}

static void short_merge_update(struct short_merge *merge, unsigned place)
{
    unsigned right = merge->next[place];
    uint32_t rank = NO_MERGE;

    if (right < merge->length)
        rank = handoff_vocabulary_merge(merge->vocabulary, merge->ids[place], merge->ids[right]);
    merge->candidates[place] = candidate_of(rank, place);
}

static void merge_short(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                        size_t length, struct handoff_token_sink *sink)
{
    struct short_merge merge;
    int32_t lowest;

    merge.vocabulary = vocabulary;
    merge.length = (unsigned)length;
    merge.width = (merge.length + 7) & ~7u;
    short_merge_start(&merge, piece);
    while ((lowest = lowest_candidate(merge.candidates, merge.width)) != NOTHING) {
        unsigned place = (unsigned)lowest & ((1u << PLACE_BITS) - 1);
        unsigned gone = merge.next[place];

        merge.ids[place] = (uint32_t)lowest >> PLACE_BITS;
        merge.candidates[gone] = NOTHING;
        merge.next[place] = merge.next[gone];
        if (merge.next[gone] < merge.length)
            merge.previous[merge.next[gone]] = (uint8_t)place;
        if (place > 0) /* both updates wait for memory: together they take 5 to 10 % less */
            handoff_vocabulary_prefetch(vocabulary, merge.ids[merge.previous[place]],
                                        merge.ids[place]);
        short_merge_update(&merge, place);
        if (place > 0)
            short_merge_update(&merge, merge.previous[place]);
    }
    for (unsigned place = 0; place < merge.length; place = merge.next[place])
        handoff_token_sink_put(sink, merge.ids[place]);
}

/* --- long pieces --------------------------------------------------------------------------- */

/*
 * Parts are known by the place of their first byte. A candidate is a rank above a place, so that
 * comparing two numbers compares ranks first and places second. Candidates are never removed when
 * their parts change: one whose rank is no longer that of its place is stale and skipped.
 * Each merge takes one candidate and adds at most two, so the heap never holds more than 2 n.
 */
#define WORDS_PER_BYTE 4 /* two of the heap, and four numbers of half a word */

/* The arrays lie in memory that merge_window's caller lends. */
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

    BASE_CHECK(at < 2 * (size_t)merge->length); /* the memory of the heap */
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
    for (uint32_t i = 0; i < merge->length; i++) {
        merge->ids[i] = merge->vocabulary->byte_ids[piece[i]];
        merge->ranks[i] =
            i + 1 < merge->length ? byte_rank(merge->vocabulary, piece + i) : NO_MERGE;
        merge->next[i] = i + 1;
        merge->previous[i] = i - 1;
        if (merge->ranks[i] != NO_MERGE)
            merge->heap[merge->heap_count++] = (uint64_t)merge->ranks[i] << 32 | i;
    }
    for (size_t i = merge->heap_count / 2; i-- > 0;)
        sift_down(merge->heap, merge->heap_count, i);
}

/* Looks up again what the part at a place and its right neighbour would merge into. */
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

/* Merges a window in the memory given for it, WORDS_PER_BYTE words for each of its bytes. */
static void merge_window(struct long_merge *merge, const struct handoff_vocabulary *vocabulary,
                         uint64_t *memory, const uint8_t *window, size_t length)
{
    /* One block for all: the heap first, because its words are the widest. */
    *merge = (struct long_merge){.vocabulary = vocabulary, .length = (uint32_t)length};
    merge->heap = memory;
    merge->ids = (uint32_t *)(merge->heap + 2 * length);
    merge->ranks = merge->ids + length;
    merge->next = merge->ranks + length;
    merge->previous = merge->next + length;
    long_merge_start(merge, window);
    long_merge_run(merge);
}

/* --- windows ------------------------------------------------------------------------------- */

/* The tokens of a window up to the first that ends in its last eighth, which is near enough to the
 * end to depend on what follows. Returns where the next window begins. */
static uint32_t put_settled_tokens(const struct long_merge *merge, bool is_last,
                                   struct handoff_token_sink *sink)
{
    const uint32_t enough = is_last ? merge->length : merge->length - merge->length / 8;
    uint32_t place = 0;

    while (place < enough && merge->next[place] < merge->length + is_last) {
        handoff_token_sink_put(sink, merge->ids[place]);
        place = merge->next[place];
    }
    return place;
}

/* False: two neighbouring windows disagree, and wider ones are needed. */
static bool merge_by_windows(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                             size_t length, size_t width, uint64_t *memory,
                             struct handoff_token_sink *sink)
{
    uint32_t expected = NO_MERGE; /* the token that the window before found where this one begins */

    for (size_t at = 0, settled; at < length; at += settled) {
        const bool is_last = length - at <= width;
        struct long_merge merge;

        merge_window(&merge, vocabulary, memory, piece + at, is_last ? length - at : width);
        if (expected != NO_MERGE && merge.ids[0] != expected)
            return false;
        settled = put_settled_tokens(&merge, is_last, sink);
        if (settled == 0)
            return false;
        expected = is_last ? NO_MERGE : merge.ids[settled];
    }
    return true;
}

/* Makes the windows four times as wide until they agree; the widest is the whole piece. */
static enum handoff_code merge_wider(const struct handoff_vocabulary *vocabulary,
                                     const uint8_t *piece, size_t length, size_t width,
                                     struct handoff_token_sink *sink)
{
    const size_t before = sink->count;
    bool merged = false;

    for (; !merged; width *= 4) {
        const size_t most = width < length ? width : length;
        uint64_t *memory = base_malloc(most * WORDS_PER_BYTE * sizeof(*memory));

        if (!memory)
            return HANDOFF_ERR_OUT_OF_MEMORY;
        sink->count = before;
        merged = merge_by_windows(vocabulary, piece, length, most, memory, sink);
        base_free(memory);
        BASE_CHECK(merged || most < length);
    }
    return HANDOFF_OK;
}

static bool merge_on_stack(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                           size_t length, size_t width, struct handoff_token_sink *sink)
{
    uint64_t memory[WORDS_PER_BYTE * HANDOFF_MERGE_WINDOW];
    const size_t before = sink->count;

    if (merge_by_windows(vocabulary, piece, length, width, memory, sink))
        return true;
    sink->count = before;
    return false;
}

enum handoff_code handoff_merge_in_windows(const struct handoff_vocabulary *vocabulary,
                                           const uint8_t *piece, size_t length, size_t width,
                                           struct handoff_token_sink *sink)
{
    BASE_CHECK(length > 0 && width > 0);
    if (length > HANDOFF_MERGE_LONGEST)
        return HANDOFF_ERR_TOO_LARGE;
    if (width > HANDOFF_MERGE_WINDOW)
        return merge_wider(vocabulary, piece, length, width, sink);
    if (merge_on_stack(vocabulary, piece, length, width, sink))
        return HANDOFF_OK;
    return merge_wider(vocabulary, piece, length, 4 * width, sink);
}

enum handoff_code handoff_merge(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                                size_t length, struct handoff_token_sink *sink)
{
    BASE_CHECK(length > 0);
    if (length > HANDOFF_MERGE_SHORT)
        return handoff_merge_in_windows(vocabulary, piece, length, HANDOFF_MERGE_WINDOW, sink);
    merge_short(vocabulary, piece, length, sink);
    return HANDOFF_OK;
}
