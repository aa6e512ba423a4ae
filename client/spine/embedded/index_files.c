/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the search index, beside the database, and the table that names them. The table is
 * written after a file, and a file removed after the table: a file that the table names and that is
 * not as it says is not used, and one that it does not name is removed. The thread:
 * index_internal.h; a record is a job of the writer's.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/spine/embedded/index_internal.h"
#include "client/spine/embedded/place.h"
#include "client/store/sqlite/data_dir.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    NUMBER_TEXT = 24,
    RESERVE_BYTES = 64 * 1024 * 1024, /* of the disk, that no file of the index takes, */
    RESERVE_SHARE = 16,               /* or such a share of a small disk */
    GONE_AT_ONCE = 256,               /* of a job: others wait for it */
};

static char *file_path(const struct handoff_memory_index *index, int64_t number)
{
    const size_t size = strlen(index->files) + NUMBER_TEXT;
    char *path = base_malloc(size);
    if (path)
        snprintf(path, size, "%s%lld", index->files, (long long)number);
    return path;
}

/* Another store may have come to the path: then nothing is written, nor removed. */
static bool is_path_ours(const struct handoff_memory_index *index)
{
    return handoff_store_displaced_file(index->store) == NULL;
}

/* The index can be made anew at any time, and handoffs cannot: what is left is theirs. A disk that
   cannot be asked is tried. */
static bool has_room(const struct handoff_memory_index *index, size_t size)
{
    struct statvfs disk;
    if (statvfs(index->folder, &disk) != 0)
        return true;
    const uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
    const uint64_t share = (uint64_t)disk.f_blocks * disk.f_frsize / RESERVE_SHARE;
    return left >= size + (share < RESERVE_BYTES ? share : RESERVE_BYTES);
}

static void cannot_write(int why, struct handoff_error *error)
{
    if (why == ENOSPC || why == EDQUOT)
        handoff_error_set(error, HANDOFF_ERR_STORE_FULL,
                          "the disk has no room for a file of the search index", "storage.path",
                          NULL);
    else if (why == ENOMEM || why == EMFILE || why == ENFILE)
        handoff_error_no_memory(error);
    else
        handoff_error_set(error, HANDOFF_ERR_STORE_IO,
                          "a file of the search index cannot be written", "storage.path", NULL);
}

/* 0, or errno; then there is no file. */
static int write_and_open(const struct handoff_memory_index *index, const char *path,
                          struct base_span bytes, struct search_segment **segment)
{
    int failed =
        has_room(index, bytes.size) ? search_segment_write(path, bytes, &index->stopping) : ENOSPC;
    if (failed != 0)
        return failed;
    failed = EIO;
    if (handoff_path_sync_name(path) == 0) {
        *segment = search_segment_open(path, index->words, index->next_number);
        failed = *segment ? 0 : errno;
    }
    if (failed != 0)
        unlink(path); /* or each retry would leave one more */
    return failed;
}

struct search_segment *handoff_index_write_file(struct handoff_memory_index *index,
                                                struct base_span bytes, struct handoff_error *error)
{
    struct search_segment *segment = NULL;
    char *path = file_path(index, index->next_number);
    int failed = path ? EIO : ENOMEM;
    if (path && is_path_ours(index)) {
        failed = write_and_open(index, path, bytes, &segment);
        index->next_number++;
    }
    if (failed != 0)
        cannot_write(failed, error);
    base_free(path);
    return segment;
}

void handoff_index_discard_file(struct handoff_memory_index *index, struct search_segment **segment)
{
    struct search_segment_facts facts;
    if (!*segment)
        return;
    search_segment_read_facts(*segment, &facts);
    char *path = is_path_ours(index) ? file_path(index, facts.label) : NULL;
    if (path)
        unlink(path);
    base_free(path);
    search_segment_close(segment);
}

enum handoff_code handoff_index_finish_file(struct handoff_memory_index *index,
                                            struct search_merge *merge,
                                            struct search_segment *segment,
                                            struct handoff_error *error)
{
    if (!segment)
        return error->code;
    if (search_merge_finish(merge, segment))
        return HANDOFF_OK;
    handoff_index_discard_file(index, &segment);
    return handoff_error_no_memory(error);
}

/* ---- which are used -----------------------------------------------------------------------------
 */

struct used_files {
    struct base_buffer numbers; /* int64_t */
};

static void note_used_file(void *context, struct search_segment *segment)
{
    struct used_files *used = context;
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    if (facts.in_file)
        base_buffer_append(&used->numbers, &facts.label, sizeof facts.label);
}

static bool is_used(const struct used_files *used, int64_t number)
{
    const int64_t *numbers = (const void *)used->numbers.data;
    for (size_t i = 0; i < used->numbers.size / sizeof *numbers; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

/* The number in the name of a file of the index; 0: it is none. */
static int64_t number_of_file(const char *name, const char *begin)
{
    const size_t size = strlen(begin);
    char *end;
    if (strncmp(name, begin, size) != 0 || name[size] < '1' || name[size] > '9')
        return 0;
    errno = 0;
    const long long number = strtoll(name + size, &end, 10);
    return *end == '\0' && errno == 0 ? number : 0;
}

static int keep_search_files(const struct dirent *entry)
{
    return strstr(entry->d_name, "-search-") != NULL;
}

static void remove_unused(struct handoff_memory_index *index, const struct used_files *used,
                          const char *name)
{
    const char *slash = strrchr(index->files, '/');
    const int64_t number = number_of_file(name, slash ? slash + 1 : index->files);
    if (number >= index->next_number)
        index->next_number = number + 1;
    if (number == 0 || is_used(used, number))
        return;
    char *path = file_path(index, number);
    if (path)
        unlink(path);
    base_free(path);
}

static void remove_unused_named(struct handoff_memory_index *index, struct dirent **names,
                                int count)
{
    struct used_files used = {{0}};
    search_index_visit(index->search, note_used_file, &used);
    for (int i = 0; i < count && !used.numbers.failed; i++)
        remove_unused(index, &used, names[i]->d_name);
    base_buffer_free(&used.numbers);
}

void handoff_index_remove_files(struct handoff_memory_index *index)
{
    struct dirent **names;
    if (!is_path_ours(index))
        return;
    const int count = scandir(index->folder, &names, keep_search_files, alphasort);
    if (count < 0)
        return;
    remove_unused_named(index, names, count);
    for (int i = 0; i < count; i++)
        free(names[i]); /* the C library's */
    free((void *)names);
}

/* ---- opening ------------------------------------------------------------------------------------
 */

/* Whether it is what the row says, and beside all others. */
static bool fits_row(const struct search_segment *segment, sqlite3_stmt *row, int64_t covered)
{
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    return facts.first == sqlite3_column_int64(row, 1) &&
           facts.last == sqlite3_column_int64(row, 2) &&
           (int64_t)facts.checksum == sqlite3_column_int64(row, 3) && facts.first > covered;
}

/* What was removed of it; a damaged list would hide memories that are there. */
static bool load_removed(struct search_segment *segment, sqlite3_stmt *row)
{
    const struct base_span removed = handoff_db_column(row, 4);
    struct search_segment_facts facts;
    if (removed.data && !search_segment_load_removed(segment, removed))
        return false;
    search_segment_read_facts(segment, &facts);
    return facts.removed == sqlite3_column_int64(row, 5);
}

/* A file that is not as it should be is left out: its rows are read anew. */
static enum handoff_code attach_file(struct handoff_memory_index *index, sqlite3_stmt *row,
                                     int64_t *covered, struct handoff_error *error)
{
    const int64_t number = sqlite3_column_int64(row, 0);
    if (number < 1 || number == INT64_MAX)
        return HANDOFF_OK; /* it names no file of ours */
    char *path = file_path(index, number);
    if (!path)
        return handoff_error_no_memory(error);
    struct search_segment *segment = search_segment_open(path, index->words, number);
    base_free(path);
    if (number >= index->next_number)
        index->next_number = number + 1;
    if (!segment || !fits_row(segment, row, *covered) || !load_removed(segment, row)) {
        search_segment_close(&segment);
        return HANDOFF_OK;
    }
    *covered = sqlite3_column_int64(row, 2);
    if (search_index_attach(index->search, segment))
        return HANDOFF_OK;
    search_segment_close(&segment);
    return handoff_error_no_memory(error);
}

static enum handoff_code attach_each(struct handoff_memory_index *index, struct handoff_db *db,
                                     struct handoff_error *error)
{
    int64_t covered = 0;
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *rows = handoff_db_statement(
        db,
        "SELECT number, first, last, checksum, removed, removed_count FROM search_segments"
        " ORDER BY first",
        error);
    if (!rows)
        return handoff_db_failure(db, NULL);
    while (code == HANDOFF_OK && handoff_db_row(rows))
        code = attach_file(index, rows, &covered, error);
    enum handoff_code end = handoff_db_end(db, rows, code == HANDOFF_OK ? error : NULL);
    return code != HANDOFF_OK ? code : end;
}

static enum handoff_code remove_gone(struct handoff_memory_index *index, struct handoff_db *db,
                                     struct handoff_error *error)
{
    sqlite3_stmt *rows = handoff_db_statement(db, "SELECT seq FROM memories_gone", error);
    if (!rows)
        return handoff_db_failure(db, NULL);
    while (handoff_db_row(rows)) {
        const int64_t seq = sqlite3_column_int64(rows, 0);
        search_index_remove(index->search, &seq, 1);
        atomic_fetch_add(&index->unrecorded, 1);
    }
    return handoff_db_end(db, rows, error);
}

enum handoff_code handoff_index_attach_files(struct handoff_memory_index *index,
                                             struct handoff_db *db, struct handoff_error *error)
{
    index->next_number = 1;
    enum handoff_code code = handoff_db_exec(db, "BEGIN", error); /* one state of the two tables */
    if (code == HANDOFF_OK)
        code = attach_each(index, db, error);
    if (code == HANDOFF_OK)
        code = remove_gone(index, db, error);
    handoff_db_roll_back(db);
    return code;
}

/* ---- the table ----------------------------------------------------------------------------------
 */

struct record_job {
    struct handoff_store_job job;
    struct handoff_memory_index *index;
    struct handoff_db *db;
    struct handoff_error *error;
    enum handoff_code code;
    struct used_files used;
    int64_t from;  /* removed memories up to this seq were looked at */
    int64_t to;    /* result: likewise; INT64_MAX: that is all */
    int64_t asked; /* is this seq ... */
    bool needed;   /* ... one that a file has and does not know as removed */
};

static enum handoff_code add_segment_row(struct handoff_db *db,
                                         const struct search_segment_facts *facts,
                                         struct handoff_error *error)
{
    sqlite3_stmt *add = handoff_db_statement(
        db,
        "INSERT OR IGNORE INTO search_segments (number, first, last, documents, checksum)"
        " VALUES (?1, ?2, ?3, ?4, ?5)",
        error);
    if (!add)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(add, 1, facts->label);
    sqlite3_bind_int64(add, 2, facts->first);
    sqlite3_bind_int64(add, 3, facts->last);
    sqlite3_bind_int64(add, 4, facts->documents);
    sqlite3_bind_int64(add, 5, (int64_t)facts->checksum);
    return handoff_db_do(db, add, error);
}

static enum handoff_code save_removed_bits(struct handoff_db *db,
                                           const struct search_segment *segment,
                                           const struct search_segment_facts *facts,
                                           struct handoff_error *error)
{
    const size_t size = search_segment_removed_size(segment);
    sqlite3_stmt *save =
        handoff_db_statement(db,
                             "UPDATE search_segments SET removed_count = ?2, removed = ?3"
                             " WHERE number = ?1 AND removed_count <> ?2",
                             error);
    if (!save)
        return handoff_db_failure(db, NULL);
    uint8_t *bits = base_malloc(size + 1);
    if (!bits)
        return handoff_error_no_memory(error);
    search_segment_save_removed(segment, bits);
    sqlite3_bind_int64(save, 1, facts->label);
    sqlite3_bind_int64(save, 2, facts->removed);
    sqlite3_bind_blob64(save, 3, bits, size, SQLITE_STATIC);
    enum handoff_code code = handoff_db_do(db, save, error);
    base_free(bits);
    return code;
}

static void record_segment(void *context, struct search_segment *segment)
{
    struct record_job *record = context;
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    if (!facts.in_file || record->code != HANDOFF_OK)
        return;
    note_used_file(&record->used, segment);
    record->code = add_segment_row(record->db, &facts, record->error);
    if (record->code == HANDOFF_OK && facts.removed > 0)
        record->code = save_removed_bits(record->db, segment, &facts, record->error);
}

/* The number that a statement finds after another one; *found: whether there is one. */
static enum handoff_code next_number(struct record_job *record, const char *find, int64_t *number,
                                     bool *found)
{
    sqlite3_stmt *next = handoff_db_statement(record->db, find, record->error);
    if (!next)
        return handoff_db_failure(record->db, NULL);
    sqlite3_bind_int64(next, 1, *number);
    *found = handoff_db_row(next);
    if (*found)
        *number = sqlite3_column_int64(next, 0);
    return handoff_db_end(record->db, next, record->error);
}

static enum handoff_code delete_number(struct record_job *record, const char *remove,
                                       int64_t number)
{
    sqlite3_stmt *over = handoff_db_statement(record->db, remove, record->error);
    if (!over)
        return handoff_db_failure(record->db, NULL);
    sqlite3_bind_int64(over, 1, number);
    return handoff_db_do(record->db, over, record->error);
}

/* Deletes the rows that a statement finds, and of which `is_over` holds. Looks at `most` of them;
 *number: behind which, and up to which; INT64_MAX: to the end. */
static enum handoff_code delete_over(struct record_job *record, const char *find,
                                     const char *remove, size_t most, int64_t *number,
                                     bool (*is_over)(struct record_job *record, int64_t number))
{
    bool found = true;
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; code == HANDOFF_OK && found && i < most; i++) {
        code = next_number(record, find, number, &found);
        if (code == HANDOFF_OK && found && is_over(record, *number))
            code = delete_number(record, remove, *number);
    }
    if (!found)
        *number = INT64_MAX;
    return code;
}

static bool is_unused_segment(struct record_job *record, int64_t number)
{
    return !is_used(&record->used, number);
}

static void ask_segment(void *context, struct search_segment *segment)
{
    struct record_job *record = context;
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    if (facts.in_file && search_segment_has(segment, record->asked) &&
        !search_segment_has_removed(segment, record->asked))
        record->needed = true;
}

/* A memory that was removed in a transaction that is not committed yet is in its file, and not
   known as removed. */
static bool is_recorded(struct record_job *record, int64_t seq)
{
    record->asked = seq;
    record->needed = false;
    search_index_visit(record->index->search, ask_segment, record);
    return !record->needed;
}

static enum handoff_code delete_unused_segments(struct record_job *record)
{
    int64_t number = INT64_MIN;
    return delete_over(
        record, "SELECT number FROM search_segments WHERE number > ?1 ORDER BY number LIMIT 1",
        "DELETE FROM search_segments WHERE number = ?1", SIZE_MAX, &number, is_unused_segment);
}

static enum handoff_code delete_recorded(struct record_job *record)
{
    record->to = record->from;
    return delete_over(record, "SELECT seq FROM memories_gone WHERE seq > ?1 ORDER BY seq LIMIT 1",
                       "DELETE FROM memories_gone WHERE seq = ?1", GONE_AT_ONCE, &record->to,
                       is_recorded);
}

/* What was removed is saved in the transaction that forgets it. */
static enum handoff_code run_record(struct handoff_store_job *job, struct handoff_db *db,
                                    struct handoff_error *error)
{
    struct record_job *record = (void *)job;
    record->db = db;
    record->error = error;
    record->code = HANDOFF_OK;
    base_buffer_clear(&record->used.numbers);
    search_index_visit(record->index->search, record_segment, record);
    if (record->used.numbers.failed)
        return handoff_error_no_memory(error);
    if (record->code == HANDOFF_OK)
        record->code = delete_unused_segments(record);
    return record->code == HANDOFF_OK ? delete_recorded(record) : record->code;
}

/* One job after the other, so that handoffs are committed in between. */
static enum handoff_code run_records(struct record_job *record)
{
    enum handoff_code code = HANDOFF_OK;
    for (record->from = INT64_MIN; code == HANDOFF_OK && record->from < INT64_MAX;
         record->from = record->to)
        code = handoff_store_run(record->index->store, &record->job);
    return code;
}

enum handoff_code handoff_index_record(struct handoff_memory_index *index,
                                       struct handoff_error *error)
{
    struct record_job record = {.job.run = run_record, .index = index};
    const unsigned unrecorded = atomic_exchange(&index->unrecorded, 0);
    enum handoff_code code = run_records(&record);
    if (code == HANDOFF_OK)
        handoff_index_remove_files(index);
    else
        atomic_fetch_add(&index->unrecorded, unrecorded);
    if (code != HANDOFF_OK && error)
        *error = record.job.error;
    base_buffer_free(&record.used.numbers);
    return code;
}
