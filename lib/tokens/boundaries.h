/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boundaries.h - where the next pieces begin, many at once.
 *
 * split.h finds the end of one piece by walking over its characters, and the processor mispredicts
 * the branch at every end. Here 64 bytes are classified at once into masks, one 64-bit word per
 * class of characters, and what the two expressions require of neighbouring characters becomes
 * shifts of these masks, without a branch: 8 KiB of English in JSON take 3 microseconds instead of
 * 14.
 *
 * Only what neighbours decide can be computed this way. Where more context is needed (a character
 * that is not ASCII, an apostrophe that may begin a contraction, white space that leads up to a
 * newline) the cuts end and split.h, which is right everywhere, takes the next piece. Matching
 * starts afresh with every piece, so after it the cuts continue as if the text began there. Pure,
 * any thread.
 */
#ifndef HANDOFF_TOKENS_BOUNDARIES_H
#define HANDOFF_TOKENS_BOUNDARIES_H

#include "lib/tokens/split.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDOFF_BOUNDARIES_WINDOW 64

struct handoff_boundaries {
    uint64_t places; /* bit n: a piece ends and, unless the text does, another begins at byte n */
    bool stuck;      /* split.h must take the piece after the last cut */
};

/*
 * The cuts that follow the beginning of a piece. `left` is how many bytes of text remain from
 * there; if it is less than a window, the rest of the window must be spaces.
 */
struct handoff_boundaries handoff_boundaries_find(const uint8_t window[HANDOFF_BOUNDARIES_WINDOW],
                                                  size_t left, enum handoff_split_pattern pattern);

#endif
