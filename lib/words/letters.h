/* SPDX-License-Identifier: Apache-2.0 */
/*
 * letters.h - what a character is to words, and what it is folded to.
 *
 * Above ASCII both come from libunistring's tables. Pure; any thread.
 */
#ifndef WORDS_LETTERS_H
#define WORDS_LETTERS_H

#include <stdint.h>

enum words_class {
    WORDS_BREAK,   /* separates words: the rest */
    WORDS_LOWER,   /* a letter of a word */
    WORDS_UPPER,   /* one that may begin a hump */
    WORDS_DIGIT,   /*  */
    WORDS_MARK,    /* belongs to the character before it */
    WORDS_JOINER,  /* between two words it makes them one identifier, and is part of it: . / : @ */
    WORDS_SILENT,  /* the same, and is left out of it: - _ ' */
    WORDS_DECIMAL, /* the same between digits only: a comma */
    WORDS_DENSE,   /* of a script without spaces between words */
};

/* By byte, for ASCII. */
extern const uint8_t words_ascii_class[128];

enum words_class words_class_of(uint32_t character);

enum { WORDS_FOLDED_MAX = 18 }; /* characters, as in U+FDFA */

/* What a character above ASCII is folded to, as characters; 0 of them for an accent. Returns how
   many. */
unsigned words_fold(uint32_t character, uint32_t folded[WORDS_FOLDED_MAX]);

#endif
