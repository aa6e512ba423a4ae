/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes tasks in batches, see task_index.h. Writer thread. */
#include "client/store/sqlite/task_index.h"

static enum handoff_code count_waiting(struct handoff_db *db, int64_t *waiting,
                                       struct handoff_error *error)
{
    return handoff_db_number(db,
                             "SELECT (SELECT coalesce(max(seq), 0) FROM envelopes) - through"
                             " FROM task_indexed",
                             waiting, error);
}

static enum handoff_code index_batch(struct handoff_db *db, struct handoff_error *error)
{
    enum handoff_code code =
        handoff_db_exec(db,
                        "BEGIN IMMEDIATE;"
                        "INSERT INTO task_index SELECT task_id, seq FROM envelopes"
                        " WHERE seq > (SELECT through FROM task_indexed) ORDER BY task_id, seq;"
                        "UPDATE task_indexed SET through = (SELECT max(seq) FROM envelopes);"
                        "COMMIT",
                        error);
    if (code != HANDOFF_OK)
        handoff_db_roll_back(db);
    return code;
}

enum handoff_code handoff_task_index_step(struct handoff_db *db, struct handoff_error *error)
{
    int64_t waiting;
    enum handoff_code code = count_waiting(db, &waiting, error);
    return code == HANDOFF_OK && waiting >= HANDOFF_TASK_INDEX_BATCH ? index_batch(db, error)
                                                                     : code;
}

enum handoff_code handoff_task_index_trim(struct handoff_db *db, struct handoff_error *error)
{
    return handoff_db_exec(db,
                           "UPDATE task_indexed SET through = min(through,"
                           " (SELECT coalesce(max(seq), 0) FROM envelopes))",
                           error);
}
