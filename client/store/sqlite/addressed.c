/* SPDX-License-Identifier: Apache-2.0 */
/* Lists which agents were addressed in a task, see addressed.h. Writer thread; the count of what is
 * wrong on the thread that checks a store. */
#include "client/store/sqlite/addressed.h"

/* The task's first envelope, where another than ?2 has it; whether the task is listed. One that is
   not has no more than one other, which is most often what ?2 continues or delivers: then the
   envelopes that wait for the index of tasks are not looked through. */
static const char find_other[] =
    "SELECT coalesce(listed, (SELECT e.seq FROM lineage l JOIN envelopes e ON e.seq = l.parent"
    "  WHERE l.child = ?2 AND e.task_id = ?1 LIMIT 1),"
    " (SELECT min(seq) FROM task_envelopes WHERE task_id = ?1 AND seq <> ?2)),"
    " listed IS NOT NULL FROM (SELECT"
    " (SELECT seq FROM addressed WHERE task_id = ?1 AND agent = '' AND open = 0 LIMIT 1)"
    " AS listed)";

static enum handoff_code find_other_envelope(struct handoff_db *db, int64_t seq,
                                             struct base_span task_id, int64_t *other,
                                             bool *is_listed, struct handoff_error *error)
{
    *other = 0;
    *is_listed = false;
    sqlite3_stmt *select = handoff_db_statement(db, find_other, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, task_id);
    sqlite3_bind_int64(select, 2, seq);
    if (handoff_db_row(select)) {
        *other = sqlite3_column_int64(select, 0);
        *is_listed = sqlite3_column_int(select, 1) == 1;
    }
    return handoff_db_end(db, select, error);
}

static enum handoff_code list_envelope(struct handoff_db *db, int64_t seq,
                                       struct handoff_error *error)
{
    sqlite3_stmt *insert =
        handoff_db_statement(db,
                             "INSERT OR IGNORE INTO addressed (task_id, agent, open, seq)"
                             " SELECT task_id, agent, open, seq FROM addresses WHERE seq = ?1",
                             error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(insert, 1, seq);
    return handoff_db_do(db, insert, error);
}

enum handoff_code handoff_addressed_begin(struct handoff_db *db, int64_t seq,
                                          struct base_span task_id,
                                          const struct handoff_addressees *to,
                                          struct handoff_error *error)
{
    sqlite3_stmt *insert =
        handoff_db_statement(db,
                             "INSERT OR IGNORE INTO addressed (task_id, agent, open, seq)"
                             " VALUES (?1, '', 0, ?2), (?1, ?3, 1, ?2), (?1, ?4, 1, ?2)",
                             error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(insert, 1, task_id);
    sqlite3_bind_int64(insert, 2, seq);
    handoff_db_bind_text(insert, 3, to->asked);
    handoff_db_bind_text(insert, 4, to->given);
    return handoff_db_do(db, insert, error);
}

enum handoff_code handoff_addressed_add(struct handoff_db *db, int64_t seq,
                                        struct base_span task_id,
                                        const struct handoff_addressees *to,
                                        struct handoff_error *error)
{
    int64_t other;
    bool is_listed;
    enum handoff_code code = find_other_envelope(db, seq, task_id, &other, &is_listed, error);
    if (code != HANDOFF_OK || other == 0)
        return code;
    if (!is_listed)
        code = list_envelope(db, other, error);
    if (code != HANDOFF_OK)
        return code;
    return to ? handoff_addressed_begin(db, seq, task_id, to, error)
              : list_envelope(db, seq, error);
}

static enum handoff_code is_envelope_listed(struct handoff_db *db, int64_t seq, bool *listed,
                                            struct handoff_error *error)
{
    *listed = false;
    sqlite3_stmt *select =
        handoff_db_statement(db, "SELECT 1 FROM addressed WHERE seq = ?1 LIMIT 1", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    *listed = handoff_db_row(select);
    return handoff_db_end(db, select, error);
}

enum handoff_code handoff_addressed_anew(struct handoff_db *db, int64_t seq,
                                         struct handoff_error *error)
{
    bool listed;
    enum handoff_code code = is_envelope_listed(db, seq, &listed, error);
    if (code != HANDOFF_OK || !listed)
        return code;
    sqlite3_stmt *insert = handoff_db_statement(db, "INSERT INTO address_anew VALUES (?1)", error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(insert, 1, seq);
    return handoff_db_do(db, insert, error);
}

/* ---- checking ---------------------------------------------------------------------------------
 */

static const char count_wrong[] =
    "WITH is_now AS (SELECT task_id, agent, open, seq FROM addressed),"
    " shall_be AS (SELECT task_id, agent, open, seq FROM addresses WHERE task_id IN"
    "  (SELECT task_id FROM is_now UNION"
    "   SELECT task_id FROM task_envelopes GROUP BY task_id HAVING count(*) > 1))"
    " SELECT (SELECT count(*) FROM (SELECT * FROM is_now EXCEPT SELECT * FROM shall_be))"
    " + (SELECT count(*) FROM (SELECT * FROM shall_be EXCEPT SELECT * FROM is_now))";

enum handoff_code handoff_addressed_count_wrong(struct handoff_db *db, int64_t *wrong,
                                                struct handoff_error *error)
{
    return handoff_db_number(db, count_wrong, wrong, error);
}
