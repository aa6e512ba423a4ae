/* SPDX-License-Identifier: Apache-2.0 */
/*
 * word_cache.h - counts of long words that nothing cuts, by their digests.
 *
 * Ordinary text is counted as fast as it could be hashed, so its counts are not kept. A long word
 * has to be merged, which takes 50 times as long as its SHA-256, and such words come back: a child
 * inherits its parent's history with each hop. The cache holds a fixed number of counts for all
 * threads; a word whose place was taken is merged again. A digest stands for the word, so a count
 * is never another word's.
 *
 * Threads: any number at once; the lock is held while one entry is copied.
 */
#ifndef HANDOFF_TOKENS_WORD_CACHE_H
#define HANDOFF_TOKENS_WORD_CACHE_H

#include "lib/tokens/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

#define HANDOFF_WORD_CACHE_LEAST ((size_t)512) /* bytes of a word that is looked up here */

/* Counts the tokens of a piece of that length or more. Fails as handoff_merge() does. */
enum handoff_code handoff_word_cache_count(const struct handoff_vocabulary *vocabulary,
                                           const uint8_t *piece, size_t length,
                                           size_t *count) HANDOFF_MUST_CHECK;

#endif
