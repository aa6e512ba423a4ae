/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - documents and the lists of their terms, as bytes that never change.
 *
 * The documents are sorted by key and numbered from 0, so a range of keys is a range of numbers. In
 * a file as in memory (numbers in the order of the machine: a file does not travel):
 *
 *     head       struct search_head
 *     keys       int64  [documents]
 *     sums       uint64 [documents / 128 + 1]   lengths of all documents before each 128th
 *     hashes     uint64 [terms]                 ascending
 *     lists      uint32 [terms]                 where its list begins in the postings; or the one
 *                                               document that has the term (SEARCH_SINGLE)
 *     buckets    uint32 [2 ^ bucket_bits + 1]   the first term whose hash begins with these bits
 *     facts      struct search_facts [documents]
 *     newest     uint32 [documents / 128 + 1]   the greatest seconds of each 128,
 *     highest    uint8  [documents / 128 + 1]   and the highest level
 *     lengths    uint8  [documents]
 *     sketch_ends              uint32 [documents]
 *     sketches                                  one behind the other
 *     postings                                  lists (postings.h)
 *     padding    32 bytes, so that numbers may be read past the end of a list
 *
 * A document's task and agent are terms as well (search_name_term), so that it is known without
 * looking at the documents where there is one of them.
 *
 * The head and the keys of a file are read into memory when it is opened, so removing touches no
 * file. The rest is mapped, and checked as a whole by whoever uses it first. It is read for that:
 * an error of the disk is found by the read, as a value. What cannot be read later is found by the
 * guard (guard.h), and what cannot be as it was written by whoever reads it.
 *
 * Threads: the bits of removed documents are set by the thread that writes, and by the one that
 * merges in a segment that takes others' place; they are read by all.
 */
#ifndef SEARCH_SEGMENT_H
#define SEARCH_SEGMENT_H

#include <stdatomic.h>

#include "lib/search/search.h"

enum {
    SEARCH_SEGMENT_MAGIC = 0x73676d74u,
    SEARCH_FORMAT = 2,
    SEARCH_SUM_EVERY = 128,
    SEARCH_PADDING = 32,
    SEARCH_DOCUMENTS_MAX = 1 << 24, /* a segment's: what SEARCH_SINGLE has room for */
};

#define SEARCH_SINGLE       UINT32_C(0x80000000)
#define SEARCH_SINGLE_SHIFT 24 /* the count above, the document below */

struct search_head {
    char name[8]; /* "HSEARCH" */
    uint32_t format, words;
    uint32_t documents, terms;
    uint32_t bucket_bits, unused;
    uint64_t size; /* of all of it */
    uint64_t postings_size, sketches_size;
    int64_t first, last;
    uint64_t checksum;      /* of what follows the head */
    uint64_t head_checksum; /* of the head with a 0 here */
};

/* What boosts a document: read together, of those that might be among the best. */
struct search_facts {
    uint32_t seconds; /* since 1970 */
    uint32_t task, agent;
    uint32_t level;
};

enum search_soundness { SEARCH_UNCHECKED, SEARCH_SOUND, SEARCH_DAMAGED };

struct search_segment {
    unsigned magic;
    atomic_uint references;
    _Atomic(int) soundness; /* enum search_soundness */
    bool mapped;
    bool merging;           /* index->change_lock */
    int file;               /* to be checked; closed after that, as the mapping needs none */
    atomic_uint file_users; /* who checks it, and one until somebody has; 0: it is closed */
    int64_t label;
    const unsigned char *bytes;
    struct search_head head;
    int64_t *own_keys; /* of a file; NULL: they are in the bytes */

    const int64_t *keys;
    /* in the bytes */
    const uint64_t *sums, *hashes;
    const struct search_facts *facts;
    const uint32_t *lists, *buckets, *newest, *sketch_ends;
    const uint8_t *highest, *lengths, *sketches, *postings;

    atomic_uint removed_count;
    _Atomic(uint64_t) *removed; /* a bit for each document */
};

/* Where each part begins; the result is the size of all of it. */
struct search_layout {
    size_t keys, sums, hashes, lists, buckets, facts, newest, highest, lengths;
    size_t sketch_ends, sketches, postings;
    size_t size;
};

struct search_layout search_segment_layout(const struct search_head *head);

/* Takes over bytes from base_malloc. NULL: no memory, and they are still the caller's. */
struct search_segment *search_segment_in_memory(char *bytes);

static inline void search_segment_hold(struct search_segment *segment)
{
    atomic_fetch_add_explicit(&segment->references, 1, memory_order_relaxed);
}

/* The first document whose key is not below. */
uint32_t search_segment_lower(const struct search_segment *segment, int64_t key);
/* The sum of the lengths of the documents before this one. */
uint64_t search_segment_lengths(const struct search_segment *segment, uint32_t document);
struct base_span search_segment_sketch(const struct search_segment *segment, uint32_t document);
/* The numbers of terms; -1: no document has it. They are waited for together: each is somewhere
   else in memory, and its list is yet again. */
void search_segment_terms(const struct search_segment *segment, const uint64_t *hashes,
                          size_t count, int64_t *terms);

/* It is damaged after all: something in it cannot be. Any thread. */
void search_segment_distrust(const struct search_segment *segment);

/* Before its first use. `deadline_ns` as in a query; false: it is damaged, or it is too late. */
bool search_segment_is_usable(struct search_segment *segment, int64_t deadline_ns);

static inline bool search_segment_is_damaged(const struct search_segment *segment)
{
    return atomic_load_explicit(&segment->soundness, memory_order_relaxed) == SEARCH_DAMAGED;
}

static inline bool search_segment_is_removed(const struct search_segment *segment,
                                             uint32_t document)
{
    return atomic_load_explicit(&segment->removed[document / 64], memory_order_relaxed) >>
               (document % 64) &
           1;
}

enum search_name { SEARCH_TASK, SEARCH_AGENT };

/* The term of all documents with this task or agent. */
static inline uint64_t search_name_term(enum search_name kind, uint32_t name)
{
    const uint64_t hash = ((uint64_t)name << 1 | kind) * UINT64_C(0x9e3779b97f4a7c15);
    return (hash ^ hash >> 32) * UINT64_C(0xc2b2ae3d27d4eb4f);
}

/* length.c: one byte for a length. */
uint8_t search_length_code(uint32_t length);
uint32_t search_length_of(uint8_t code);

/* checksum.c: of bytes in pieces; each but the last one is a multiple of 32. */
struct search_checksum {
    uint64_t lanes[4];
    uint64_t size;
};
void search_checksum_begin(struct search_checksum *sum);
void search_checksum_add(struct search_checksum *sum, const void *bytes, size_t size);
uint64_t search_checksum_end(const struct search_checksum *sum);
uint64_t search_checksum(const void *bytes, size_t size);

/* build.c: the bytes of a segment, term by term in the order of their hashes. */
struct search_posting {
    uint32_t document, count;
};

struct search_builder {
    struct search_head head;
    const struct search_document *documents; /* terms are not looked at */
    struct base_buffer lengths, hashes, lists, postings;
};

/* The documents are sorted, and lent until the end. False: no memory; it is still to be ended. */
bool search_builder_begin(struct search_builder *builder, const struct search_document *documents,
                          size_t count);
void search_builder_term(struct search_builder *builder, uint64_t hash,
                         const struct search_posting *postings, size_t count);
/* Writes the segment into an empty buffer, and frees the builder. */
bool search_builder_end(struct search_builder *builder, struct base_buffer *bytes);

#endif
