/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the files of the search index; the thread: search_files.h. */
#include "client/store/sqlite/search_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/search/search.h"

static const char file_problem[] =
    "a file of the search index is missing or damaged; the daemon makes it anew when it starts, or "
    "`handoffctl store reindex`";
static const char memory_problem[] =
    "the search index does not have the memories that there are; run `handoffctl store reindex`";

enum { KEYS_AT_ONCE = 256 };

struct file_row {
    int64_t number, first, last, checksum;
    int64_t kept; /* of its memories, those that were not removed */
};

/* Removed in the table of those since the file was noted. */
static enum handoff_code remove_noted(struct handoff_db *db, struct search_segment *segment,
                                      struct handoff_error *error)
{
    sqlite3_stmt *gone = handoff_db_statement(db, "SELECT seq FROM memories_gone", error);
    if (!gone)
        return handoff_db_failure(db, NULL);
    while (handoff_db_row(gone))
        search_segment_remove(segment, sqlite3_column_int64(gone, 0));
    return handoff_db_end(db, gone, error);
}

static enum handoff_code has_memory_row(struct handoff_db *db, int64_t seq, bool *has,
                                        struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(db, "SELECT 1 FROM memories WHERE seq = ?1", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, seq);
    *has = handoff_db_row(find);
    return handoff_db_end(db, find, error);
}

static enum handoff_code check_segment_keys(struct handoff_db *db,
                                            const struct search_segment *segment,
                                            struct file_row *row, bool *sound,
                                            struct handoff_error *error)
{
    int64_t keys[KEYS_AT_ONCE];
    bool removed[KEYS_AT_ONCE];
    enum handoff_code code = HANDOFF_OK;
    size_t from = 0;
    for (size_t count = 1; code == HANDOFF_OK && *sound && count > 0; from += count) {
        count = search_segment_keys(segment, from, keys, removed, KEYS_AT_ONCE);
        for (size_t i = 0; i < count && code == HANDOFF_OK && *sound; i++) {
            if (removed[i])
                continue;
            row->kept++;
            code = has_memory_row(db, keys[i], sound, error);
        }
    }
    return code;
}

static enum handoff_code count_memories_between(struct handoff_db *db, const struct file_row *row,
                                                int64_t *count, struct handoff_error *error)
{
    sqlite3_stmt *find =
        handoff_db_statement(db,
                             "SELECT count(*) FROM memories INDEXED BY memories_recent"
                             " WHERE (seq & 1099511627775) BETWEEN ?1 AND ?2",
                             error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, row->first);
    sqlite3_bind_int64(find, 2, row->last);
    *count = handoff_db_row(find) ? sqlite3_column_int64(find, 0) : 0;
    return handoff_db_end(db, find, error);
}

static bool is_as_noted(struct search_segment *segment, const struct file_row *row)
{
    struct search_segment_facts facts;
    search_segment_read_facts(segment, &facts);
    return facts.first == row->first && facts.last == row->last &&
           (int64_t)facts.checksum == row->checksum && search_segment_check(segment, NULL);
}

static enum handoff_code check_segment(struct handoff_db *db, struct search_segment *segment,
                                       struct file_row *row, const char **problem,
                                       struct handoff_error *error)
{
    bool sound = true;
    int64_t rows = 0;
    enum handoff_code code = remove_noted(db, segment, error);
    if (code == HANDOFF_OK)
        code = check_segment_keys(db, segment, row, &sound, error);
    if (code == HANDOFF_OK)
        code = count_memories_between(db, row, &rows, error);
    if (code == HANDOFF_OK && (!sound || rows != row->kept))
        *problem = memory_problem;
    return code;
}

/* The file of the next row; in a read transaction, so that it and the memories are of one state. */
static enum handoff_code check_next_file(struct handoff_db *db, int64_t *after,
                                         const char **problem, bool *missing,
                                         struct handoff_error *error)
{
    struct file_row row = {0};
    const size_t room = strlen(db->path) + 64;
    char *path = base_malloc(room);
    sqlite3_stmt *next =
        handoff_db_statement(db,
                             "SELECT number, first, last, checksum, removed FROM search_segments"
                             " WHERE number > ?1 ORDER BY number LIMIT 1",
                             error);
    if (!path || !next) {
        base_free(path);
        return next ? handoff_error_no_memory(error) : handoff_db_failure(db, NULL);
    }
    sqlite3_bind_int64(next, 1, *after);
    struct search_segment *segment = NULL;
    *after = INT64_MAX;
    *missing = false;
    if (handoff_db_row(next)) {
        const struct base_span removed = handoff_db_column(next, 4);
        row = (struct file_row){sqlite3_column_int64(next, 0), sqlite3_column_int64(next, 1),
                                sqlite3_column_int64(next, 2), sqlite3_column_int64(next, 3), 0};
        *after = row.number;
        snprintf(path, room, "%s-search-%lld", db->path, (long long)row.number);
        segment = search_segment_open(path, 0, row.number);
        const bool older = !segment && errno == ENOTSUP; /* the next start makes it anew */
        *missing = !segment && errno == ENOENT;
        if (segment && (!is_as_noted(segment, &row) ||
                        (removed.data && !search_segment_load_removed(segment, removed))))
            search_segment_close(&segment);
        if (!segment && !*missing && !older)
            *problem = file_problem;
    }
    enum handoff_code code = handoff_db_end(db, next, error);
    if (code == HANDOFF_OK && segment)
        code = check_segment(db, segment, &row, problem, error);
    search_segment_close(&segment);
    base_free(path);
    return code;
}

/* In a later state than the one in which it was missing. */
static enum handoff_code check_still_named(struct handoff_db *db, int64_t number,
                                           const char **problem, struct handoff_error *error)
{
    sqlite3_stmt *find =
        handoff_db_statement(db, "SELECT 1 FROM search_segments WHERE number = ?1", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, number);
    if (handoff_db_row(find))
        *problem = file_problem;
    return handoff_db_end(db, find, error);
}

enum handoff_code handoff_search_files_check(struct handoff_db *db, const char **problem,
                                             struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    *problem = NULL;
    for (int64_t number = 0; code == HANDOFF_OK && number < INT64_MAX;) {
        bool missing = false;
        code = handoff_db_exec(db, "BEGIN", error);
        if (code == HANDOFF_OK)
            code = check_next_file(db, &number, problem, &missing, error);
        handoff_db_roll_back(db);
        if (code == HANDOFF_OK && missing)
            code = check_still_named(db, number, problem, error);
    }
    return code;
}
