/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search index of the memories: opened and closed, and what the writer's thread does. What its
 * transaction puts and removes is gathered, and given to the index once the transaction is
 * committed; of one that is rolled back, the next one forgets it. The threads: index_internal.h.
 */
#include "client/spine/embedded/index.h"

#include <stdio.h>
#include <string.h>

#include "client/spine/embedded/index_internal.h"
#include "client/spine/embedded/place.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* So many are read from the rows before the store is open, as far as they are read in that time,
   but no fewer than the least. A step takes some 5 ms. */
enum {
    FILLED_LEAST = 2048,
    FILLED_MOST = 2 * SEARCH_SEAL_DOCUMENTS,
    FILLED_AT_ONCE = 1024,
    FILLING_MS = 40,
};

/* So many are put or removed before the index's thread looks whether to merge; a long one counts as
   several. */
enum { WAKE_EVERY = SEARCH_SEAL_DOCUMENTS, TERM_BYTES_OF_ONE = 4096 };

enum { TERM_BYTES_KEPT = 1024 * 1024 };

/* ---- the writer's transactions --------------------------------------------------------------- */

static void forget_changes(void *context)
{
    struct handoff_memory_index *index = context;
    if (index->put.terms.capacity > TERM_BYTES_KEPT) /* of one long group, for ever */
        handoff_index_batch_free(&index->put);
    handoff_index_batch_begin(&index->put);
    base_buffer_clear(&index->removed);
}

static void note_known(struct handoff_memory_index *index, const struct search_document *documents,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (handoff_recency_of(documents[i].key) > atomic_load(&index->known))
            atomic_store(&index->known, handoff_recency_of(documents[i].key));
}

/* Without memory for them, they are read from their rows later. */
static void apply_changes(void *context)
{
    struct handoff_memory_index *index = context;
    size_t count;
    const struct search_document *documents = handoff_index_batch_end(&index->put, &count);
    const size_t removed = index->removed.size / sizeof(int64_t);
    BASE_CHECK_MAGIC(index, HANDOFF_INDEX_MAGIC);
    if (count + removed == 0)
        return;
    search_index_change(index->search, documents, count, /* it knows what it lost */
                        (const int64_t *)(const void *)index->removed.data, removed);
    note_known(index, documents, count);
    atomic_fetch_add(&index->unrecorded, (unsigned)removed);
    index->unmerged += count + removed + index->put.terms.size / TERM_BYTES_OF_ONE;
    if (index->unmerged >= WAKE_EVERY || !search_index_is_whole(index->search)) {
        index->unmerged = 0;
        handoff_index_thread_wake(index);
    }
    forget_changes(index); /* a transaction may be committed and another one begun elsewhere */
}

enum handoff_code handoff_memory_index_put(struct handoff_memory_index *index,
                                           const struct handoff_memory *memory,
                                           const struct words_document *words,
                                           struct handoff_error *error)
{
    BASE_CHECK_MAGIC(index, HANDOFF_INDEX_MAGIC);
    const bool added = words ? handoff_index_batch_add_described(&index->put, memory, words)
                             : handoff_index_batch_add(&index->put, memory);
    return added ? HANDOFF_OK : handoff_error_no_memory(error);
}

static void note_last(void *context, struct search_segment *segment)
{
    int64_t *last = context, key;
    struct search_segment_facts facts;
    bool removed;
    search_segment_read_facts(segment, &facts);
    if (facts.documents > 0 &&
        search_segment_keys(segment, facts.documents - 1, &key, &removed, 1) == 1 && key > *last)
        *last = key;
}

int64_t handoff_memory_index_last(struct handoff_memory_index *index)
{
    int64_t last = 0;
    size_t count;
    const struct search_document *documents = handoff_index_batch_end(&index->put, &count);
    for (size_t i = 0; i < count; i++)
        last = documents[i].key > last ? documents[i].key : last;
    search_index_visit(index->search, note_last, &last);
    return last;
}

/* What was put in the same transaction is added before it is removed. */
enum handoff_code handoff_memory_index_remove(struct handoff_memory_index *index, int64_t seq,
                                              struct handoff_error *error)
{
    base_buffer_append(&index->removed, &seq, sizeof seq);
    return index->removed.failed ? handoff_error_no_memory(error) : HANDOFF_OK;
}

/* ---- opening -----------------------------------------------------------------------------------
 */

static enum handoff_code name_files(struct handoff_memory_index *index, const char *database,
                                    struct handoff_error *error)
{
    const size_t size = strlen(database) + sizeof "-search-";
    index->files = base_malloc(size);
    index->folder = base_strdup(database);
    if (!index->files || !index->folder)
        return handoff_error_no_memory(error);
    snprintf(index->files, size, "%s-search-", database);
    char *slash = strrchr(index->folder, '/');
    BASE_CHECK(slash); /* the store's path has one */
    slash[slash == index->folder] = '\0';
    return HANDOFF_OK;
}

/* Whoever cannot read the table of files can still hand off: all of it is made anew. */
static enum handoff_code attach_files_or_none(struct handoff_memory_index *index,
                                              struct handoff_db *db, struct handoff_error *error)
{
    enum handoff_code code = handoff_index_attach_files(index, db, error);
    if (code == HANDOFF_OK || code == HANDOFF_ERR_OUT_OF_MEMORY)
        return code;
    search_index_close(&index->search);
    index->search = search_index_open(index->words);
    if (!index->search)
        return handoff_error_no_memory(error);
    search_index_lose(index->search, atomic_load(&index->known));
    handoff_error_clear(error);
    return HANDOFF_OK;
}

static enum handoff_code read_files(struct handoff_memory_index *index, struct handoff_error *error)
{
    int64_t known = 0;
    struct handoff_db *db = handoff_store_reader(index->store, error);
    if (!db)
        return error->code;
    enum handoff_code code = name_files(index, db->path, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db, "SELECT last FROM memory_clock", &known, error);
    atomic_store(&index->known, known);
    search_index_lose(index->search, known); /* until the rows were looked at */
    if (code == HANDOFF_OK)
        code = attach_files_or_none(index, db, error);
    handoff_store_reader_done(index->store, db);
    if (code == HANDOFF_OK)
        handoff_index_remove_files(index);
    return code;
}

/* Whoever cannot read a memory can still hand off: what was not read now, or not in time, the
   thread reads later, and searches say that it is missing. */
static enum handoff_code fill_newest(struct handoff_memory_index *index,
                                     struct handoff_error *error)
{
    struct handoff_error unread = {0};
    size_t done = 0, count = 1;
    enum handoff_code code = HANDOFF_OK;
    const int64_t until_ns = base_monotonic_ns(&base_clock_system) + FILLING_MS * INT64_C(1000000);
    while (code == HANDOFF_OK && count > 0 && done < FILLED_MOST &&
           (done < FILLED_LEAST || base_monotonic_ns(&base_clock_system) < until_ns)) {
        code = handoff_index_fill_memory(index, FILLED_AT_ONCE, &count, &unread);
        done += count;
    }
    return code == HANDOFF_ERR_OUT_OF_MEMORY ? handoff_error_no_memory(error) : HANDOFF_OK;
}

static enum handoff_code fill_and_follow(struct handoff_memory_index *index,
                                         struct handoff_error *error)
{
    enum handoff_code code = fill_newest(index, error);
    if (code == HANDOFF_OK)
        code = handoff_index_thread_start(index, error);
    if (code == HANDOFF_OK)
        handoff_store_follow(index->store, &index->follower);
    return code;
}

static void free_index(struct handoff_memory_index *index)
{
    search_index_close(&index->search);
    handoff_index_batch_free(&index->put);
    base_buffer_free(&index->removed);
    base_free(index->files);
    base_free(index->folder);
    pthread_cond_destroy(&index->changed);
    pthread_mutex_destroy(&index->lock);
    index->magic = 0;
    base_free(index);
}

unsigned handoff_memory_index_flags(uint32_t words)
{
    return (words - 1) & WORDS_NO_STEM;
}

static struct handoff_memory_index *make_index(struct handoff_store *store, unsigned flags)
{
    struct handoff_memory_index *index = base_calloc(1, sizeof *index);
    pthread_condattr_t attributes;
    if (!index)
        return NULL;
    index->magic = HANDOFF_INDEX_MAGIC;
    index->store = store;
    index->flags = index->put.flags = flags;
    index->words = (words_version() << 1 | (flags & WORDS_NO_STEM)) + 1; /* never 0 */
    index->follower = (struct handoff_db_follower){forget_changes, apply_changes, index};
    pthread_mutex_init(&index->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&index->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    index->search = search_index_open(index->words);
    if (!index->search) {
        free_index(index);
        return NULL;
    }
    return index;
}

enum handoff_code handoff_memory_index_open(struct handoff_memory_index **index,
                                            struct handoff_store *store, unsigned flags,
                                            struct handoff_error *error)
{
    struct handoff_error own = {0};
    struct handoff_memory_index *opened = make_index(store, flags);
    error = error ? error : &own;
    *index = NULL;
    if (!opened)
        return handoff_error_no_memory(error);
    enum handoff_code code = read_files(opened, error);
    if (code == HANDOFF_OK)
        code = fill_and_follow(opened, error);
    if (code == HANDOFF_OK)
        *index = opened;
    else
        free_index(opened);
    return code;
}

void handoff_memory_index_close(struct handoff_memory_index **index)
{
    struct handoff_memory_index *closing = index ? *index : NULL;
    if (!closing)
        return;
    BASE_CHECK_MAGIC(closing, HANDOFF_INDEX_MAGIC);
    *index = NULL;
    handoff_index_thread_stop(closing);
    handoff_store_follow(closing->store, NULL);
    free_index(closing);
}

struct search_index *handoff_memory_index_search(struct handoff_memory_index *index)
{
    BASE_CHECK_MAGIC(index, HANDOFF_INDEX_MAGIC);
    return index->search;
}

void handoff_memory_index_mend(struct handoff_memory_index *index)
{
    BASE_CHECK_MAGIC(index, HANDOFF_INDEX_MAGIC);
    handoff_index_thread_wake(index);
}

bool handoff_memory_index_is_complete(struct handoff_memory_index *index)
{
    BASE_CHECK_MAGIC(index, HANDOFF_INDEX_MAGIC);
    return search_index_is_whole(index->search);
}
