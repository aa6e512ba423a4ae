/* SPDX-License-Identifier: Apache-2.0 */
/* Sketches of documents, see sketch.h. Pure; any thread. */
#include "lib/words/sketch.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/words/telling.h"

enum {
    NEAR_SHARE = 16,                                 /* one word in so many may differ */
    EDITS_MAX = 2 * (WORDS_SKETCH_MAX / NEAR_SHARE), /* as many of each may be left out */
    DIGEST_SIZE = WORDS_SKETCH_HEAD / 2,
};

static uint8_t sketch_byte(uint64_t hash)
{
    const uint8_t byte = (uint8_t)(hash >> 56);
    return byte != WORDS_SKETCH_BREAK ? byte : 1;
}

void words_sketch_begin(struct words_sketch *sketch)
{
    sketch->size = WORDS_SKETCH_HEAD;
    sketch->digest = sketch->told = WORDS_HASH_START;
}

static void append_byte(struct words_sketch *sketch, uint8_t byte)
{
    if (sketch->size < WORDS_SKETCH_MAX)
        sketch->bytes[sketch->size++] = byte;
}

void words_sketch_break(struct words_sketch *sketch)
{
    append_byte(sketch, WORDS_SKETCH_BREAK);
    sketch->digest = words_hash_byte(sketch->digest, WORDS_SKETCH_BREAK);
}

bool words_sketch_add(struct words_sketch *sketch, const struct words_term *term)
{
    if (term->kind != WORDS_WORD && term->kind != WORDS_PAIR)
        return false;
    append_byte(sketch, sketch_byte(term->hash));
    sketch->digest = words_hash_end(sketch->digest ^ term->hash);
    return true;
}

void words_sketch_end_text(struct words_sketch *sketch, const struct words_reader *reader)
{
    sketch->digest = words_tell(sketch->digest, reader->signs);
    sketch->told = words_tell(words_tell(sketch->told, reader->told), reader->signs);
}

void words_sketch_end(struct words_sketch *sketch)
{
    const uint64_t digest = words_hash_end(sketch->digest), told = words_hash_end(sketch->told);
    for (int i = 0; i < DIGEST_SIZE; i++) {
        sketch->bytes[i] = (uint8_t)(digest >> 8 * i);
        sketch->bytes[DIGEST_SIZE + i] = (uint8_t)(told >> 8 * i);
    }
}

/* ---- nearly the same ------------------------------------------------------------------------- */

/* Bytes that both have, each as often as the one that has it less often. */
static size_t in_common(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    uint16_t left[256] = {0};
    size_t common = 0;
    for (size_t i = 0; i < a_size; i++)
        left[a[i]]++;
    for (size_t i = 0; i < b_size; i++)
        if (left[b[i]] > 0) {
            left[b[i]]--;
            common++;
        }
    return common;
}

/* How far in a, where b is as far less `diagonal`, after one more byte of either was left out. */
static int furthest_on(const int16_t *reached, int edits, int diagonal)
{
    const bool from_b =
        diagonal == -edits || (diagonal != edits && reached[diagonal - 1] < reached[diagonal + 1]);
    return from_b ? reached[diagonal + 1] : reached[diagonal - 1] + 1;
}

/* Whether leaving out so many bytes of both makes them the same (Myers' O(ND) difference). */
static bool are_same_but_for(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                             size_t left_out)
{
    int16_t room[2 * EDITS_MAX + 3] = {0}, *reached = room + EDITS_MAX + 1;
    const int a_end = (int)a_size, b_end = (int)b_size, most = (int)left_out;
    for (int edits = 0; edits <= most && edits <= EDITS_MAX; edits++)
        for (int diagonal = -edits; diagonal <= edits; diagonal += 2) {
            int at = furthest_on(reached, edits, diagonal);
            while (at < a_end && at - diagonal < b_end && a[at] == b[at - diagonal])
                at++;
            if (at >= a_end && at - diagonal >= b_end)
                return true;
            reached[diagonal] = (int16_t)at;
        }
    return false;
}

/* All but `differ` of the longer one are in both, and in the same order: what both have, but not in
   one order, was moved, and who does what to whom may be the other way round. */
static bool are_words_near(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    const size_t longer = a_size > b_size ? a_size : b_size, shorter = a_size + b_size - longer;
    const size_t differ = longer / NEAR_SHARE;
    if (differ == 0 || shorter + differ < longer)
        return false;
    const size_t common = in_common(a, a_size, b, b_size);
    return common + differ >= longer &&
           are_same_but_for(a, a_size, b, b_size, longer + shorter - 2 * common);
}

bool words_sketch_is_near(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    if (a_size <= WORDS_SKETCH_HEAD || b_size <= WORDS_SKETCH_HEAD || a_size > WORDS_SKETCH_MAX ||
        b_size > WORDS_SKETCH_MAX)
        return false;
    if (a_size == b_size && memcmp(a, b, DIGEST_SIZE) == 0)
        return true;
    if (memcmp(a + DIGEST_SIZE, b + DIGEST_SIZE, DIGEST_SIZE) != 0 || a_size == WORDS_SKETCH_MAX ||
        b_size == WORDS_SKETCH_MAX)
        return false;
    return are_words_near(a + WORDS_SKETCH_HEAD, a_size - WORDS_SKETCH_HEAD, b + WORDS_SKETCH_HEAD,
                          b_size - WORDS_SKETCH_HEAD);
}

/* ---- the order of a query -------------------------------------------------------------------- */

static void add_pair(struct words_order *order, uint8_t first, uint8_t second, uint8_t apart,
                     size_t at)
{
    for (size_t i = 0; i < order->count; i++)
        if (order->pairs[i].first == first && order->pairs[i].second == second)
            return;
    order->pairs[order->count] = (struct words_order_pair){first, second, apart, (uint32_t)at};
    order->firsts[first] |= (uint64_t)1 << order->count++;
}

/* Those next to each other first, as there is room for so many. */
void words_order_begin(struct words_order *order, const uint64_t *hashes, size_t count)
{
    order->count = 0;
    memset(order->firsts, 0, sizeof order->firsts);
    for (uint8_t apart = 1; apart <= 2; apart++)
        for (size_t i = 0; i + apart < count && order->count < WORDS_SKETCH_ORDERS; i++)
            if (hashes[i] != hashes[i + apart])
                add_pair(order, sketch_byte(hashes[i]), sketch_byte(hashes[i + apart]), apart, i);
}

static void count_second(const struct words_order *order, uint64_t pairs, uint8_t second,
                         uint8_t worth, uint8_t *counts)
{
    for (; pairs; pairs &= pairs - 1) {
        const int pair = __builtin_ctzll(pairs);
        if (order->pairs[pair].second == second && counts[pair] + worth <= UINT8_MAX)
            counts[pair] = (uint8_t)(counts[pair] + worth);
    }
}

void words_order_count(const struct words_order *order, const uint8_t *sketch, size_t size,
                       uint8_t *counts)
{
    memset(counts, 0, order->count);
    for (size_t i = WORDS_SKETCH_HEAD; i + 1 < size; i++) {
        const uint64_t pairs = order->firsts[sketch[i]];
        if (!pairs || sketch[i + 1] == WORDS_SKETCH_BREAK)
            continue;
        count_second(order, pairs, sketch[i + 1], 2, counts);
        if (i + 2 < size)
            count_second(order, pairs, sketch[i + 2], 1, counts);
    }
}
