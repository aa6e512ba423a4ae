/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spell.h - the letters of a term, from its first to its hash. Pure; any thread.
 */
#ifndef WORDS_SPELL_H
#define WORDS_SPELL_H

#include "lib/words/hash.h"
#include "lib/words/stem.h"
#include "lib/words/words.h"

_Static_assert((int)WORDS_SPELLED_MAX < (int)WORDS_STEM_MAX, "a word is too long for its stem");

static inline void words_spell_begin(struct words_spelled *word)
{
    word->size = 0;
    word->plain = true;
    word->telling = false;
}

static inline uint64_t words_hash_letters(const char *letters, size_t size)
{
    uint64_t hash = WORDS_HASH_START;
    for (size_t i = 0; i < size; i++)
        hash = words_hash_byte(hash, (uint8_t)letters[i]);
    return hash;
}

static inline void words_spell_byte(struct words_spelled *word, uint8_t byte)
{
    word->plain &= byte >= 'a' && byte <= 'z';
    if (word->size < WORDS_SPELLED_MAX) {
        word->letters[word->size++] = (char)byte;
        return;
    }
    if (word->size == WORDS_SPELLED_MAX)
        word->hash = words_hash_letters(word->letters, word->size);
    word->hash = words_hash_byte(word->hash, byte);
    word->size++;
}

/* A part that is too long to have its letters kept stands in the whole by its hash. */
static inline void words_spell_part(struct words_spelled *word, const struct words_spelled *part)
{
    if (part->size <= WORDS_SPELLED_MAX)
        for (uint32_t i = 0; i < part->size; i++)
            words_spell_byte(word, (uint8_t)part->letters[i]);
    else
        for (int shift = 0; shift < 64; shift += 8)
            words_spell_byte(word, (uint8_t)(part->hash >> shift));
}

/* The letters may be shortened to their stem. */
static inline uint64_t words_spell_end(struct words_spelled *word, unsigned flags)
{
    if (word->size > WORDS_SPELLED_MAX)
        return words_hash_end(word->hash);
    if (word->plain && !(flags & WORDS_NO_STEM))
        word->size = (uint32_t)words_stem(word->letters, word->size);
    return words_hash_end(words_hash_letters(word->letters, word->size));
}

#endif
