/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention. Only finished envelopes go, those that finished first go first, and what is under way
 * or parked stays however old it is. A step is small, so that a commit that arrives meanwhile waits
 * for one step at most. Removed rows leave free pages that the next inserts use; the file itself
 * does not shrink, so `bytes` limits its growth and not its size on the day it is lowered.
 *
 * Writer thread.
 */
#include "client/store/sqlite/retention.h"

#include <limits.h>

#include "client/store/sqlite/body_files.h"
#include "client/store/sqlite/task_index.h"

enum { STEP_ROWS = 64 }; /* of 8 KiB: a transaction of half a megabyte, around 2 ms */

enum handoff_code handoff_retention_bytes(struct handoff_db *db, int64_t *bytes,
                                          struct handoff_error *error)
{
    int64_t pages, unused = 0, size = 0;
    enum handoff_code code = handoff_db_number(db, "PRAGMA page_count", &pages, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db, "PRAGMA freelist_count", &unused, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db, "PRAGMA page_size", &size, error);
    *bytes = (pages - unused) * size;
    return code;
}

/* Rows finished before this may go. */
static enum handoff_code find_cutoff(struct handoff_db *db, struct handoff_retention limits,
                                     int64_t now_ms, int64_t *cutoff, struct handoff_error *error)
{
    int64_t bytes = 0, outside = 0, written;
    enum handoff_code code = HANDOFF_OK;
    *cutoff = limits.age_ms > 0 ? now_ms - limits.age_ms : INT64_MIN;
    if (limits.bytes > 0)
        code = handoff_retention_bytes(db, &bytes, error);
    if (code == HANDOFF_OK && limits.bytes > 0)
        code = handoff_body_files_bytes(db, &outside, &written, error);
    if (code == HANDOFF_OK && limits.bytes > 0 && bytes + outside > limits.bytes)
        *cutoff = INT64_MAX;
    return code;
}

/* A completed task goes with the last of its envelopes, which is still there to tell its name. */
static const char remove_task[] =
    "DELETE FROM tasks WHERE task_id = (SELECT task_id FROM envelopes WHERE seq = ?1) AND NOT "
    "EXISTS"
    " (SELECT 1 FROM task_envelopes t WHERE t.task_id = tasks.task_id AND t.seq <> ?1)";

static const char remove_from_index[] =
    "DELETE FROM task_index WHERE seq = ?1"
    " AND task_id = (SELECT task_id FROM envelopes WHERE seq = ?1)";

/* Everything that names the envelope, the large row early. */
static const char *const removals[] = {
    remove_task,
    remove_from_index,
    "DELETE FROM envelopes WHERE seq = ?1",
    "DELETE FROM handoffs WHERE seq = ?1",
    "DELETE FROM attempts WHERE seq = ?1",
    "DELETE FROM passed_over WHERE seq = ?1",
    "DELETE FROM idempotency WHERE seq = ?1",
    "DELETE FROM envelope_state WHERE seq = ?1",
};

enum handoff_code handoff_retention_remove(struct handoff_db *db, int64_t seq,
                                           struct handoff_error *error)
{
    enum handoff_code code = handoff_body_files_release(db, seq, error);
    for (size_t i = 0; i < sizeof removals / sizeof *removals && code == HANDOFF_OK; i++) {
        sqlite3_stmt *statement = handoff_db_statement(db, removals[i], error);
        if (!statement)
            return handoff_db_failure(db, NULL);
        sqlite3_bind_int64(statement, 1, seq);
        code = handoff_db_do(db, statement, error);
    }
    return code;
}

static enum handoff_code find_some(struct handoff_db *db, int64_t cutoff, int64_t seqs[STEP_ROWS],
                                   int *count, struct handoff_error *error)
{
    sqlite3_stmt *finished = handoff_db_statement(
        db,
        "SELECT seq FROM envelope_state WHERE finished_at > 0 AND finished_at < ?1"
        " ORDER BY finished_at, seq LIMIT ?2",
        error);
    *count = 0;
    if (!finished)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(finished, 1, cutoff);
    sqlite3_bind_int64(finished, 2, STEP_ROWS);
    while (handoff_db_row(finished))
        seqs[(*count)++] = sqlite3_column_int64(finished, 0);
    return handoff_db_end(db, finished, error);
}

static enum handoff_code remove_some(struct handoff_db *db, const int64_t *seqs, int count,
                                     struct handoff_error *error)
{
    enum handoff_code code = handoff_db_exec(db, "BEGIN IMMEDIATE", error);
    if (code != HANDOFF_OK)
        return code;
    for (int i = 0; i < count && code == HANDOFF_OK; i++)
        code = handoff_retention_remove(db, seqs[i], error);
    if (code == HANDOFF_OK)
        code = handoff_task_index_trim(db, error);
    if (code == HANDOFF_OK)
        code = handoff_db_exec(db, "COMMIT", error);
    if (code != HANDOFF_OK)
        handoff_db_roll_back(db);
    return code;
}

enum handoff_code handoff_retention_step(struct handoff_db *db, struct handoff_retention limits,
                                         int64_t now_ms, int *removed, struct handoff_error *error)
{
    int64_t cutoff, seqs[STEP_ROWS];
    int count = 0;
    *removed = 0;
    enum handoff_code code = find_cutoff(db, limits, now_ms, &cutoff, error);
    if (code == HANDOFF_OK && cutoff > 0)
        code = find_some(db, cutoff, seqs, &count, error);
    if (code == HANDOFF_OK && count > 0)
        code = remove_some(db, seqs, count, error);
    if (code == HANDOFF_OK)
        *removed = count;
    return code;
}
