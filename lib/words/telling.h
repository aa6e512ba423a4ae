/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telling.h - what tells two texts apart that otherwise have the same words.
 *
 * "The limit is 100" and "the limit is not 200" are nearly the same words, and two facts. A number,
 * an identifier, a name (a word with a capital) and a word that negates can each be the fact, and
 * so can a sign: < 5 and > 5, 5 and -5. Other words cannot be told from chatter without knowing the
 * language. Where this is wrong, a text is given twice; a fact is not lost. Pure; any thread.
 */
#ifndef WORDS_TELLING_H
#define WORDS_TELLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/words/hash.h"

/* Folded words of the larger European languages. */
bool words_negates(const char *letters, size_t size);

/* Chinese, Japanese, Korean: a character, or it with the next one (0: none). */
bool words_negates_dense(uint32_t character, uint32_t next);

/* Signs of mathematics and currencies, emoji and the like; a hyphen is one before a number only. */
bool words_is_sign(uint32_t character, bool before_digit);

/* The digest of things in their order. */
static inline uint64_t words_tell(uint64_t digest, uint64_t thing)
{
    return words_hash_end(digest ^ thing);
}

#endif
