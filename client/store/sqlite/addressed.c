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
                                             bool *task_is_listed, struct handoff_error *error)
{
    *other = 0;
    *task_is_listed = false;
    sqlite3_stmt *select = handoff_db_statement(db, find_other, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, task_id);
    sqlite3_bind_int64(select, 2, seq);
    if (handoff_db_row(select)) {
        *other = sqlite3_column_int64(select, 0);
        *task_is_listed = sqlite3_column_int(select, 1) == 1;
    }
    return handoff_db_end(db, select, error);
}

static enum handoff_code do_for_envelope(struct handoff_db *db, const char *text, int64_t seq,
                                         struct handoff_error *error)
{
    sqlite3_stmt *statement = handoff_db_statement(db, text, error);
    if (!statement)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(statement, 1, seq);
    return handoff_db_do(db, statement, error);
}

static enum handoff_code ask_of_envelope(struct handoff_db *db, const char *text, int64_t seq,
                                         int64_t *answer, struct handoff_error *error)
{
    *answer = 0;
    sqlite3_stmt *select = handoff_db_statement(db, text, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    if (handoff_db_row(select))
        *answer = sqlite3_column_int64(select, 0);
    return handoff_db_end(db, select, error);
}

static const char list_one[] = "INSERT OR IGNORE INTO addressed (task_id, agent, open, seq)"
                               " SELECT task_id, agent, open, seq FROM addresses WHERE seq = ?1";

static const char is_listed[] = "SELECT 1 FROM addressed WHERE seq = ?1 LIMIT 1";

/* The publication that it is, or is a delivery of. */
static const char find_publication[] =
    "SELECT coalesce((SELECT publication FROM channel_deliveries WHERE seq = ?1),"
    " (SELECT seq FROM publications WHERE seq = ?1))";

/* One after the other, since SQLite would make the whole view for all. */
static enum handoff_code list_deliveries(struct handoff_db *db, int64_t publication,
                                         struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *select = handoff_db_statement(
        db, "SELECT seq FROM channel_deliveries WHERE publication = ?1", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, publication);
    while (code == HANDOFF_OK && handoff_db_row(select))
        code = do_for_envelope(db, list_one, sqlite3_column_int64(select, 0), error);
    enum handoff_code end = handoff_db_end(db, select, code == HANDOFF_OK ? error : NULL);
    return code == HANDOFF_OK ? end : code;
}

/* All that a task has which is not listed. */
static enum handoff_code list_first(struct handoff_db *db, int64_t seq, struct handoff_error *error)
{
    int64_t publication;
    enum handoff_code code = ask_of_envelope(db, find_publication, seq, &publication, error);
    if (code != HANDOFF_OK || publication == 0)
        return code == HANDOFF_OK ? do_for_envelope(db, list_one, seq, error) : code;
    code = do_for_envelope(db, list_one, publication, error);
    return code == HANDOFF_OK ? list_deliveries(db, publication, error) : code;
}

static enum handoff_code list_new(struct handoff_db *db, int64_t seq, struct base_span task_id,
                                  const struct handoff_addressees *to, struct handoff_error *error)
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

/* Where its task is listed already. */
static enum handoff_code list_delivery(struct handoff_db *db, int64_t seq, struct base_span task_id,
                                       const struct handoff_addressees *to,
                                       struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(
        db, "SELECT 1 FROM addressed WHERE task_id = ?1 AND agent = '' AND open = 0 LIMIT 1",
        error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, task_id);
    const bool listed = handoff_db_row(select);
    enum handoff_code code = handoff_db_end(db, select, error);
    return code == HANDOFF_OK && listed ? list_new(db, seq, task_id, to, error) : code;
}

enum handoff_code handoff_addressed_add(struct handoff_db *db, int64_t seq,
                                        struct base_span task_id,
                                        const struct handoff_addressees *to,
                                        struct handoff_error *error)
{
    int64_t other;
    bool task_is_listed;
    if (to && to->of_publication)
        return list_delivery(db, seq, task_id, to, error);
    enum handoff_code code = find_other_envelope(db, seq, task_id, &other, &task_is_listed, error);
    if (code != HANDOFF_OK || other == 0)
        return code;
    if (!task_is_listed)
        code = list_first(db, other, error);
    if (code != HANDOFF_OK)
        return code;
    return to ? list_new(db, seq, task_id, to, error) : do_for_envelope(db, list_one, seq, error);
}

enum handoff_code handoff_addressed_leave(struct handoff_db *db, int64_t seq,
                                          struct handoff_error *error)
{
    int64_t listed;
    enum handoff_code code = ask_of_envelope(db, is_listed, seq, &listed, error);
    return code == HANDOFF_OK && !listed ? list_first(db, seq, error) : code;
}

enum handoff_code handoff_addressed_anew(struct handoff_db *db, int64_t seq,
                                         struct handoff_error *error)
{
    int64_t listed;
    enum handoff_code code = ask_of_envelope(db, is_listed, seq, &listed, error);
    return code == HANDOFF_OK && listed
               ? do_for_envelope(db, "INSERT INTO address_anew VALUES (?1)", seq, error)
               : code;
}

/* ---- checking ---------------------------------------------------------------------------------
 */

/* `envelopes`: which of those that a task has make it one to be listed. */
#define COUNT_WRONG(envelopes)                                                                     \
    "WITH is_now AS (SELECT task_id, agent, open, seq FROM addressed),"                            \
    " shall_be AS (SELECT task_id, agent, open, seq FROM addresses WHERE task_id IN"               \
    "  (SELECT task_id FROM is_now UNION"                                                          \
    "   SELECT task_id FROM task_envelopes" envelopes " GROUP BY task_id HAVING count(*) > 1))"    \
    " SELECT (SELECT count(*) FROM (SELECT * FROM is_now EXCEPT SELECT * FROM shall_be))"          \
    " + (SELECT count(*) FROM (SELECT * FROM shall_be EXCEPT SELECT * FROM is_now))"

static const char count_wrong[] =
    COUNT_WRONG(" WHERE seq NOT IN (SELECT seq FROM channel_deliveries)");
static const char count_wrong_without_channels[] = COUNT_WRONG("");

enum handoff_code handoff_addressed_count_wrong(struct handoff_db *db, bool has_channels,
                                                int64_t *wrong, struct handoff_error *error)
{
    return handoff_db_number(db, has_channels ? count_wrong : count_wrong_without_channels, wrong,
                             error);
}
