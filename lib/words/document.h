/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document.h - what an index keeps of a document: its terms, each once and with a count, its
 * length, and a sketch of it (sketch.h).
 *
 * A document is made of texts, each with a weight: a term counts as often as it occurs, times the
 * weight of the text.
 *
 * A struct words_document is used again for one document after the other, so that describing one
 * allocates nothing once the longest was seen. It belongs to one thread.
 */
#ifndef WORDS_DOCUMENT_H
#define WORDS_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"
#include "lib/words/sketch.h"

enum {
    WORDS_COUNT_MAX = 127,          /* of a term in a document */
    WORDS_DOCUMENT_TERMS = 1 << 16, /* different ones; those after them are left out */
};

struct words_count {
    uint64_t hash;
    uint32_t count; /* 1 to WORDS_COUNT_MAX */
};

struct words_document {
    /* results, until the next begin */
    struct words_count *terms;
    size_t count;
    uint32_t length; /* words and pairs */
    struct words_sketch sketch;

    /* its own: a table of places in `terms`, by hash; 0 is free */
    uint32_t *table;
    size_t table_size;
    uint64_t key; /* odd and random: whoever chooses the words does not choose their places */
};

/* Begins the next one; the first is zeroed before. */
void words_document_begin(struct words_document *document);

/* Adds the terms of a text; the flags are those of words_begin. False: out of memory. */
bool words_document_add(struct words_document *document, struct base_span text, uint32_t weight,
                        unsigned flags);

/* All texts were added: the results are complete. */
void words_document_end(struct words_document *document);

/* Frees what it has, and leaves it zeroed. */
void words_document_clear(struct words_document *document);

#endif
