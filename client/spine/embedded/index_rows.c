/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memories from their rows into the index: those that no segment covers. Each segment
 * covers a span of the order of recency, so what is missing lies between two of them, or after the
 * last; nothing else has to be known about what happened before. The thread: index_internal.h.
 */
#include <stdlib.h>

#include "client/spine/embedded/index_internal.h"
#include "client/spine/embedded/place.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    GAPS_MAX = 4096,
    BATCH_BYTES = 8 * 1024 * 1024, /* of terms: that of some 10,000 memories of a usual size */
};

struct gaps {
    int64_t covered;                    /* up to here, by the segments so far */
    struct search_range list[GAPS_MAX]; /* of recency */
    size_t count;
};

static void note_gap(struct gaps *gaps, int64_t first, int64_t last)
{
    if (first <= last && gaps->count < GAPS_MAX)
        gaps->list[gaps->count++] = (struct search_range){first, last};
}

static void note_covered(void *context, struct search_segment *segment)
{
    struct gaps *gaps = context;
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    note_gap(gaps, gaps->covered + 1, facts.first - 1);
    if (facts.last > gaps->covered)
        gaps->covered = facts.last;
}

/* ---- one gap ------------------------------------------------------------------------------------
 */

struct reading {
    struct handoff_memory_index *index;
    struct handoff_index_batch batch;
    struct base_arena arena;
    size_t most;
    int64_t oldest; /* read */
    bool full;      /* there may be older ones in the gap */
};

static enum handoff_code read_memory_row(struct reading *reading, sqlite3_stmt *row,
                                         struct handoff_error *error)
{
    struct handoff_memory memory;
    base_arena_reset(&reading->arena);
    enum handoff_code code = handoff_embedded_read_row(row, &reading->arena, &memory, error);
    if (code == HANDOFF_OK && !handoff_index_batch_add(&reading->batch, &memory))
        code = handoff_error_no_memory(error);
    reading->oldest = handoff_recency_of(memory.version);
    atomic_fetch_add(&reading->index->indexed, 1);
    return code;
}

/* The newest first. */
static enum handoff_code read_gap(struct reading *reading, struct handoff_db *db,
                                  const struct search_range *gap, size_t *count,
                                  struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *rows = handoff_db_statement(
        db,
        "SELECT " HANDOFF_MEMORY_COLUMNS " FROM memories INDEXED BY memories_recent"
        " WHERE (seq & 1099511627775) BETWEEN ?1 AND ?2 ORDER BY seq & 1099511627775 DESC LIMIT ?3",
        error);
    *count = 0;
    reading->full = false;
    if (!rows)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(rows, 1, gap->first);
    sqlite3_bind_int64(rows, 2, gap->last);
    sqlite3_bind_int64(rows, 3, (int64_t)reading->most);
    while (code == HANDOFF_OK && !reading->full && handoff_db_row(rows)) {
        code = handoff_index_is_stopping(reading->index, error)
                   ? error->code
                   : read_memory_row(reading, rows, error);
        reading->full = ++*count == reading->most || reading->batch.terms.size >= BATCH_BYTES;
    }
    enum handoff_code end = handoff_db_end(db, rows, code == HANDOFF_OK ? error : NULL);
    return code != HANDOFF_OK ? code : end;
}

/* The newest gap that has rows, and what of it was read; *count 0: none has. */
static enum handoff_code read_newest_gap(struct reading *reading, struct search_range *covered,
                                         size_t *count, struct handoff_error *error)
{
    struct gaps *gaps = base_calloc(1, sizeof *gaps);
    const int64_t known =
        atomic_load(&reading->index->known); /* before: it is in the list, or lost */
    *count = 0;
    *covered = (struct search_range){0};
    if (!gaps)
        return handoff_error_no_memory(error);
    search_index_visit(reading->index->search, note_covered, gaps);
    note_gap(gaps, gaps->covered + 1, known);
    struct handoff_db *db = handoff_store_reader(reading->index->store, error);
    enum handoff_code code = db ? HANDOFF_OK : error->code;
    for (size_t i = gaps->count; code == HANDOFF_OK && *count == 0 && i > 0; i--) {
        *covered = gaps->list[i - 1];
        code = read_gap(reading, db, covered, count, error);
    }
    if (db)
        handoff_store_reader_done(reading->index->store, db);
    if (code == HANDOFF_OK && *count == 0)
        search_index_recover(reading->index->search, known);
    if (reading->full) {
        covered->first = reading->oldest;
        *count = reading->most;
    }
    base_free(gaps);
    return code;
}

/* ---- into the index -----------------------------------------------------------------------------
 */

static void begin_rows(struct reading *reading, struct handoff_memory_index *index, size_t most)
{
    *reading = (struct reading){.index = index, .most = most};
    reading->batch.flags = index->flags;
    base_arena_init(&reading->arena, 16384);
}

static void end_rows(struct reading *reading)
{
    handoff_index_batch_free(&reading->batch);
    base_arena_free(&reading->arena);
}

static int by_document_key(const void *a, const void *b)
{
    const struct search_document *left = a, *right = b;
    return (left->key > right->key) - (left->key < right->key);
}

enum handoff_code handoff_index_fill_memory(struct handoff_memory_index *index, size_t most,
                                            size_t *count, struct handoff_error *error)
{
    struct reading reading;
    struct search_range covered;
    begin_rows(&reading, index, most);
    enum handoff_code code = read_newest_gap(&reading, &covered, count, error);
    if (code == HANDOFF_OK) {
        size_t some;
        const struct search_document *documents = handoff_index_batch_end(&reading.batch, &some);
        if (!search_index_add(index->search, documents, some))
            code = handoff_error_no_memory(error);
    }
    end_rows(&reading);
    return code;
}

static struct search_segment *make_file_of(struct handoff_memory_index *index,
                                           struct reading *reading,
                                           const struct search_range *covered,
                                           struct handoff_error *error)
{
    struct base_buffer bytes = {0};
    size_t count;
    struct search_segment *segment = NULL;
    struct search_document *documents = handoff_index_batch_end(&reading->batch, &count);
    qsort(documents, count, sizeof *documents, by_document_key);
    if (search_segment_build(documents, count, covered->first, covered->last, index->words, &bytes))
        segment = handoff_index_write_file(index, base_buffer_span(&bytes), error);
    else
        handoff_error_no_memory(error);
    base_buffer_free(&bytes);
    return segment;
}

enum handoff_code handoff_index_fill_file(struct handoff_memory_index *index, size_t most,
                                          size_t *count, struct handoff_error *error)
{
    struct handoff_error own = {0};
    struct reading reading;
    struct search_range covered;
    struct search_merge merge;
    error = error ? error : &own;
    begin_rows(&reading, index, most);
    search_merge_begin(index->search, &merge);
    enum handoff_code code = read_newest_gap(&reading, &covered, count, error);
    if (code == HANDOFF_OK && *count > 0) {
        struct search_segment *segment = make_file_of(index, &reading, &covered, error);
        code = handoff_index_finish_file(index, &merge, segment, error);
    }
    search_merge_end(&merge);
    end_rows(&reading);
    return code;
}
