/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stem.h - the stem of an English word: "connections", "connected" and "connect" are one.
 *
 * M. F. Porter's algorithm of 1980, which SQLite's FTS5 has too. Words of other languages are
 * mostly left alone or cut the same way each time, so they are found as they were written.
 */
#ifndef WORDS_STEM_H
#define WORDS_STEM_H

#include <stddef.h>

enum { WORDS_STEM_MAX = 63 }; /* bytes: a word has one bit of 64 for each letter, and may grow */

/* Shortens a word of the letters a to z in place, and returns its new size. There is room for one
   letter more than `size`, which is at most WORDS_STEM_MAX. Pure; any thread. */
size_t words_stem(char *word, size_t size);

#endif
