/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count.h - counting the tokens of a text without naming them, which is what handoffs need.
 *
 * Story: texts are made of few words, and the tables of a vocabulary are larger than the caches
 * near a core, so that finding a word there is mostly waiting for memory, and merging one that is
 * no token costs as much as finding ten. So each thread remembers how many tokens its last pieces
 * had, by the bytes themselves: an answer is never wrong, and one that was displaced is found
 * again. Whole texts are not remembered.
 *
 * The rest is to keep the processor from guessing. It guesses wrong where words end, so
 * boundaries.h finds the ends of about twelve pieces without a branch; and each of these is looked
 * up with the same instructions whatever its length, since all up to 15 bytes are one key.
 *
 * Threads: any number at once; what is remembered belongs to the thread.
 */
#ifndef HANDOFF_TOKENS_COUNT_H
#define HANDOFF_TOKENS_COUNT_H

#include "lib/tokens/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

/* The tokens of valid UTF-8. On failure, which is that of handoff_merge(), the count is kept. */
enum handoff_code handoff_count_valid(const struct handoff_vocabulary *vocabulary,
                                      const uint8_t *text, size_t length,
                                      size_t *count) HANDOFF_MUST_CHECK;

#endif
