/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h - finds the documents that fit a query best, among all of them: an inverted index.
 *
 * What a word is, and what it is worth, is the caller's: a document is a list of 64-bit hashes with
 * a count each, and a query is a list of hashes with a weight each. The index finds the `most` best
 * of all documents in the wanted ranges; it prunes what cannot be among them, and nothing else. The
 * caller may say of a term that it is common: then the best are found by the others, and its list,
 * which may be long, is only looked into for these.
 *
 *     score = boost * sum of weight * count * (k1 + 1) / (count + k1 * (1 - b + b * length /
 * average)) boost = 1 + level[document's] + recency * 2 ^ (-age / half_life) + same_task + agent
 *
 * Adding and removing, on the one thread that writes:
 *
 *     struct search_index *index = search_index_open(words_version);
 *     search_index_add(index, documents, 20);       found by every view that is opened from now on
 *     search_index_remove(index, keys, 3);          likewise not found
 *
 * Searching, on any thread; it waits for nobody, and what is added meanwhile does not change it:
 *
 *     struct search_view *view = search_view_open(index);
 *     struct search_query query = {.ranges = ranges, .range_count = 2, .terms = terms, ...};
 *     search_view_count(view, &query);              how many documents, how many have each term
 *     for (...) terms[i].weight = ...;              so that the caller can say what a term is worth
 *     size_t found = search_view_find(view, &query, results, 50);
 *     search_view_close(&view);
 *
 * An index is a list of segments that never change, but for a bit for each removed document
 * (segment.h). What is added becomes a small one in memory, and small ones are merged as they come.
 * On a thread of low priority, they are merged into larger ones, which are bytes that the caller
 * keeps in a file:
 *
 *     struct search_merge merge;
 *     while (search_merge_plan(index, false, &merge)) {
 *         if (search_merge_build(&merge, &bytes))   no lock is held meanwhile
 *             ... write the bytes to a file, sync it, open it, note it where the documents are kept
 *             search_merge_finish(&merge, segment); from now on instead of the merged ones
 *         search_merge_end(&merge);
 *     }
 *
 * The documents' keys are in order of time in their lower SEARCH_TIME_BITS bits: what is added
 * later has a greater time. The upper bits group them. Every segment covers a span of time of its
 * own, so one whose file is damaged is replaced by reading the documents of that span anew.
 *
 * Errors: a function that returns false or NULL had no memory, and changed nothing.
 */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"

enum {
    SEARCH_TIME_BITS = 40,
    SEARCH_COUNT_MAX = 127, /* a greater count of a term counts so much */
    SEARCH_TERMS_MAX = 64,  /* of a query */
    SEARCH_LEVELS = 4,
    SEARCH_SKETCH_MAX = 512,
};

static inline int64_t search_time_of(int64_t key)
{
    return key & ((INT64_C(1) << SEARCH_TIME_BITS) - 1);
}

/* ---- documents ----------------------------------------------------------------------------- */

struct search_term {
    uint64_t hash;
    uint32_t count; /* from 1 */
};

struct search_document {
    int64_t key;          /* from 1; no other document has it */
    int64_t changed_ms;   /* for the recency, kept to the second */
    uint32_t length;      /* the sum of its counts, or what else is fair; kept to a sixteenth */
    uint8_t level;        /* below SEARCH_LEVELS */
    uint32_t task, agent; /* hashes; 0: none */
    const struct search_term *terms; /* each hash once, in any order */
    size_t term_count;
    struct base_span sketch; /* the caller's, kept beside it; up to SEARCH_SKETCH_MAX bytes */
};

/* The length that the index keeps for a length. */
uint32_t search_kept_length(uint32_t length);

struct search_index;

/* `words`: of the rules by which the words are found; files of other rules are not used. */
struct search_index *search_index_open(uint32_t words);
/* No view may be open. Takes NULL and pointers to NULL. */
void search_index_close(struct search_index **index);

/* Their times are greater than those of all that was added before. False: they are lost. */
bool search_index_add(struct search_index *index, const struct search_document *documents,
                      size_t count);
/* Keys that are not there are ignored. */
void search_index_remove(struct search_index *index, const int64_t *keys, size_t count);
/* Adds, then removes, and does what takes longer after both. False: nothing was added. */
bool search_index_change(struct search_index *index, const struct search_document *documents,
                         size_t count, const int64_t *removed, size_t removed_count);

/* Documents up to this time may be missing, and are to be read anew. Until they were, only what
   has no time in between is merged: a span that a segment covers is not read again. */
void search_index_lose(struct search_index *index, int64_t last);
/* None up to this time is missing any more. */
void search_index_recover(struct search_index *index, int64_t last);
/* Whether nothing is missing. Any thread. */
bool search_index_is_whole(struct search_index *index);

/* ---- searching ----------------------------------------------------------------------------- */

struct search_range {
    int64_t first, last; /* keys */
};

struct search_wanted {
    uint64_t hash;
    float weight;      /* 0: it does not count */
    bool common;       /* it brings no document among the best, and counts in those that are */
    int64_t documents; /* result of search_view_count: in the ranges, with this term */
};

struct search_query {
    const struct search_range *ranges; /* ascending, apart from each other */
    size_t range_count;
    struct search_wanted *terms; /* each hash once */
    size_t term_count;           /* up to SEARCH_TERMS_MAX */
    size_t completed; /* so many of the best count their common terms too; 0: all of them. Whatever
                         `most` is, a longer list then begins as a shorter one. */
    float k1, b;
    int64_t deadline_ns; /* on the monotonic clock; 0: none */

    /* none is negative */
    float level[SEARCH_LEVELS];
    float recency;
    int64_t now_ms, half_life_ms;
    float same_task, agent;
    uint32_t task; /* 0: none */
    const uint32_t *agents;
    size_t agent_count;

    /* results of search_view_count. Removed documents count until their segment is merged. */
    int64_t documents;
    double average_length;
    bool cut; /* the deadline came first, or a segment is damaged: this is what was found so far */
    bool damaged; /* the latter: search_index_drop takes it out */

    /* Result of search_view_find: what was removed since the view was opened might have been among
       the best, and what was added in its place is not in the view. Another view has it. */
    bool behind;
};

struct search_result {
    int64_t key;
    float score, relevance;  /* with and without the boost */
    struct base_span sketch; /* lent until the view is closed */

    uint32_t segment, document, sum; /* its own: where it is, and its relevance in shares */
};

struct search_view;

struct search_view *search_view_open(struct search_index *index);
void search_view_close(struct search_view **view);

void search_view_count(struct search_view *view, struct search_query *query);

/* The best first; of equal ones the newer. Looks at query->documents, average_length, and weights.
   Only what has a term of some weight that is not common is found. Returns how many. */
size_t search_view_find(struct search_view *view, struct search_query *query,
                        struct search_result *results, size_t most);

/* ---- segments in files ----------------------------------------------------------------------- */

struct search_segment;

/* Of the bytes that search_merge_build made, in a file of just these. Only its head is read; what
   follows is checked before it is first used. `words` 0: whatever they are. The label is the
   caller's. NULL, with errno: EBADMSG if it is damaged, or of other words;
   ENOTSUP if another version of the program wrote it. */
struct search_segment *search_segment_open(const char *path, uint32_t words, int64_t label);
/* Before it was given away. Takes NULL and pointers to NULL. */
void search_segment_close(struct search_segment **segment);

/* Writes and syncs; does not sync its name. 0, or errno; then there is no file. ECANCELED: `stop`
   became true. NULL: nothing stops it. */
int search_segment_write(const char *path, struct base_span bytes, const atomic_bool *stop);

struct search_segment_facts {
    int64_t label;
    int64_t first, last; /* times that it covers */
    uint32_t words, documents, removed;
    uint64_t bytes, checksum;
    bool in_file, damaged;
};

void search_segment_read_facts(const struct search_segment *segment,
                               struct search_segment_facts *facts);

/* Reads all of it, where nobody did before, or until `stop` is true. False: it is damaged, and no
   search uses it. */
bool search_segment_check(struct search_segment *segment, const atomic_bool *stop);
bool search_segment_has(const struct search_segment *segment, int64_t key);
bool search_segment_has_removed(const struct search_segment *segment, int64_t key);
/* Marks it as removed. False: it is not there. */
bool search_segment_remove(struct search_segment *segment, int64_t key);
/* One bit for each document. */
size_t search_segment_removed_size(const struct search_segment *segment);
void search_segment_save_removed(const struct search_segment *segment, uint8_t *bits);
/* False, and nothing is changed: these are not as many. */
bool search_segment_load_removed(struct search_segment *segment, struct base_span bits);
/* The keys in order, from which; *removed says of each. Returns how many: 0 at the end. */
size_t search_segment_keys(const struct search_segment *segment, size_t from, int64_t *keys,
                           bool *removed, size_t capacity);

/* Takes a segment over, beside others of other times. Before anything is added or removed. */
bool search_index_attach(struct search_index *index, struct search_segment *segment)
    __attribute__((warn_unused_result));

/* Takes a damaged segment out, which no search uses; what it has is lost. Without memory for that
   it stays. On the thread that merges. */
void search_index_drop(struct search_index *index, struct search_segment *segment);

/* Calls `visit` for each, in the order of time, those in memory last. Lent for the call. */
void search_index_visit(struct search_index *index,
                        void (*visit)(void *context, struct search_segment *segment),
                        void *context);

/* ---- merging, on one thread at a time -------------------------------------------------------- */

enum {
    SEARCH_MERGE_MAX = 64,
    SEARCH_SEAL_DOCUMENTS = 4096, /* in memory alone, before they are worth a file */
};

struct search_merge {
    struct search_index *index;
    const atomic_bool *stop; /* set after the plan, or NULL: once true, the merge is given up */
    struct search_segment *inputs[SEARCH_MERGE_MAX];
    size_t count;
    int64_t first, last;
};

/* What to merge next; `all`: also what is in memory alone and not yet worth it. False: nothing, and
   there is nothing to be ended. */
bool search_merge_plan(struct search_index *index, bool all, struct search_merge *merge);
/* Instead: a segment that is read anew with search_segment_build, from documents that are looked
   for after this, and of times that no other segment covers. */
void search_merge_begin(struct search_index *index, struct search_merge *merge);
/* Writes the bytes of a segment without what was removed into an empty buffer. False: no memory, it
   was stopped, or a file turned out to be damaged. */
bool search_merge_build(const struct search_merge *merge, struct base_buffer *bytes);
/* The segment takes their place, and belongs to the index. What was removed since the plan is
   removed from it. False: no memory, and the segment is still the caller's. */
bool search_merge_finish(struct search_merge *merge, struct search_segment *segment)
    __attribute__((warn_unused_result));
/* Whether or not it was finished. */
void search_merge_end(struct search_merge *merge);

/* The bytes of a segment of documents that are sorted by key and cover the times from first to
   last; for one that is read anew. */
bool search_segment_build(const struct search_document *documents, size_t count, int64_t first,
                          int64_t last, uint32_t words, struct base_buffer *bytes);

#endif
