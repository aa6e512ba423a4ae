/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts terms in a table with open addressing: linear probing, at most half full, and emptied by
 * way of the terms, so that a short document after a long one does not pay for its table. The
 * thread: the document's (document.h).
 */
#include "lib/words/document.h"

#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/random.h"
#include "lib/words/words.h"

enum { FIRST_TABLE = 512, BATCH = 64 };

static uint32_t *term_slot(const struct words_document *document, uint64_t hash)
{
    const size_t mask = document->table_size - 1;
    size_t at = (size_t)(hash * document->key >> 32) & mask;
    while (document->table[at] != 0 && document->terms[document->table[at] - 1].hash != hash)
        at = (at + 1) & mask;
    return &document->table[at];
}

static bool grow_table(struct words_document *document)
{
    const size_t size = document->table_size ? document->table_size * 2 : FIRST_TABLE;
    uint32_t *table = base_calloc(size, sizeof *table);
    struct words_count *terms = base_realloc(document->terms, size / 2 * sizeof *document->terms);
    if (terms)
        document->terms = terms;
    if (!table || !terms) {
        base_free(table);
        return false;
    }
    base_free(document->table);
    if (document->key == 0)
        base_random_system.fill(&base_random_system, &document->key, sizeof document->key);
    document->key |= 1;
    document->table = table;
    document->table_size = size;
    for (size_t i = 0; i < document->count; i++)
        *term_slot(document, document->terms[i].hash) = (uint32_t)i + 1;
    return true;
}

static bool count_term(struct words_document *document, uint64_t hash, uint32_t weight)
{
    if (document->count * 2 >= document->table_size && !grow_table(document))
        return false;
    uint32_t *slot = term_slot(document, hash);
    if (*slot == 0) {
        if (document->count == WORDS_DOCUMENT_TERMS)
            return true;
        document->terms[document->count++] = (struct words_count){.hash = hash};
        *slot = (uint32_t)document->count;
    }
    struct words_count *term = &document->terms[*slot - 1];
    term->count = term->count + weight < WORDS_COUNT_MAX ? term->count + weight : WORDS_COUNT_MAX;
    return true;
}

/* A small one is cheaper to clear than to look through. */
static void empty_table(struct words_document *document)
{
    if (document->count * 8 > document->table_size) {
        memset(document->table, 0, document->table_size * sizeof *document->table);
        return;
    }
    for (size_t i = document->count; i > 0; i--)
        *term_slot(document, document->terms[i - 1].hash) = 0;
}

void words_document_begin(struct words_document *document)
{
    empty_table(document);
    document->count = 0;
    document->length = 0;
    words_sketch_begin(&document->sketch);
}

bool words_document_add(struct words_document *document, struct base_span text, uint32_t weight,
                        unsigned flags)
{
    struct words_reader reader;
    struct words_term terms[BATCH];
    size_t count;
    if (document->length > 0)
        words_sketch_break(&document->sketch);
    words_begin(&reader, text, flags);
    while ((count = words_read(&reader, terms, BATCH)) > 0)
        for (size_t i = 0; i < count; i++) {
            if (!count_term(document, terms[i].hash, weight))
                return false;
            document->length += words_sketch_add(&document->sketch, &terms[i]);
        }
    words_sketch_end_text(&document->sketch, &reader);
    return true;
}

void words_document_end(struct words_document *document)
{
    words_sketch_end(&document->sketch);
}

void words_document_clear(struct words_document *document)
{
    base_free(document->terms);
    base_free(document->table);
    memset(document, 0, sizeof *document);
}
