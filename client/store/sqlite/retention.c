/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention. Only what is finished goes, and what finished first goes first; what is under way or
 * parked stays however old it is, and makes nothing else go (retained_size.h).
 *
 * Two budgets. While the bodies of finished envelopes have more than theirs, the oldest bodies go
 * and their rows stay: the handoff can still be read, its key still answers a repeat, and a child
 * still finds what it inherits. Only when the rows have more than theirs, or an envelope is past
 * its age, it goes whole; what it contributed stays as long as it has a child
 * (contribution_rows.h).
 *
 * A step is small, so that a commit that arrives meanwhile waits for one step at most. What is
 * removed leaves free pages that the next inserts use; the file itself does not shrink, so the
 * budgets limit its growth and not its size on the day they are lowered. (To give pages back,
 * SQLite would have to keep a map of all pages and move some at each step.)
 *
 * Writer thread.
 */
#include "client/store/sqlite/retention.h"

#include <limits.h>

#include "client/store/sqlite/body_files.h"
#include "client/store/sqlite/contribution_rows.h"
#include "client/store/sqlite/retained_size.h"
#include "client/store/sqlite/shelves.h"
#include "client/store/sqlite/task_index.h"
#include "lib/base/error.h"

enum {
    STEP_ROWS = 64,            /* of 8 KiB: a transaction of half a megabyte, around 2 ms */
    STEP_INSIDE = 1024 * 1024, /* of bodies in their rows, which SQLite frees page by page */
};

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

static enum handoff_code run_for(struct handoff_db *db, const char *text, int64_t seq,
                                 struct handoff_error *error)
{
    sqlite3_stmt *statement = handoff_db_statement(db, text, error);
    if (!statement)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(statement, 1, seq);
    return handoff_db_do(db, statement, error);
}

/* ---- whole envelopes --------------------------------------------------------------------------
 */

/* A completed task goes with the last of its envelopes, which is still there to tell its name. */
static const char remove_task[] =
    "DELETE FROM tasks WHERE task_id = (SELECT task_id FROM envelopes WHERE seq = ?1) AND NOT "
    "EXISTS"
    " (SELECT 1 FROM task_envelopes t WHERE t.task_id = tasks.task_id AND t.seq <> ?1)";

static const char remove_from_index[] =
    "DELETE FROM task_index WHERE seq = ?1"
    " AND task_id = (SELECT task_id FROM envelopes WHERE seq = ?1)";

/* A delivery that goes before its publication is remembered, and counted with it. */
static const char charge_received[] =
    "UPDATE envelope_state SET row_bytes = row_bytes + 4 + (SELECT length(receiver)"
    " FROM channel_deliveries WHERE seq = ?1) WHERE seq = (SELECT p.seq FROM channel_deliveries d"
    " JOIN publications p ON p.seq = d.publication WHERE d.seq = ?1)";

static const char remember_received[] =
    "INSERT OR IGNORE INTO channel_received SELECT d.publication, d.receiver"
    " FROM channel_deliveries d JOIN publications p ON p.seq = d.publication WHERE d.seq = ?1";

/* Everything that names the envelope, the large row early. */
static const char *const removals[] = {
    remove_task,
    remove_from_index,
    "DELETE FROM envelopes WHERE seq = ?1",
    "DELETE FROM handoffs WHERE seq = ?1",
    "DELETE FROM attempts WHERE seq = ?1",
    "DELETE FROM passed_over WHERE seq = ?1",
    "DELETE FROM idempotency WHERE seq = ?1",
    "DELETE FROM refused_next WHERE seq = ?1",
    "DELETE FROM publications WHERE seq = ?1",
    "DELETE FROM channel_received WHERE publication = ?1",
    charge_received,
    remember_received,
    "DELETE FROM channel_deliveries WHERE seq = ?1",
    "DELETE FROM envelope_state WHERE seq = ?1",
    "INSERT INTO address_anew VALUES (?1)", /* what is left is an orphan's */
};

enum handoff_code handoff_retention_remove(struct handoff_db *db, int64_t seq,
                                           struct handoff_error *error)
{
    enum handoff_code code = handoff_shelves_note_unread(db, seq, error);
    if (code == HANDOFF_OK)
        code = handoff_shelves_forget(db, seq, error);
    if (code == HANDOFF_OK)
        code = handoff_contribution_leave(db, seq, error);
    if (code == HANDOFF_OK)
        code = handoff_body_files_release(db, seq, error);
    for (size_t i = 0; i < sizeof removals / sizeof *removals && code == HANDOFF_OK; i++)
        code = run_for(db, removals[i], seq, error);
    return code;
}

/* ---- bodies --------------------------------------------------------------------------------- */

enum { BODY_COLUMN = 6, COLUMNS = 8 }; /* of `envelopes`, behind seq */

static enum handoff_code put_row_back(struct handoff_db *db, int64_t seq,
                                      sqlite3_value *const values[COLUMNS],
                                      struct handoff_error *error)
{
    sqlite3_stmt *insert =
        handoff_db_statement(db,
                             "INSERT INTO envelopes (seq, id, task_id, created_at, digest, cut_at,"
                             " cut_size, body, inheritance)"
                             " VALUES (?9, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                             error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    for (int i = 0; i < COLUMNS; i++) {
        if (i == BODY_COLUMN)
            sqlite3_bind_text(insert, i + 1, "", 0, SQLITE_STATIC);
        else
            sqlite3_bind_value(insert, i + 1, values[i]);
    }
    sqlite3_bind_int64(insert, COLUMNS + 1, seq);
    return handoff_db_do(db, insert, error);
}

/* By removing the row and putting what is left of it back. An update would leave the pages as they
   are, with room for a body on each; a removal joins them. */
static enum handoff_code empty_row(struct handoff_db *db, int64_t seq, struct handoff_error *error)
{
    sqlite3_value *values[COLUMNS] = {0};
    bool memory = true;
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT id, task_id, created_at, digest, cut_at, cut_size, NULL, inheritance"
        " FROM envelopes WHERE seq = ?1",
        error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    if (handoff_db_row(select)) {
        for (int i = 0; i < COLUMNS; i++)
            memory &= (values[i] = sqlite3_value_dup(sqlite3_column_value(select, i))) != NULL;
    }
    enum handoff_code code = handoff_db_end(db, select, error);
    if (code == HANDOFF_OK && !memory)
        code = handoff_error_no_memory(error);
    if (code == HANDOFF_OK)
        code = run_for(db, "DELETE FROM envelopes WHERE seq = ?1", seq, error);
    if (code == HANDOFF_OK)
        code = put_row_back(db, seq, values, error);
    for (int i = 0; i < COLUMNS; i++)
        sqlite3_value_free(values[i]);
    return code;
}

/* Where the body lies in a file, its row is short already. */
static enum handoff_code is_inside(struct handoff_db *db, int64_t seq, bool *inside,
                                   struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(
        db, "SELECT typeof(body) = 'blob' FROM envelopes WHERE seq = ?1", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, seq);
    *inside = handoff_db_row(find) && sqlite3_column_int(find, 0) == 1;
    return handoff_db_end(db, find, error);
}

enum handoff_code handoff_retention_remove_body(struct handoff_db *db, int64_t seq,
                                                struct handoff_error *error)
{
    bool inside = false;
    enum handoff_code code = handoff_shelves_note_unread(db, seq, error);
    if (code == HANDOFF_OK)
        code = handoff_contribution_keep_body(db, seq, error);
    if (code == HANDOFF_OK)
        code = is_inside(db, seq, &inside, error);
    if (code == HANDOFF_OK && inside) {
        code = empty_row(db, seq, error);
    } else if (code == HANDOFF_OK) {
        code = handoff_body_files_release(db, seq, error);
        if (code == HANDOFF_OK)
            code = run_for(db, "UPDATE envelopes SET body = '' WHERE seq = ?1", seq, error);
    }
    if (code == HANDOFF_OK)
        code = run_for(db, "UPDATE envelope_state SET body_bytes = 0 WHERE seq = ?1", seq, error);
    return code;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* What a step removes. */
struct chosen {
    int64_t seqs[STEP_ROWS];
    int count;
    int64_t inside;     /* bytes of their bodies that are in their rows */
    int64_t through_ms; /* when the last of them finished */
};

/* Of the oldest envelopes, those that finished before `age_cutoff`, and as long as `excess` is
   positive, others. column: what they lower it by. */
struct choice {
    int64_t age_cutoff, excess;
    int column;
    int for_size; /* answer: how many were chosen though they are younger */
};

enum { SEQ, FINISHED_AT, BODY_BYTES, ROW_BYTES, INSIDE };

#define OLDEST(condition, index)                                                                   \
    "SELECT s.seq, s.finished_at, s.body_bytes, s.row_bytes, typeof(e.body) = 'blob'"              \
    " FROM envelope_state s INDEXED BY " index " LEFT JOIN envelopes e ON e.seq = s.seq"           \
    " WHERE s.finished_at > 0 AND s.body_bytes " condition                                         \
    " ORDER BY s.finished_at, s.seq LIMIT ?1"
static const char without_body[] = OLDEST("= 0", "finished_without_body");
static const char with_body[] = OLDEST("> 0", "finished_with_body");

static bool is_chosen(sqlite3_stmt *row, struct choice *choice)
{
    if (sqlite3_column_int64(row, FINISHED_AT) < choice->age_cutoff)
        return true;
    choice->for_size += choice->excess > 0;
    return choice->excess > 0;
}

/* false: that is enough for one step. */
static bool take_candidate(struct chosen *chosen, struct choice *choice, sqlite3_stmt *row)
{
    int64_t inside = sqlite3_column_int(row, INSIDE) ? sqlite3_column_int64(row, BODY_BYTES) : 0;
    if ((chosen->count > 0 && chosen->inside + inside > STEP_INSIDE) || !is_chosen(row, choice))
        return false;
    chosen->inside += inside;
    choice->excess -= sqlite3_column_int64(row, choice->column);
    if (chosen->through_ms < sqlite3_column_int64(row, FINISHED_AT))
        chosen->through_ms = sqlite3_column_int64(row, FINISHED_AT);
    chosen->seqs[chosen->count++] = sqlite3_column_int64(row, SEQ);
    return true;
}

static enum handoff_code choose_some(struct handoff_db *db, const char *oldest,
                                     struct choice *choice, struct chosen *chosen,
                                     struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, oldest, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, STEP_ROWS - chosen->count);
    while (handoff_db_row(select) && take_candidate(chosen, choice, select))
        ;
    return handoff_db_end(db, select, error);
}

/* Those without bodies first: they are the oldest. */
static enum handoff_code choose_envelopes(struct handoff_db *db, struct choice *choice,
                                          struct chosen *chosen, struct handoff_error *error)
{
    enum handoff_code code = choose_some(db, without_body, choice, chosen, error);
    if (code == HANDOFF_OK && chosen->count < STEP_ROWS)
        code = choose_some(db, with_body, choice, chosen, error);
    return code;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static enum handoff_code remove_each(struct handoff_db *db, const struct chosen *chosen,
                                     enum handoff_code (*remove)(struct handoff_db *db, int64_t seq,
                                                                 struct handoff_error *error),
                                     struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (int i = 0; i < chosen->count && code == HANDOFF_OK; i++)
        code = remove(db, chosen->seqs[i], error);
    return code;
}

static enum handoff_code remove_envelopes(struct handoff_db *db, struct choice choice,
                                          struct handoff_retention_removed *removed,
                                          struct handoff_error *error)
{
    struct chosen chosen = {0};
    enum handoff_code code = choose_envelopes(db, &choice, &chosen, error);
    if (code == HANDOFF_OK)
        code = remove_each(db, &chosen, handoff_retention_remove, error);
    if (code == HANDOFF_OK && chosen.count > 0)
        code = handoff_task_index_trim(db, error);
    removed->envelopes = chosen.count;
    removed->for_size = choice.for_size;
    removed->through_ms = chosen.through_ms;
    return code;
}

/* Behind remove_envelopes in the same transaction, so what that removed is not counted any more. */
static enum handoff_code remove_bodies(struct handoff_db *db, int64_t limit,
                                       struct handoff_retention_removed *removed,
                                       struct handoff_error *error)
{
    struct chosen chosen = {0};
    struct handoff_retained kept;
    enum handoff_code code = handoff_retained_read(db, &kept, error);
    if (code != HANDOFF_OK || limit == 0 || kept.bodies <= limit)
        return code;
    struct choice choice = {.age_cutoff = INT64_MIN, .excess = kept.bodies - limit, BODY_BYTES};
    code = choose_some(db, with_body, &choice, &chosen, error);
    if (code == HANDOFF_OK)
        code = remove_each(db, &chosen, handoff_retention_remove_body, error);
    removed->bodies = chosen.count;
    return code;
}

static enum handoff_code remove_together(struct handoff_db *db, struct handoff_retention limits,
                                         struct choice choice,
                                         struct handoff_retention_removed *removed,
                                         struct handoff_error *error)
{
    enum handoff_code code = handoff_db_exec(db, "BEGIN IMMEDIATE", error);
    if (code != HANDOFF_OK)
        return code;
    code = remove_envelopes(db, choice, removed, error);
    if (code == HANDOFF_OK)
        code = remove_bodies(db, limits.body_bytes, removed, error);
    if (code == HANDOFF_OK)
        code = handoff_db_exec(db, "COMMIT", error);
    if (code != HANDOFF_OK)
        handoff_db_roll_back(db);
    return code;
}

/* A look that finds nothing begins no transaction. */
static enum handoff_code look_for_due(struct handoff_db *db, const struct handoff_retention *limits,
                                      const struct handoff_retained *kept, struct choice choice,
                                      bool *due, struct handoff_error *error)
{
    struct chosen chosen = {0};
    *due = limits->body_bytes > 0 && kept->bodies > limits->body_bytes;
    if (*due)
        return HANDOFF_OK;
    enum handoff_code code = choose_envelopes(db, &choice, &chosen, error);
    *due = chosen.count > 0;
    return code;
}

enum handoff_code handoff_retention_step(struct handoff_db *db, struct handoff_retention limits,
                                         int64_t now_ms, struct handoff_retention_removed *removed,
                                         struct handoff_error *error)
{
    struct handoff_retained kept;
    bool due = false;
    *removed = (struct handoff_retention_removed){0};
    enum handoff_code code = handoff_retained_read(db, &kept, error);
    const struct choice choice = {
        .age_cutoff = limits.age_ms > 0 ? now_ms - limits.age_ms : INT64_MIN,
        .excess = limits.row_bytes > 0 ? kept.rows - limits.row_bytes : 0,
        .column = ROW_BYTES,
    };
    if (code == HANDOFF_OK)
        code = look_for_due(db, &limits, &kept, choice, &due, error);
    if (code == HANDOFF_OK && due)
        code = remove_together(db, limits, choice, removed, error);
    if (code != HANDOFF_OK)
        *removed = (struct handoff_retention_removed){0};
    return code;
}
