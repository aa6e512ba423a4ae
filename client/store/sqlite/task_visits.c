/* SPDX-License-Identifier: Apache-2.0 */
/* Visits the tasks of the store, see task_visits.h. On the thread that opens the client. */
#include "client/store/task_visits.h"

#include "client/store/sqlite/database.h"
#include "client/store/sqlite/store_internal.h"

static enum handoff_code visit_handoffs(struct handoff_db *db,
                                        const struct handoff_task_visitor *visitor,
                                        struct handoff_error *error)
{
    sqlite3_stmt *select =
        handoff_db_statement(db,
                             "SELECT e.task_id, h.state, h.settled_at FROM handoffs h"
                             " JOIN envelopes e ON e.seq = h.seq WHERE h.state IN (4, 5)",
                             error);
    if (!select)
        return handoff_db_failure(db, NULL);
    while (handoff_db_row(select))
        visitor->handoff(visitor->arg, handoff_db_column(select, 0),
                         (enum handoff_state)sqlite3_column_int(select, 1),
                         sqlite3_column_int64(select, 2));
    return handoff_db_end(db, select, error);
}

static enum handoff_code visit_completed(struct handoff_db *db,
                                         const struct handoff_task_visitor *visitor,
                                         struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(
        db, "SELECT task_id, completed_at FROM tasks ORDER BY completed_at", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    while (handoff_db_row(select))
        visitor->completed(visitor->arg, handoff_db_column(select, 0),
                           sqlite3_column_int64(select, 1));
    return handoff_db_end(db, select, error);
}

enum handoff_code handoff_store_visit_tasks(struct handoff_store *store,
                                            const struct handoff_task_visitor *visitor,
                                            struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = visit_handoffs(db, visitor, error);
    if (code == HANDOFF_OK)
        code = visit_completed(db, visitor, error);
    handoff_store_reader_done(store, db);
    return code;
}
