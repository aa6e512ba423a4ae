/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is a party to what, by the rows of handoffs; parties.h has the rule. On a reader thread, and
 * on the writer's for the end of a task.
 */
#include "client/store/parties.h"

#include <string.h>

#include "client/store/sqlite/contribution_rows.h"
#include "client/store/sqlite/party_rows.h"

/* min() makes `source` that of the first: SQLite takes bare columns from its row. */
static const char select_of_task[] =
    "SELECT total(is_kept), min(seq), ?2 IS NULL OR source = ?2 OR total(was_sent) > 0 FROM"
    " (SELECT h.seq AS seq, h.source AS source, 1 AS is_kept,"
    " ?2 IS NOT NULL AND " HANDOFF_ROW_WAS_SENT_TO(
        "?2") " AS was_sent FROM task_envelopes t JOIN handoffs h ON h.seq = t.seq"
              " WHERE t.task_id = ?1 UNION ALL"
              " SELECT seq, source, 0, ?2 IN (target, coalesce(asked_target, target))"
              " FROM contributions WHERE task_id = ?1 AND handed_off = 1)";

/* An envelope that was never handed off has no such row; its contribution names two. Of one that
   was published, the parties to its deliveries are parties. */
static const char select_of_envelope[] = "SELECT " HANDOFF_ROW_CONCERNS(
    "?2") " OR ?2 IN (c.source, c.target, c.asked_target) OR EXISTS"
          " (SELECT 1 FROM channel_deliveries d JOIN handoffs dh ON"
          " dh.seq = d.seq WHERE d.publication = f.seq"
          " AND ?2 IN (d.receiver, dh.target)) FROM"
          " (SELECT " HANDOFF_SEQ_OF_ID("?1") " AS seq) f"
                                              " LEFT JOIN handoffs h ON h.seq = f.seq"
                                              " LEFT JOIN contributions c ON c.seq = f.seq";

enum handoff_code handoff_party_rows_of_task(struct handoff_db *db, struct base_span task_id,
                                             struct base_span agent, int64_t *handoffs,
                                             bool *is_party, struct handoff_error *error)
{
    *handoffs = 0;
    *is_party = false;
    sqlite3_stmt *select = handoff_db_statement(db, select_of_task, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, task_id);
    handoff_db_bind_text(select, 2, agent);
    if (handoff_db_row(select)) {
        *handoffs = sqlite3_column_int64(select, 0);
        *is_party =
            sqlite3_column_type(select, 1) != SQLITE_NULL && sqlite3_column_int(select, 2) == 1;
    }
    return handoff_db_end(db, select, error);
}

static enum handoff_code find_party(struct handoff_db *db, const struct base_uuid *id,
                                    struct base_span agent, bool *is_party,
                                    struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, select_of_envelope, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(select, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    handoff_db_bind_text(select, 2, agent);
    *is_party = handoff_db_row(select) && sqlite3_column_int(select, 0) == 1;
    return handoff_db_end(db, select, error);
}

enum handoff_code handoff_store_is_party(struct handoff_store *store, const struct base_uuid *id,
                                         struct base_span agent, bool *is_party,
                                         struct handoff_error *error)
{
    *is_party = false;
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = find_party(db, id, agent, is_party, error);
    handoff_store_reader_done(store, db);
    return code;
}

static enum handoff_code find_first(struct handoff_db *db, struct base_span task_id,
                                    struct handoff_task_standing *standing,
                                    struct handoff_error *error)
{
    sqlite3_stmt *select =
        handoff_db_statement(db,
                             "SELECT e.id, h.seq IS NULL FROM envelopes e"
                             " LEFT JOIN handoffs h ON h.seq = e.seq WHERE e.seq ="
                             " (SELECT min(seq) FROM task_envelopes WHERE task_id = ?1)",
                             error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, task_id);
    if (handoff_db_row(select)) {
        struct base_span id = handoff_db_column(select, 0);
        standing->exists = true;
        standing->begun_without_handoff = sqlite3_column_int(select, 1) == 1;
        if (id.size == sizeof standing->first.bytes)
            memcpy(standing->first.bytes, id.data, id.size);
    }
    return handoff_db_end(db, select, error);
}

enum handoff_code handoff_store_task_standing(struct handoff_store *store, struct base_span task_id,
                                              struct base_span agent,
                                              struct handoff_task_standing *standing,
                                              struct handoff_error *error)
{
    int64_t handoffs;
    *standing = (struct handoff_task_standing){0};
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = find_first(db, task_id, standing, error);
    if (code == HANDOFF_OK && standing->exists)
        code =
            handoff_party_rows_of_task(db, task_id, agent, &handoffs, &standing->is_party, error);
    handoff_store_reader_done(store, db);
    return code;
}

/* ---- senders -------------------------------------------------------------------------------- */

static enum handoff_code visit_senders_in(struct handoff_db *db, struct base_span agent,
                                          bool (*visit)(void *arg, struct base_span sender),
                                          void *arg, struct handoff_error *error)
{
    static const char senders[] =
        "SELECT DISTINCT h.source FROM (SELECT seq, source, target, asked_target FROM handoffs"
        " ORDER BY seq DESC LIMIT 100000) h WHERE ?1 IS NULL OR " HANDOFF_ROW_CONCERNS("?1");
    bool goes_on = true;
    sqlite3_stmt *select = handoff_db_statement(db, senders, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, agent);
    while (goes_on && handoff_db_row(select))
        goes_on = visit(arg, handoff_db_column(select, 0));
    return handoff_db_end(db, select, error);
}

enum handoff_code handoff_store_visit_senders(struct handoff_store *store, struct base_span agent,
                                              bool (*visit)(void *arg, struct base_span sender),
                                              void *arg, struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = visit_senders_in(db, agent, visit, arg, error);
    handoff_store_reader_done(store, db);
    return code;
}
