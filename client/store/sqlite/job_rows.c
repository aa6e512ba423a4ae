/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk jobs in the store, see jobs.h. Written on the writer thread; read on a reader thread, or
 * where the store is opened.
 */
#include "client/store/jobs.h"

#include <string.h>

#include "client/model/model.h"
#include "client/store/sqlite/database.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

enum { JOBS_MAX = 1000 }; /* that are kept; the oldest of those that ended go first */

static void bind_job_id(sqlite3_stmt *statement, int at, const struct base_uuid *id)
{
    sqlite3_bind_blob(statement, at, id->bytes, sizeof id->bytes, SQLITE_STATIC);
}

static void bind_job_text(sqlite3_stmt *statement, int at, struct base_span text)
{
    handoff_db_bind_text(statement, at, text.data ? text : base_span("", 0));
}

static struct base_uuid read_job_id(sqlite3_stmt *row, int at)
{
    struct base_uuid id = {0};
    struct base_span found = handoff_db_column(row, at);
    if (found.size == sizeof id.bytes)
        memcpy(id.bytes, found.data, found.size);
    return id;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static enum handoff_code insert_job(struct handoff_db *db, const struct handoff_stored_job *row,
                                    struct handoff_error *error)
{
    sqlite3_stmt *insert = handoff_db_statement(db,
                                                "INSERT INTO jobs (id, action, state, sent_to, "
                                                "who, said_by, reason, rate, canary, began_at)"
                                                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                                                error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    bind_job_id(insert, 1, &row->id);
    sqlite3_bind_int(insert, 2, (int)row->action);
    bind_job_text(insert, 3, base_span_text(handoff_run_state_name(row->state)));
    bind_job_text(insert, 4, row->to);
    bind_job_text(insert, 5, row->who);
    bind_job_text(insert, 6, row->by);
    bind_job_text(insert, 7, row->reason);
    sqlite3_bind_int64(insert, 8, row->rate);
    sqlite3_bind_int(insert, 9, row->canary);
    sqlite3_bind_int64(insert, 10, row->began_ms);
    return handoff_db_do(db, insert, error);
}

static enum handoff_code insert_job_item(struct handoff_db *db, const struct base_uuid *id,
                                         const struct base_uuid *handoff,
                                         struct handoff_error *error)
{
    sqlite3_stmt *insert = handoff_db_statement(
        db, "INSERT OR IGNORE INTO job_items (job, handoff) VALUES (?1, ?2)", error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    bind_job_id(insert, 1, id);
    bind_job_id(insert, 2, handoff);
    return handoff_db_do(db, insert, error);
}

/* The items first: they are found by their job. */
static enum handoff_code remove_old_jobs(struct handoff_db *db, struct handoff_error *error)
{
    static const char *const removals[] = {
        "DELETE FROM job_items WHERE job IN (SELECT id FROM jobs WHERE ended_at > 0 ORDER BY id "
        "DESC"
        " LIMIT -1 OFFSET ?1)",
        "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE ended_at > 0 ORDER BY id DESC"
        " LIMIT -1 OFFSET ?1)"};
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < sizeof removals / sizeof *removals && code == HANDOFF_OK; i++) {
        sqlite3_stmt *remove = handoff_db_statement(db, removals[i], error);
        if (!remove)
            return handoff_db_failure(db, NULL);
        sqlite3_bind_int64(remove, 1, JOBS_MAX);
        code = handoff_db_do(db, remove, error);
    }
    return code;
}

static enum handoff_code run_put_job(struct handoff_store_job *job, struct handoff_db *db,
                                     struct handoff_error *error)
{
    const struct handoff_store_put_job *put = (const void *)job;
    enum handoff_code code = insert_job(db, &put->row, error);
    for (size_t i = 0; i < put->count && code == HANDOFF_OK; i++)
        code = insert_job_item(db, &put->row.id, &put->handoffs[i], error);
    return code == HANDOFF_OK ? remove_old_jobs(db, error) : code;
}

void handoff_store_put_job(struct handoff_store *store, struct handoff_store_put_job *put)
{
    put->job.run = run_put_job;
    handoff_store_submit(store, &put->job);
}

static enum handoff_code run_turn_job(struct handoff_store_job *job, struct handoff_db *db,
                                      struct handoff_error *error)
{
    const struct handoff_store_turn_job *turn = (const void *)job;
    sqlite3_stmt *update = handoff_db_statement(db,
                                                "UPDATE jobs SET state = ?2, ended_at = ?3, canary "
                                                "= canary + ?5 WHERE id = ?1 AND state = ?4",
                                                error);
    if (!update)
        return handoff_db_failure(db, NULL);
    bind_job_id(update, 1, &turn->id);
    bind_job_text(update, 2, base_span_text(handoff_run_state_name(turn->to)));
    sqlite3_bind_int64(update, 3, turn->ended_ms);
    bind_job_text(update, 4, base_span_text(handoff_run_state_name(turn->from)));
    sqlite3_bind_int(update, 5, turn->goes_on);
    enum handoff_code code = handoff_db_do(db, update, error);
    if (code != HANDOFF_OK || sqlite3_changes(db->sqlite) > 0)
        return code;
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT, "the job is in another state by now",
                             "state", NULL);
}

void handoff_store_turn_job(struct handoff_store *store, struct handoff_store_turn_job *turn)
{
    turn->job.run = run_turn_job;
    handoff_store_submit(store, &turn->job);
}

/* One that was decided stays so. */
static enum handoff_code run_leave_out(struct handoff_store_job *job, struct handoff_db *db,
                                       struct handoff_error *error)
{
    const struct handoff_store_leave_out *leave = (const void *)job;
    sqlite3_stmt *update =
        handoff_db_statement(db,
                             "UPDATE job_items SET fate = ?3, code = ?4, detail = ?5"
                             " WHERE job = ?1 AND handoff = ?2 AND fate = 0",
                             error);
    if (!update)
        return handoff_db_failure(db, NULL);
    bind_job_id(update, 1, &leave->id);
    bind_job_id(update, 2, &leave->handoff);
    sqlite3_bind_int(update, 3, (int)leave->fate);
    bind_job_text(update, 4, leave->code);
    bind_job_text(update, 5, leave->detail);
    return handoff_db_do(db, update, error);
}

void handoff_store_leave_out(struct handoff_store *store, struct handoff_store_leave_out *leave)
{
    leave->job.run = run_leave_out;
    handoff_store_submit(store, &leave->job);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static enum handoff_code count_job_items(struct handoff_db *db, struct handoff_stored_job *row,
                                         struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(
        db, "SELECT fate, count(*), min(handoff) FROM job_items WHERE job = ?1 GROUP BY fate",
        error);
    if (!select)
        return handoff_db_failure(db, NULL);
    bind_job_id(select, 1, &row->id);
    while (handoff_db_row(select)) {
        const int fate = sqlite3_column_int(select, 0);
        const struct base_uuid first = read_job_id(select, 2);
        if (fate >= 0 && fate < HANDOFF_FATE_COUNT)
            row->of[fate] = sqlite3_column_int64(select, 1);
        if (row->first.bytes[0] == 0 || memcmp(&first, &row->first, sizeof first) < 0)
            row->first = first;
    }
    return handoff_db_end(db, select, error);
}

static enum handoff_run_state run_state_of_name(struct base_span name)
{
    for (int state = 0; handoff_run_state_names[state]; state++) {
        if (base_span_equal(name, base_span_text(handoff_run_state_names[state])))
            return (enum handoff_run_state)state;
    }
    return HANDOFF_RUN_STOPPED; /* of a newer version */
}

static struct handoff_stored_job read_job(sqlite3_stmt *row)
{
    return (struct handoff_stored_job){
        .id = read_job_id(row, 0),
        .action = (enum handoff_action)sqlite3_column_int(row, 1),
        .state = run_state_of_name(handoff_db_column(row, 2)),
        .to = handoff_db_column(row, 3),
        .who = handoff_db_column(row, 4),
        .by = handoff_db_column(row, 5),
        .reason = handoff_db_column(row, 6),
        .rate = (uint32_t)sqlite3_column_int64(row, 7),
        .canary = sqlite3_column_int(row, 8) == 1,
        .had_canary = sqlite3_column_int(row, 8) != 0,
        .began_ms = sqlite3_column_int64(row, 9),
        .ended_ms = sqlite3_column_int64(row, 10),
    };
}

static enum handoff_code visit_jobs_in(struct handoff_db *db, const struct base_uuid *id,
                                       void (*visit)(void *arg,
                                                     const struct handoff_stored_job *row),
                                       void *arg, struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT id, action, state, sent_to, who, said_by, reason, rate, canary, began_at, ended_at"
        " FROM jobs WHERE ?1 IS NULL OR id = ?1 ORDER BY id DESC",
        error);
    if (!select)
        return handoff_db_failure(db, NULL);
    if (id)
        bind_job_id(select, 1, id);
    while (code == HANDOFF_OK && handoff_db_row(select)) {
        struct handoff_stored_job row = read_job(select);
        code = count_job_items(db, &row, error);
        if (code == HANDOFF_OK)
            visit(arg, &row);
    }
    const enum handoff_code ended = handoff_db_end(db, select, code == HANDOFF_OK ? error : NULL);
    return code == HANDOFF_OK ? ended : code;
}

enum handoff_code handoff_store_visit_jobs(struct handoff_store *store, const struct base_uuid *id,
                                           void (*visit)(void *arg,
                                                         const struct handoff_stored_job *row),
                                           void *arg, struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = visit_jobs_in(db, id, visit, arg, error);
    handoff_store_reader_done(store, db);
    return code;
}

static enum handoff_code
visit_items_in(struct handoff_db *db, const struct handoff_job_item_filter *filter,
               void (*visit)(void *arg, const struct handoff_stored_job_item *row), void *arg,
               struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT handoff, fate, code, detail FROM job_items WHERE job = ?1 AND handoff > ?2"
        " AND (1 << fate & ?3) != 0 ORDER BY handoff LIMIT ?4",
        error);
    if (!select)
        return handoff_db_failure(db, NULL);
    bind_job_id(select, 1, &filter->id);
    bind_job_id(select, 2, &filter->after);
    sqlite3_bind_int64(select, 3, filter->fates);
    sqlite3_bind_int64(select, 4, (int64_t)filter->limit);
    while (handoff_db_row(select)) {
        const struct handoff_stored_job_item row = {
            .handoff = read_job_id(select, 0),
            .fate = (enum handoff_fate)sqlite3_column_int(select, 1),
            .code = handoff_db_column(select, 2),
            .detail = handoff_db_column(select, 3)};
        visit(arg, &row);
    }
    return handoff_db_end(db, select, error);
}

enum handoff_code
handoff_store_visit_job_items(struct handoff_store *store,
                              const struct handoff_job_item_filter *filter,
                              void (*visit)(void *arg, const struct handoff_stored_job_item *row),
                              void *arg, struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = visit_items_in(db, filter, visit, arg, error);
    handoff_store_reader_done(store, db);
    return code;
}
