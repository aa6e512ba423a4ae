/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vocabulary.h - a byte-pair vocabulary as one read-only file, mapped and used in place.
 *
 * The published vocabularies are text, base64 and a rank per line; parsing 200,000 lines at every
 * start would take longer than the rest of the start. tools/vocabulary compiles them once, when the
 * program is built, into tables that are used in place. Processes that use the same file share its
 * pages.
 *
 * The file has these parts in this order, each padded to 32 bytes, numbers in the machine's byte
 * order (the file is built where it is used; the header identifies a foreign one):
 *
 *   header      struct handoff_vocabulary_header
 *   short keys  token by its bytes, up to 13 of them, which lie in the slot itself: a hit costs one
 *               cache line
 *   long keys   token by its bytes, longer ones; the bytes are compared in the blob
 *   pairs       token that two neighbouring tokens merge into (see below)
 *   byte ids    256 tokens of one byte
 *   byte pairs  65,536 answers of the pair table for two single bytes, where every merge begins
 *   offsets     token_count + 1 places in the blob
 *   blob        the bytes of all tokens, in the order of their ids
 *
 * Why one pair per token is enough: merging is defined by bytes (any two neighbours whose bytes
 * together are a token may merge, lowest rank first, leftmost first). As long as nothing merged
 * across the borders of a token's bytes, the merges within them happen in the same order as if they
 * were the whole text, so the last two parts are always the same two. The compiler finds them by
 * merging every token's bytes in isolation.
 *
 * Hash tables are open, with linear probing, at most 60 % full.
 *
 * Safety: opening checks the checksum, every size, and every number that is used as an index, so
 * even a file forged to match its checksum can only make counts wrong. Replace the file by renaming
 * a new one over it, never rewrite it in place: a mapped file that shrinks kills the process
 * (SIGBUS).
 *
 * Threads: read-only once open; any number may look up at once.
 */
#ifndef HANDOFF_TOKENS_VOCABULARY_H
#define HANDOFF_TOKENS_VOCABULARY_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/tokens/handoff_tokens.h"

#define HANDOFF_VOCABULARY_FILE_MAGIC "HANDOFFV"
#define HANDOFF_VOCABULARY_VERSION    1u
#define HANDOFF_VOCABULARY_BYTE_ORDER 0x01020304u
#define HANDOFF_VOCABULARY_ALIGNMENT  32u
#define HANDOFF_VOCABULARY_ID_BITS    18u /* three ids share one 64-bit pair slot */
#define HANDOFF_VOCABULARY_MAX_TOKENS (1u << HANDOFF_VOCABULARY_ID_BITS)
#define HANDOFF_VOCABULARY_MAX_SLOTS  (4 * HANDOFF_VOCABULARY_MAX_TOKENS)
#define HANDOFF_VOCABULARY_SHORT_KEY  13u /* 8 bytes in one word, 5 beside id and length */
#define HANDOFF_VOCABULARY_NO_TOKEN   UINT32_MAX

struct handoff_vocabulary_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint64_t file_size;
    uint64_t checksum;         /* over the whole file, this field taken as zero */
    char encoding[32];         /* its name, NUL-terminated */
    uint8_t source_digest[32]; /* SHA-256 of the text it was compiled from */
    uint32_t pattern;          /* enum handoff_split_pattern */
    uint32_t token_count;
    uint32_t blob_size;
    uint32_t short_slots;
    uint32_t long_slots;
    uint32_t pair_slots;
    uint32_t reserved[2]; /* zero */
};

/* Bytes 0..7 in the first word; bytes 8..12, 20 bits of id and 4 bits of length in the second.
 * Length zero marks an empty slot. */
struct handoff_vocabulary_short_slot {
    uint64_t low;
    uint64_t high;
};
#define HANDOFF_VOCABULARY_ID_SHIFT     40u
#define HANDOFF_VOCABULARY_LENGTH_SHIFT 60u
#define HANDOFF_VOCABULARY_KEY_MASK     UINT64_C(0xf00000ffffffffff)
#define HANDOFF_VOCABULARY_EMPTY_PAIR   UINT64_MAX

/* The offsets of the parts, computed from the header; total is the file's size. */
struct handoff_vocabulary_layout {
    uint64_t shorts, longs, pairs, byte_ids, byte_pairs, offsets, blob, total;
};

struct handoff_vocabulary {
    uint64_t serial; /* identifies this opening: addresses are reused */
    const struct handoff_vocabulary_header *header; /* also the beginning of the mapping */
    const struct handoff_vocabulary_short_slot *shorts;
    const uint32_t *longs;      /* ids; NO_TOKEN marks an empty slot */
    const uint64_t *pairs;      /* left, right and merged id, 18 bits each from the top down */
    const uint32_t *byte_ids;   /* [256] */
    const uint32_t *byte_pairs; /* [65536], NO_TOKEN where two bytes do not merge */
    const uint32_t *offsets;    /* [token_count + 1] */
    const uint8_t *blob;
};

/* Maps a file and checks it. On failure the struct is untouched and the error says why. */
enum handoff_code handoff_vocabulary_open(const char *path, struct handoff_vocabulary *vocabulary,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;
void handoff_vocabulary_close(struct handoff_vocabulary *vocabulary);

/* The parts of opening, which the compiler of vocabularies and the tests use too. */
struct handoff_vocabulary_layout
handoff_vocabulary_layout(const struct handoff_vocabulary_header *header);
uint64_t handoff_vocabulary_checksum(const void *file, size_t size);
void handoff_vocabulary_attach(struct handoff_vocabulary *vocabulary, const void *file);
enum handoff_code handoff_vocabulary_check(const void *file, size_t size,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

/* --- lookups, in the header because they are the inner loop -------------------------------- */

/* Spreads a hash over any number of slots, without a division. */
static inline uint32_t handoff_vocabulary_slot(uint64_t hash, uint32_t slots)
{
    return (uint32_t)(((hash >> 32) * slots) >> 32);
}

static inline uint64_t handoff_vocabulary_mix(uint64_t low, uint64_t high)
{
    /* Odd constants with well-spread bits (the fraction of the golden ratio; xxHash's prime 2). */
    uint64_t hash = low * UINT64_C(0x9e3779b97f4a7c15);

    hash = (hash ^ hash >> 32 ^ high) * UINT64_C(0xc2b2ae3d27d4eb4f);
    hash ^= hash >> 29;
    return hash * UINT64_C(0x9e3779b97f4a7c15);
}

/* The key of 1 to 13 bytes. `readable` is how many bytes may be read from there: with 16 the key
 * takes two loads, with fewer it is assembled by a copy. */
static inline struct handoff_vocabulary_short_slot
handoff_vocabulary_short_key(const uint8_t *bytes, size_t length, size_t readable)
{
    struct handoff_vocabulary_short_slot key;
    uint8_t padded[16] = {0};

    if (readable < sizeof(padded)) {
        memcpy(padded, bytes, length);
        bytes = padded;
    }
    memcpy(&key.low, bytes, 8);
    memcpy(&key.high, bytes + 8, 8);
    key.low = le64toh(key.low);
    key.high = le64toh(key.high);
    if (length < 8) {
        key.low &= ~(UINT64_MAX << (8 * length));
        key.high = 0;
    } else {
        key.high &= ~(UINT64_MAX << (8 * (length - 8)));
    }
    key.high |= (uint64_t)length << HANDOFF_VOCABULARY_LENGTH_SHIFT;
    return key;
}

/* The hash of a long key. */
static inline uint64_t handoff_vocabulary_long_hash(const uint8_t *bytes, size_t length)
{
    uint64_t hash = length, word;

    for (; length >= 8; bytes += 8, length -= 8) {
        memcpy(&word, bytes, 8);
        hash = handoff_vocabulary_mix(hash, word);
    }
    word = 0;
    memcpy(&word, bytes, length);
    return handoff_vocabulary_mix(hash, word);
}

uint32_t handoff_vocabulary_find_long(const struct handoff_vocabulary *vocabulary,
                                      const uint8_t *bytes, size_t length);

/* The token with these bytes (at least one), or NO_TOKEN. */
static inline uint32_t handoff_vocabulary_find(const struct handoff_vocabulary *vocabulary,
                                               const uint8_t *bytes, size_t length, size_t readable)
{
    struct handoff_vocabulary_short_slot key;
    uint32_t slots = vocabulary->header->short_slots, slot;

    if (length > HANDOFF_VOCABULARY_SHORT_KEY)
        return handoff_vocabulary_find_long(vocabulary, bytes, length);
    key = handoff_vocabulary_short_key(bytes, length, readable);
    slot = handoff_vocabulary_slot(handoff_vocabulary_mix(key.low, key.high), slots);
    for (;;) {
        const struct handoff_vocabulary_short_slot *seen = &vocabulary->shorts[slot];

        if (seen->low == key.low && (seen->high & HANDOFF_VOCABULARY_KEY_MASK) == key.high)
            return (uint32_t)(seen->high >> HANDOFF_VOCABULARY_ID_SHIFT) & 0xfffff;
        if (seen->high == 0)
            return HANDOFF_VOCABULARY_NO_TOKEN;
        slot = slot + 1 < slots ? slot + 1 : 0;
    }
}

static inline uint64_t handoff_vocabulary_pair_key(uint32_t left, uint32_t right)
{
    return (uint64_t)left << HANDOFF_VOCABULARY_ID_BITS | right;
}

static inline uint32_t handoff_vocabulary_pair_slot(const struct handoff_vocabulary *vocabulary,
                                                    uint64_t key)
{
    return handoff_vocabulary_slot(handoff_vocabulary_mix(key, 0), vocabulary->header->pair_slots);
}

/* Prefetches the slot that handoff_vocabulary_merge will read for the same two. */
static inline void handoff_vocabulary_prefetch(const struct handoff_vocabulary *vocabulary,
                                               uint32_t left, uint32_t right)
{
    uint64_t key = handoff_vocabulary_pair_key(left, right);

    __builtin_prefetch(&vocabulary->pairs[handoff_vocabulary_pair_slot(vocabulary, key)]);
}

/* The token that two neighbours merge into, which is also the merge's rank; or NO_TOKEN. */
static inline uint32_t handoff_vocabulary_merge(const struct handoff_vocabulary *vocabulary,
                                                uint32_t left, uint32_t right)
{
    uint64_t key = handoff_vocabulary_pair_key(left, right);
    uint32_t slots = vocabulary->header->pair_slots;
    uint32_t slot = handoff_vocabulary_pair_slot(vocabulary, key);

    for (;;) {
        uint64_t seen = vocabulary->pairs[slot];

        if (seen >> HANDOFF_VOCABULARY_ID_BITS == key)
            return (uint32_t)(seen & (HANDOFF_VOCABULARY_MAX_TOKENS - 1));
        if (seen == HANDOFF_VOCABULARY_EMPTY_PAIR)
            return HANDOFF_VOCABULARY_NO_TOKEN;
        slot = slot + 1 < slots ? slot + 1 : 0;
    }
}

#endif
