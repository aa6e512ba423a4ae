/* SPDX-License-Identifier: Apache-2.0 */
/* The table of body files, see body_files.h. Writer thread, except for the check of a store. */
#include "client/store/sqlite/body_files.h"

#include <string.h>

#include "client/store/sqlite/envelope_row.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { STEP_ROWS = 64 }; /* moved in one transaction, as retention removes them */

enum handoff_code handoff_body_files_newest(struct handoff_db *db, int64_t *number,
                                            struct handoff_error *error)
{
    return handoff_db_number(db, "SELECT coalesce(max(file), 0) FROM body_files", number, error);
}

enum handoff_code handoff_body_files_bytes(struct handoff_db *db, int64_t *named, int64_t *written,
                                           struct handoff_error *error)
{
    enum handoff_code code =
        handoff_db_number(db, "SELECT sum(bytes) FROM body_files", named, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db, "SELECT sum(written) FROM body_files", written, error);
    return code;
}

/* ---- counting ------------------------------------------------------------------------------ */

enum handoff_code handoff_body_files_add(struct handoff_db *db, int64_t file,
                                         const struct handoff_body_batch *batch,
                                         struct handoff_error *error)
{
    sqlite3_stmt *add = handoff_db_statement(
        db,
        "INSERT INTO body_files (file, first_seq, last_seq, written, envelopes, bytes)"
        " VALUES (?1, ?2, ?3, ?5, ?4, ?5) ON CONFLICT (file) DO UPDATE SET"
        " first_seq = min(first_seq, ?2), last_seq = max(last_seq, ?3),"
        " written = written + ?5, envelopes = envelopes + ?4, bytes = bytes + ?5",
        error);
    if (!add)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(add, 1, file);
    sqlite3_bind_int64(add, 2, batch->first_seq);
    sqlite3_bind_int64(add, 3, batch->last_seq);
    sqlite3_bind_int64(add, 4, batch->count);
    sqlite3_bind_int64(add, 5, batch->bytes);
    return handoff_db_do(db, add, error);
}

static enum handoff_code subtract(struct handoff_db *db, const struct handoff_body_place *place,
                                  struct handoff_error *error)
{
    sqlite3_stmt *less = handoff_db_statement(
        db, "UPDATE body_files SET envelopes = envelopes - 1, bytes = bytes - ?2 WHERE file = ?1",
        error);
    if (!less)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(less, 1, place->file);
    sqlite3_bind_int64(less, 2, place->size);
    return handoff_db_do(db, less, error);
}

/* typeof looks at the row's head only: a body that lies in its row is not read. */
enum handoff_code handoff_body_files_release(struct handoff_db *db, int64_t seq,
                                             struct handoff_error *error)
{
    struct handoff_body_place place;
    sqlite3_stmt *find = handoff_db_statement(
        db, "SELECT CASE typeof(body) WHEN 'text' THEN body END FROM envelopes WHERE seq = ?1",
        error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, seq);
    bool outside = handoff_db_row(find) && handoff_body_place_column(find, 0, &place);
    enum handoff_code code = handoff_db_end(db, find, error);
    return code == HANDOFF_OK && outside ? subtract(db, &place, error) : code;
}

/* What is counted of the file f, by the rows: a place ends with the size. */
#define COUNTED                                                                                    \
    "(SELECT count(*), coalesce(sum(substr(e.body, length(rtrim(e.body, '0123456789')) + 1)), 0)"  \
    " FROM envelopes e WHERE e.seq BETWEEN f.first_seq AND f.last_seq"                             \
    " AND typeof(e.body) = 'text' AND e.body LIKE f.file || ':%')"

enum handoff_code handoff_body_files_miscounted(struct handoff_db *db, int64_t *count,
                                                struct handoff_error *error)
{
    return handoff_db_number(
        db, "SELECT count(*) FROM body_files f WHERE (envelopes, bytes) <> " COUNTED, count, error);
}

static enum handoff_code recount(struct handoff_db *db, int64_t file, bool *is_empty,
                                 struct handoff_error *error)
{
    *is_empty = false;
    sqlite3_stmt *update =
        handoff_db_statement(db,
                             "UPDATE body_files AS f SET (envelopes, bytes) = " COUNTED
                             " WHERE file = ?1 RETURNING envelopes = 0",
                             error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, file);
    *is_empty = handoff_db_row(update) && sqlite3_column_int(update, 0) == 1;
    return handoff_db_end(db, update, error);
}

/* ---- tidying ------------------------------------------------------------------------------- */

/* Without syncs, a power failure could bring back the rows that named the file. */
static int sync_wal(struct handoff_db *db)
{
    sqlite3_file *wal = NULL;
    int result = sqlite3_file_control(db->sqlite, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (result != SQLITE_OK || !wal || !wal->pMethods)
        return result;
    return wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
}

/* The file first: should the process end in between, the row is still there to say what to do. */
static enum handoff_code remove_file(struct handoff_db *db, int64_t file,
                                     struct handoff_error *error)
{
    int result = sync_wal(db);
    if (result == SQLITE_OK)
        result = handoff_body_file_remove(db, file);
    if (result != SQLITE_OK)
        return handoff_db_result(db, result, error);
    sqlite3_stmt *remove =
        handoff_db_statement(db, "DELETE FROM body_files WHERE file = ?1", error);
    if (!remove)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(remove, 1, file);
    return handoff_db_do(db, remove, error);
}

struct straggler {
    int64_t seq;
    struct handoff_body_place place;
    uint8_t digest[BASE_SHA256_BYTES];
    int64_t cut_at, cut_size;
};

/* false: no row that we would have written. */
static bool read_straggler(sqlite3_stmt *row, struct straggler *straggler)
{
    struct base_span digest = handoff_db_column(row, 2);
    straggler->seq = sqlite3_column_int64(row, 0);
    straggler->cut_at = sqlite3_column_int64(row, 3);
    straggler->cut_size = sqlite3_column_int64(row, 4);
    if (digest.size != sizeof straggler->digest)
        return false;
    memcpy(straggler->digest, digest.data, digest.size);
    return handoff_body_place_column(row, 1, &straggler->place);
}

static enum handoff_code find_stragglers(struct handoff_db *db, int64_t file,
                                         struct straggler list[STEP_ROWS], int *count,
                                         struct handoff_error *error)
{
    *count = 0;
    sqlite3_stmt *find = handoff_db_statement(
        db,
        "SELECT e.seq, e.body, e.digest, e.cut_at, e.cut_size FROM body_files f JOIN envelopes e"
        " ON e.seq BETWEEN f.first_seq AND f.last_seq"
        " WHERE f.file = ?1 AND typeof(e.body) = 'text' AND e.body LIKE f.file || ':%'"
        " ORDER BY e.seq LIMIT ?2",
        error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, file);
    sqlite3_bind_int64(find, 2, STEP_ROWS);
    while (handoff_db_row(find))
        *count += read_straggler(find, &list[*count]);
    return handoff_db_end(db, find, error);
}

void handoff_damaged_files_free(struct handoff_damaged_files *damaged)
{
    base_free(damaged->numbers);
    *damaged = (struct handoff_damaged_files){0};
}

/* Without memory it is found again the next time. */
static void note_damaged(struct handoff_damaged_files *damaged, int64_t file)
{
    for (size_t i = 0; i < damaged->count; i++) {
        if (damaged->numbers[i] == file)
            return;
    }
    int64_t *numbers =
        base_realloc(damaged->numbers, (damaged->count + 1) * sizeof *damaged->numbers);
    if (!numbers)
        return;
    damaged->numbers = numbers;
    damaged->numbers[damaged->count++] = file;
}

/* *intact is told where the answer is OK. */
static enum handoff_code move_if_intact(struct handoff_db *db, const struct straggler *straggler,
                                        bool *intact, struct handoff_error *error)
{
    int64_t size = straggler->place.size;
    char *body = base_malloc((size_t)size + 1);
    if (!body)
        return handoff_error_no_memory(error);
    enum handoff_code code = handoff_body_read(db, &straggler->place, body, error);
    *intact = code == HANDOFF_OK &&
              handoff_envelope_intact(base_span(body, (size_t)size), straggler->cut_at,
                                      straggler->cut_size, straggler->digest);
    if (*intact)
        code = handoff_body_store_in_row(db, straggler->seq, body, size, error);
    else if (code != HANDOFF_ERR_OUT_OF_MEMORY)
        code = handoff_error_clear(error); /* its file is gone, or the disk does not give it back */
    if (*intact && code == HANDOFF_OK)
        code = subtract(db, &straggler->place, error);
    base_free(body);
    return code;
}

static enum handoff_code move_list(struct handoff_db *db, const struct straggler *list, int count,
                                   struct handoff_damaged_files *damaged, bool *moved,
                                   struct handoff_error *error)
{
    bool intact = false;
    enum handoff_code code = handoff_db_exec(db, "BEGIN IMMEDIATE", error);
    if (code != HANDOFF_OK)
        return code;
    for (int i = 0; i < count && code == HANDOFF_OK; i++) {
        code = move_if_intact(db, &list[i], &intact, error);
        *moved |= intact;
        if (code == HANDOFF_OK && !intact)
            note_damaged(damaged, list[i].place.file);
    }
    handoff_body_file_close(&db->bodies); /* or its space is not freed when it goes */
    if (code == HANDOFF_OK)
        code = handoff_db_exec(db, "COMMIT", error);
    if (code != HANDOFF_OK)
        handoff_db_roll_back(db);
    return code;
}

/* *moved: or found that there are none. */
static enum handoff_code move_stragglers(struct handoff_db *db, int64_t file,
                                         struct handoff_damaged_files *damaged, bool *moved,
                                         struct handoff_error *error)
{
    struct straggler list[STEP_ROWS];
    int count;
    enum handoff_code code = find_stragglers(db, file, list, &count, error);
    if (code != HANDOFF_OK)
        return code;
    return count > 0 ? move_list(db, list, count, damaged, moved, error)
                     : recount(db, file, moved, error);
}

static enum handoff_code find_empty(struct handoff_db *db, int64_t *file,
                                    struct handoff_error *error)
{
    return handoff_db_number(db,
                             "SELECT min(file) FROM body_files"
                             " WHERE envelopes < 1 AND file < (SELECT max(file) FROM body_files)",
                             file, error);
}

/* The first one after a number. 0: there is none. */
static enum handoff_code find_lagging(struct handoff_db *db, int64_t after, int64_t *file,
                                      struct handoff_error *error)
{
    *file = 0;
    sqlite3_stmt *find = handoff_db_statement(
        db,
        "SELECT min(file) FROM body_files f WHERE envelopes > 0 AND file > ?1"
        " AND file + 1 < (SELECT max(file) FROM body_files) AND NOT EXISTS (SELECT 1"
        " FROM body_files n WHERE n.file = f.file + 1 AND n.bytes >= n.written / 2)",
        error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, after);
    if (handoff_db_row(find))
        *file = sqlite3_column_int64(find, 0);
    return handoff_db_end(db, find, error);
}

/* Of the first file in which something can be moved. */
static enum handoff_code move_some(struct handoff_db *db, struct handoff_damaged_files *damaged,
                                   bool *moved, struct handoff_error *error)
{
    int64_t file = 0;
    enum handoff_code code;
    do {
        code = find_lagging(db, file, &file, error);
        if (code == HANDOFF_OK && file > 0)
            code = move_stragglers(db, file, damaged, moved, error);
    } while (code == HANDOFF_OK && file > 0 && !*moved);
    return code;
}

enum handoff_code handoff_body_files_tidy(struct handoff_db *db,
                                          struct handoff_damaged_files *damaged, bool *more,
                                          struct handoff_error *error)
{
    int64_t empty;
    bool done = false;
    enum handoff_code code = find_empty(db, &empty, error);
    if (code == HANDOFF_OK && empty > 0)
        code = recount(db, empty, &done, error);
    if (code == HANDOFF_OK && done)
        code = remove_file(db, empty, error);
    else if (code == HANDOFF_OK && empty == 0)
        code = move_some(db, damaged, &done, error);
    *more = code == HANDOFF_OK && (done || empty > 0);
    return code;
}
