/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h - the search index of the memories: kept in step with their rows, and rebuilt from them.
 *
 * The rows are the truth. The index has the newest memories in memory, and all others in files
 * beside the database (lib/search), which a table of the store names with their checksums
 * (search_segments). It follows the writer's commits: before anybody is told that a memory was put
 * or removed, a search finds it or does not.
 *
 * When the store is opened, the files are mapped, and what they do not cover is read from the rows:
 * the few thousand newest memories, and those of a file that is missing. A file that turns out
 * damaged is made anew from its rows. What takes long is done by a thread of low priority while the
 * store is used; until then searches find what is there, and say that it is not all.
 *
 * A search opens its view before its read transaction. Then the view may lack what was put since,
 * and have what was removed since; the rows tell which.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_INDEX_H
#define HANDOFF_SPINE_EMBEDDED_INDEX_H

#include "client/spine/spine.h"
#include "client/store/store.h"
#include "lib/search/search.h"
#include "lib/words/document.h"

struct handoff_memory_index;

/* The store must outlive it. Reads what can be read in an instant; the rest comes later. The flags
   are those of words_begin, for all memories. */
enum handoff_code handoff_memory_index_open(struct handoff_memory_index **index,
                                            struct handoff_store *store, unsigned flags,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Of an index whose files are of these words (struct search_segment_facts). */
unsigned handoff_memory_index_flags(uint32_t words);
/* Takes NULL and pointers to NULL. */
void handoff_memory_index_close(struct handoff_memory_index **index);

/* For search_view_open, on any thread. */
struct search_index *handoff_memory_index_search(struct handoff_memory_index *index);
/* Whether it has all memories. Any thread. */
bool handoff_memory_index_is_complete(struct handoff_memory_index *index);
/* A search met a file that is damaged (struct search_query): it is made anew at once. Any thread.
 */
void handoff_memory_index_mend(struct handoff_memory_index *index);
/* Waits until it is, and all of it is in files; or until that failed. For command lines and tests.
   `progress` is called now and then on the caller's thread, with how many rows were read; NULL: it
   is not. */
enum handoff_code handoff_memory_index_settle(struct handoff_memory_index *index,
                                              void (*progress)(void *context, int64_t done),
                                              void *context,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* In a job, on the writer's thread: they count once the job's transaction is committed. */
enum handoff_code handoff_memory_index_put(struct handoff_memory_index *index,
                                           const struct handoff_memory *memory,
                                           const struct words_document *words, /* NULL: not yet */
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Likewise: the greatest seq that it knows, also of a memory that was removed and still counts. */
int64_t handoff_memory_index_last(struct handoff_memory_index *index);
enum handoff_code handoff_memory_index_remove(struct handoff_memory_index *index, int64_t seq,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
