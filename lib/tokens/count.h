/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count.h - counting the tokens of a text without listing them, which is all that handoffs need.
 *
 * Texts repeat few words, and the tables of a vocabulary are larger than the caches near a core, so
 * looking up a word mostly waits for memory, and merging a word that is not a token costs as much
 * as ten lookups. Each thread therefore caches the token counts of its recent pieces, keyed by
 * their bytes: an answer is never wrong, and an evicted one is computed again. Whole texts are not
 * cached, since hashing a text takes as long as counting it; but for words so long that merging
 * them takes much longer (word_cache.h).
 *
 * The rest avoids mispredicted branches. They happen where words end, so boundaries.h finds the
 * ends of about twelve pieces without a branch; and each piece is looked up with the same
 * instructions whatever its length, since up to 15 bytes make one key.
 *
 * Threads: any number at once; the cache belongs to the thread.
 */
#ifndef HANDOFF_TOKENS_COUNT_H
#define HANDOFF_TOKENS_COUNT_H

#include "lib/tokens/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

/* The tokens of valid UTF-8. Fails as handoff_merge() does, and then leaves the count unchanged. */
enum handoff_code handoff_count_valid(const struct handoff_vocabulary *vocabulary,
                                      const uint8_t *text, size_t length,
                                      size_t *count) HANDOFF_MUST_CHECK;

#endif
