/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting with a cache of pieces per thread; count.h tells the story. Any thread: the cache is
 * thread-local.
 */
#include "lib/tokens/count.h"

#include "lib/base/check.h"
#include "lib/tokens/boundaries.h"
#include "lib/tokens/merge.h"
#include "lib/tokens/split.h"
#include "lib/tokens/word_cache.h"

#include <endian.h>
#include <string.h>

/* --- the cache ----------------------------------------------------------------------------- */

enum {
    SHORT_SETS_BITS = 13, /* of two pieces each, 256 KiB: they make up most of what agents write */
    SHORT_BYTES = 15,
    KEY_BYTES = 16, /* must be readable where a short piece begins */
    LONG_PLACES = 256,
    LONG_BYTES = 30,
};

/* Bytes 0..7 in the first word; bytes 8..14, 4 bits of length and 4 bits of count in the second.
 * Length zero marks an empty place. */
struct short_piece {
    uint64_t low, high;
};
#define LENGTH_SHIFT 56u
#define COUNT_SHIFT  60u
#define COUNT_BITS   4u

struct long_piece {
    uint8_t length; /* 0: an empty place */
    uint8_t tokens;
    uint8_t bytes[LONG_BYTES];
};

/* A piece can be in either of two places, so two frequent words do not evict each other. */
struct piece_cache {
    uint64_t serial; /* of the vocabulary that they were counted with */
    struct short_piece shorts[1 << SHORT_SETS_BITS][2];
    struct long_piece longs[LONG_PLACES];
};

static _Thread_local struct piece_cache thread_cache;

struct counting {
    const struct handoff_vocabulary *vocabulary;
    struct piece_cache *cache;
};

static struct piece_cache *thread_cache_for(const struct handoff_vocabulary *vocabulary)
{
    struct piece_cache *cache = &thread_cache;

    if (cache->serial != vocabulary->serial)
        memset(cache, 0, sizeof(*cache));
    cache->serial = vocabulary->serial;
    return cache;
}

/* --- the tokens of one piece --------------------------------------------------------------- */

/* For pieces so short that merging cannot fail; KEY_BYTES must be readable. */
static size_t count_uncached(const struct handoff_vocabulary *vocabulary, const uint8_t *piece,
                             size_t length)
{
    struct handoff_token_sink sink = {0};
    enum handoff_code code;

    if (handoff_vocabulary_find(vocabulary, piece, length, KEY_BYTES) !=
        HANDOFF_VOCABULARY_NO_TOKEN)
        return 1;
    code = handoff_merge(vocabulary, piece, length, &sink);
    BASE_CHECK(code == HANDOFF_OK);
    return sink.count;
}

/* The bits of the two words that belong to the piece, and its length in place. */
/* clang-format off */
struct key_mask {
    uint64_t low, high, length;
};
#define LENGTH(n)  ((uint64_t)(n) << LENGTH_SHIFT)
#define FIRST(n)   (UINT64_MAX >> (64 - 8 * (n)))
#define IN_LOW(n)  {FIRST(n), 0, LENGTH(n)}
#define IN_HIGH(n) {FIRST(8), FIRST((n) - 8), LENGTH(n)}
static const struct key_mask key_masks[SHORT_BYTES + 1] = {
    {0, 0, 0},   IN_LOW(1),   IN_LOW(2),   IN_LOW(3),   IN_LOW(4),   IN_LOW(5),
    IN_LOW(6),   IN_LOW(7),   IN_LOW(8),   IN_HIGH(9),  IN_HIGH(10), IN_HIGH(11),
    IN_HIGH(12), IN_HIGH(13), IN_HIGH(14), IN_HIGH(15),
};
/* clang-format on */

static inline struct short_piece short_key(const uint8_t *piece, size_t length)
{
    struct short_piece key;

    memcpy(&key, piece, sizeof(key));
    key.low = le64toh(key.low) & key_masks[length].low;
    key.high = (le64toh(key.high) & key_masks[length].high) | key_masks[length].length;
    return key;
}

static inline struct short_piece *cache_set_of(struct piece_cache *cache, struct short_piece key)
{
    uint64_t hash = (key.low ^ (key.high << 32 | key.high >> 32)) * UINT64_C(0x9e3779b97f4a7c15);

    return cache->shorts[hash >> (64 - SHORT_SETS_BITS)];
}

static inline bool is_place_of(const struct short_piece *place, struct short_piece key)
{
    return ((place->low ^ key.low) | (place->high ^ key.high) << COUNT_BITS) == 0;
}

/* A piece enters its set in the second place and moves to the first when it is seen again, so a
 * piece seen once never evicts a frequent one. */
__attribute__((noinline)) static size_t count_in_second_place(const struct counting *counting,
                                                              const uint8_t *piece, size_t length,
                                                              struct short_piece *set)
{
    struct short_piece key = short_key(piece, length), first = set[0];
    size_t tokens;

    if (is_place_of(&set[1], key)) {
        set[0] = set[1];
        set[1] = first;
        return set[0].high >> COUNT_SHIFT;
    }
    tokens = count_uncached(counting->vocabulary, piece, length);
    BASE_CHECK(tokens < 1u << COUNT_BITS);
    set[1].low = key.low;
    set[1].high = key.high | (uint64_t)tokens << COUNT_SHIFT;
    return tokens;
}

static inline size_t count_short(const struct counting *counting, const uint8_t *piece,
                                 size_t length)
{
    struct short_piece key = short_key(piece, length);
    struct short_piece *set = cache_set_of(counting->cache, key);

    if (is_place_of(&set[0], key))
        return set[0].high >> COUNT_SHIFT;
    return count_in_second_place(counting, piece, length, set);
}

static size_t count_long(const struct counting *counting, const uint8_t *piece, size_t length)
{
    uint64_t hash = handoff_vocabulary_long_hash(piece, length);
    struct long_piece *place = &counting->cache->longs[hash >> 32 & (LONG_PLACES - 1)];

    if (place->length != length || memcmp(place->bytes, piece, length) != 0) {
        place->length = (uint8_t)length;
        place->tokens = (uint8_t)count_uncached(counting->vocabulary, piece, length);
        memcpy(place->bytes, piece, length);
    }
    return place->tokens;
}

/* KEY_BYTES must be readable. */
static inline size_t count_in_window(const struct counting *counting, const uint8_t *piece,
                                     size_t length)
{
    if (length <= SHORT_BYTES)
        return count_short(counting, piece, length);
    if (length <= LONG_BYTES)
        return count_long(counting, piece, length);
    return count_uncached(counting->vocabulary, piece, length);
}

static enum handoff_code count_piece(const struct counting *counting, const uint8_t *piece,
                                     size_t length, size_t readable, size_t *tokens)
{
    uint8_t padded[KEY_BYTES] = {0};
    struct handoff_token_sink sink = {0};
    enum handoff_code code;

    if (length <= HANDOFF_MERGE_SHORT) {
        if (readable < KEY_BYTES)
            piece = memcpy(padded, piece, length);
        *tokens += count_in_window(counting, piece, length);
        return HANDOFF_OK;
    }
    if (handoff_vocabulary_find(counting->vocabulary, piece, length, length) !=
        HANDOFF_VOCABULARY_NO_TOKEN) {
        ++*tokens;
        return HANDOFF_OK;
    }
    if (length >= HANDOFF_WORD_CACHE_LEAST)
        code = handoff_word_cache_count(counting->vocabulary, piece, length, &sink.count);
    else
        code = handoff_merge(counting->vocabulary, piece, length, &sink);
    *tokens += sink.count;
    return code;
}

/* --- whole texts --------------------------------------------------------------------------- */

enum { WINDOW_READABLE = HANDOFF_BOUNDARIES_WINDOW + KEY_BYTES };

/* The next bytes of a text, or a copy of the last ones padded with spaces. */
static const uint8_t *window_at(const uint8_t *at, size_t left, uint8_t padded[WINDOW_READABLE])
{
    if (left >= WINDOW_READABLE)
        return at;
    memset(padded, ' ', WINDOW_READABLE);
    return memcpy(padded, at, left);
}

/* Returns how far the cuts reach. */
static size_t count_cuts(const struct counting *counting, const uint8_t *window, uint64_t places,
                         size_t *tokens)
{
    size_t start = 0, sum = 0;

    for (; places; places &= places - 1) {
        size_t place = (size_t)__builtin_ctzll(places);

        sum += count_in_window(counting, window + start, place - start);
        start = place;
    }
    *tokens += sum;
    return start;
}

enum handoff_code handoff_count_valid(const struct handoff_vocabulary *vocabulary,
                                      const uint8_t *text, size_t length, size_t *count)
{
    enum handoff_split_pattern pattern = (enum handoff_split_pattern)vocabulary->header->pattern;
    handoff_split_function *split = handoff_split_for(pattern);
    struct counting counting = {.vocabulary = vocabulary, .cache = thread_cache_for(vocabulary)};
    const uint8_t *at = text, *end = text + length;
    enum handoff_code code = HANDOFF_OK;
    uint8_t padded[WINDOW_READABLE];
    size_t tokens = 0;

    while (at < end && code == HANDOFF_OK) {
        const uint8_t *window = window_at(at, (size_t)(end - at), padded);
        struct handoff_boundaries cuts =
            handoff_boundaries_find(window, (size_t)(end - at), pattern);

        at += count_cuts(&counting, window, cuts.places, &tokens);
        if (cuts.stuck) {
            const uint8_t *stop = split(at, end);

            code = count_piece(&counting, at, (size_t)(stop - at), (size_t)(end - at), &tokens);
            at = stop;
        }
    }
    if (code == HANDOFF_OK)
        *count = tokens;
    return code;
}
