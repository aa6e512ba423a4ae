/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks and their completion in the store. Writes run on the writer thread, reads on a reader
 * thread.
 */
#include "client/store/tasks.h"

#include "client/store/sqlite/party_rows.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

/* ---- reading -------------------------------------------------------------------------------- */

static enum handoff_code read_task(struct handoff_db *db, struct base_span task_id,
                                   struct handoff_stored_task *task, struct handoff_error *error)
{
    *task = (struct handoff_stored_task){0};
    sqlite3_stmt *select = handoff_db_statement(
        db, "SELECT completed_at, handoffs FROM tasks WHERE task_id = ?1", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, task_id);
    if (handoff_db_row(select)) {
        task->completed_ms = sqlite3_column_int64(select, 0);
        task->handoffs = sqlite3_column_int64(select, 1);
    }
    return handoff_db_end(db, select, error);
}

static enum handoff_code read_task_as(struct handoff_db *db, struct base_span task_id,
                                      struct base_span party, struct handoff_stored_task *task,
                                      struct handoff_error *error)
{
    int64_t handoffs;
    bool is_party = true;
    enum handoff_code code = HANDOFF_OK;
    *task = (struct handoff_stored_task){0};
    if (party.data)
        code = handoff_party_rows_of_task(db, task_id, party, &handoffs, &is_party, error);
    return code == HANDOFF_OK && is_party ? read_task(db, task_id, task, error) : code;
}

enum handoff_code handoff_store_get_task(struct handoff_store *store, struct base_span task_id,
                                         struct base_span party, struct handoff_stored_task *task,
                                         struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = read_task_as(db, task_id, party, task, error);
    handoff_store_reader_done(store, db);
    return code;
}

/* ---- completing ----------------------------------------------------------------------------- */

static enum handoff_code insert_task(struct handoff_db *db,
                                     const struct handoff_store_complete_task *complete,
                                     struct handoff_error *error)
{
    sqlite3_stmt *insert = handoff_db_statement(
        db, "INSERT INTO tasks (task_id, completed_at, handoffs) VALUES (?1, ?2, ?3)", error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(insert, 1, complete->task_id);
    sqlite3_bind_int64(insert, 2, complete->task.completed_ms);
    sqlite3_bind_int64(insert, 3, complete->task.handoffs);
    return handoff_db_do(db, insert, error);
}

/* The count and the row in one transaction of the only writer, so no handoff comes between. */
static enum handoff_code run_complete(struct handoff_store_job *job, struct handoff_db *db,
                                      struct handoff_error *error)
{
    struct handoff_store_complete_task *complete = (void *)job;
    int64_t handoffs;
    bool is_party;
    enum handoff_code code = handoff_party_rows_of_task(db, complete->task_id, complete->agent,
                                                        &handoffs, &is_party, error);
    if (code == HANDOFF_OK && !is_party) /* to others it reads as if there were no such task */
        code = handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "this task has no handoffs",
                                 "task_id", complete->task_id.data);
    if (code == HANDOFF_OK)
        code = read_task(db, complete->task_id, &complete->task, error);
    complete->repeated = complete->task.completed_ms != 0;
    if (code != HANDOFF_OK || complete->repeated)
        return code;
    complete->task = (struct handoff_stored_task){complete->now_ms, handoffs};
    return insert_task(db, complete, error);
}

void handoff_store_complete_task(struct handoff_store *store,
                                 struct handoff_store_complete_task *complete)
{
    BASE_CHECK(complete->task_id.data != NULL && complete->now_ms != 0);
    complete->job.run = run_complete;
    handoff_store_submit(store, &complete->job);
}
