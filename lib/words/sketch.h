/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sketch.h - a document in some fifty bytes: two digests, and its words in their order, a byte
 * each.
 *
 * An index without positions finds documents that have the words of a query, and cannot tell "shock
 * wave" from a text in which a wave and a shock are far apart. The sketch can, for the few best
 * ones: two bytes that follow each other are those of two other words once in 65,000 times. And two
 * documents that have nearly the same bytes are nearly the same text.
 *
 * An index keeps a sketch as bytes that it does not look into. Pure; any thread.
 */
#ifndef WORDS_SKETCH_H
#define WORDS_SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/words/words.h"

enum {
    WORDS_SKETCH_HEAD = 8,    /* bytes of the digests: of all words, and of what is telling */
    WORDS_SKETCH_MAX = 512,   /* with the digests: of a longer document, the beginning */
    WORDS_SKETCH_BREAK = 0,   /* between two texts of a document */
    WORDS_SKETCH_ORDERS = 64, /* pairs of a query */
};

struct words_sketch {
    uint8_t bytes[WORDS_SKETCH_MAX];
    size_t size;
    uint64_t digest; /* of all words and signs so far, also those beyond the room */
    uint64_t told;   /* of what tells texts apart (telling.h) */
};

/* ---- making one ------------------------------------------------------------------------------ */

void words_sketch_begin(struct words_sketch *sketch);

/* The next text of the document begins. */
void words_sketch_break(struct words_sketch *sketch);

/* Terms without a place in the order are passed over: the whole of an identifier beside its parts,
   a character beside its pair. Returns whether the term has one. */
bool words_sketch_add(struct words_sketch *sketch, const struct words_term *term);

/* A text was read to its end. */
void words_sketch_end_text(struct words_sketch *sketch, const struct words_reader *reader);

/* Writes the digests. */
void words_sketch_end(struct words_sketch *sketch);

/* ---- using it -------------------------------------------------------------------------------- */

/* Whether two documents are nearly the same text: the same words and signs in the same order; or,
   of sixteen words and more, all but one in sixteen the same and in the same order, and what is
   telling (telling.h) too. A document that is longer than its sketch is nearly the same as equal
   ones only. Some 0.1 us for fifty words. Bytes that are no sketch are near to nothing. */
bool words_sketch_is_near(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size);

/* Which words of a query are next to each other, or have one between them. */
struct words_order {
    struct words_order_pair {
        uint8_t first, second;
        uint8_t apart; /* 1 or 2 */
        uint32_t at;   /* place of the first among the words of the query */
    } pairs[WORDS_SKETCH_ORDERS];
    size_t count;
    uint64_t firsts[256]; /* the pairs that begin with a byte */
};

/* From the hashes of the query's words in their order. A pair of a word and itself, and a repeated
   pair, are left out. */
void words_order_begin(struct words_order *order, const uint64_t *hashes, size_t count);

/* How often each pair occurs in a document in that order: 2 for each time that the words are next
   to each other, 1 with one between them. counts[] has a place for each pair. */
void words_order_count(const struct words_order *order, const uint8_t *sketch, size_t size,
                       uint8_t *counts);

#endif
