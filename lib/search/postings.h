/* SPDX-License-Identifier: Apache-2.0 */
/*
 * postings.h - the list of one term: which documents have it, and how often.
 *
 * Blocks of 128 documents, ascending. Of each block: the differences of the documents less one, and
 * the counts less one, each in as many bits as the greatest needs. A list of one block is its head
 * and these numbers; a longer one has a table of its blocks in between, so that one is found
 * without reading those before it, and none is read that cannot matter: the greatest count and the
 * shortest length in it say what it is worth at most.
 *
 * A cursor walks through a list. Pure; any thread.
 */
#ifndef SEARCH_POSTINGS_H
#define SEARCH_POSTINGS_H

#include <string.h>

#include "lib/search/segment.h"

enum { SEARCH_BLOCK = 128 };

/* Begins at a multiple of 4. */
struct search_list {
    uint32_t count; /* documents */
    uint8_t max_count, min_length;
    uint8_t document_bits, count_bits; /* of the only block */
};

struct search_block {
    uint32_t last; /* document */
    uint32_t at;   /* of its numbers, from the end of the table */
    uint8_t max_count, min_length;
    uint8_t document_bits, count_bits;
};

/* Appends a list of ascending documents. */
void search_postings_append(struct base_buffer *buffer, const struct search_posting *postings,
                            size_t count, const uint8_t *lengths);

struct search_cursor {
    const struct search_segment *segment;
    const struct search_block *blocks; /* NULL: there is one, or a single document */
    const uint8_t *numbers;
    uint32_t count; /* documents in the list */
    uint32_t nblocks;
    uint32_t block;                       /* at hand; nblocks: at the end */
    struct search_block only;             /* where there is no table */
    uint32_t at, filled;                  /* in the decoded block; filled 0: it is not decoded */
    uint32_t documents[SEARCH_BLOCK + 8]; /* with room for those decoded in vain */
    const uint8_t *counts;                /* as they are packed */
    uint32_t count_bits, least_count;
};

/* The number in its place among others of as many bits. Reads up to 7 bytes past the end. */
static inline uint32_t search_unpack(const uint8_t *from, size_t place, int bits)
{
    uint64_t word;
    memcpy(&word, from + (place * (size_t)bits >> 3), sizeof word);
    return (uint32_t)(word >> (place * (size_t)bits & 7) & ((UINT64_C(1) << bits) - 1));
}

/* At its first block, not decoded. A list that cannot be as it was written ends where that is
   noticed, whatever its bytes, and its segment is damaged. */
void search_cursor_open(struct search_cursor *cursor, const struct search_segment *segment,
                        size_t term);

static inline const struct search_block *search_cursor_block(const struct search_cursor *cursor)
{
    return cursor->blocks ? &cursor->blocks[cursor->block] : &cursor->only;
}

/* To the first block that does not end before the document; false: there is none. Forward only. */
bool search_cursor_reach(struct search_cursor *cursor, uint32_t document);
/* Decodes the block at hand. */
void search_cursor_fill(struct search_cursor *cursor);

/* To the first document that is not before this one: search_cursor_at. False: there is none. */
bool search_cursor_seek(struct search_cursor *cursor, uint32_t document);

static inline uint32_t search_cursor_at(const struct search_cursor *cursor)
{
    return cursor->documents[cursor->at];
}

/* How often a document of the decoded block has the term. */
static inline uint32_t search_cursor_count(const struct search_cursor *cursor, uint32_t place)
{
    if (cursor->count_bits == 0)
        return cursor->least_count;
    return (search_unpack(cursor->counts, place, (int)cursor->count_bits) & SEARCH_COUNT_MAX) + 1;
}

/* How many documents of the list are before this one. Forward only. */
uint32_t search_cursor_rank(struct search_cursor *cursor, uint32_t document);

#endif
