/* SPDX-License-Identifier: Apache-2.0 */
/* index_internal.h - what the files of the search index share. */
#ifndef HANDOFF_SPINE_EMBEDDED_INDEX_INTERNAL_H
#define HANDOFF_SPINE_EMBEDDED_INDEX_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/index.h"
#include "lib/words/document.h"

enum { HANDOFF_INDEX_MAGIC = 0x6d696478u };

/* Documents with their terms and sketches, which may move as they grow. */
struct handoff_index_batch {
    struct base_buffer documents; /* struct search_document; terms and sketch: offsets */
    struct base_buffer terms, sketches;
    struct words_document words;
    unsigned flags; /* of words_begin */
};

struct handoff_memory_index {
    unsigned magic;

    /* never change after opening */
    struct handoff_store *store;
    struct search_index *search;
    unsigned flags; /* of words_begin */
    uint32_t words; /* version of the words, and flags */
    char *files;    /* how their paths begin; owned */
    char *folder;   /* that they are in; owned */
    struct handoff_db_follower follower;
    pthread_t thread;

    /* the writer's thread: of its transaction */
    struct handoff_index_batch put;
    struct base_buffer removed; /* int64_t */
    size_t unmerged;            /* put or removed since the index's thread was woken */

    /* any thread */
    _Atomic(int64_t) known;   /* the greatest recency that is in the index, or was lost */
    _Atomic(int64_t) indexed; /* rows read since the opening */
    atomic_uint unrecorded;   /* removed since the table was told */
    atomic_bool stopping;     /* set under the lock */

    /* the thread's, and before it runs the opening thread's */
    int64_t next_number; /* of a file */

    /* lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wanted;                  /* there may be something to do */
    bool all;                     /* also what is not worth it yet */
    bool idle;                    /* the thread found nothing more to do */
    bool hurry;                   /* somebody waits: what failed is tried again at once */
    int wait_s;                   /* after the next failure; 0: the least */
    struct handoff_error failure; /* of what it did last */
};

/* index_batch.c: any thread, a batch by one. */
void handoff_index_batch_begin(struct handoff_index_batch *batch);
bool handoff_index_batch_add(struct handoff_index_batch *batch,
                             const struct handoff_memory *memory);
bool handoff_index_batch_add_described(struct handoff_index_batch *batch,
                                       const struct handoff_memory *memory,
                                       const struct words_document *words);
/* The documents, with their terms: lent until the next change. */
struct search_document *handoff_index_batch_end(struct handoff_index_batch *batch, size_t *count);
void handoff_index_batch_free(struct handoff_index_batch *batch);

/* index_rows.c: reads rows that no segment covers, the newest first, `most` of them at once, or
   fewer where they are long. *count: how many, and `most` where there may be more; 0: there are
   none. On the opening thread, into memory; or on the index's, into a file. */
enum handoff_code handoff_index_fill_memory(struct handoff_memory_index *index, size_t most,
                                            size_t *count,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;
enum handoff_code handoff_index_fill_file(struct handoff_memory_index *index, size_t most,
                                          size_t *count,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;
/* index_files.c: on the opening thread. */
enum handoff_code handoff_index_attach_files(struct handoff_memory_index *index,
                                             struct handoff_db *db,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;
/* On the index's thread, or the opening one: writes bytes to a new file. NULL on failure;
   store_full: it would take room that handoffs may need. */
struct search_segment *handoff_index_write_file(struct handoff_memory_index *index,
                                                struct base_span bytes,
                                                struct handoff_error *error);
/* Closes a file that was written in vain, and removes it. Takes a pointer to NULL. */
void handoff_index_discard_file(struct handoff_memory_index *index,
                                struct search_segment **segment);
/* Ends a merge with a file that was written, or with the error of one that was not: NULL. What then
   is not used is removed. */
enum handoff_code handoff_index_finish_file(struct handoff_memory_index *index,
                                            struct search_merge *merge,
                                            struct search_segment *segment,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Removes the files that the index does not use, if there is memory to know them all. */
void handoff_index_remove_files(struct handoff_memory_index *index);
/* Makes the table name the files that the index uses, and what of them was removed. */
enum handoff_code handoff_index_record(struct handoff_memory_index *index,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

/* index_thread.c */
/* Any thread; sets an error if it is. */
bool handoff_index_is_stopping(const struct handoff_memory_index *index,
                               struct handoff_error *error);
enum handoff_code handoff_index_thread_start(struct handoff_memory_index *index,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;
void handoff_index_thread_wake(struct handoff_memory_index *index);
void handoff_index_thread_stop(struct handoff_memory_index *index);

#endif
