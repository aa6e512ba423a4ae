/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions in the store, see decisions.h. Written on the writer thread, with the move or the
 * handoff that they brought about; read on a reader thread.
 */
#include "client/store/sqlite/decision_rows.h"

#include <string.h>

#include "client/model/model.h"

enum {
    DECISIONS_MAX = 1000000, /* about 300 MB: an agent may cancel what it sends, without end */
    RETAIN_STEP = 256,       /* well under a millisecond */
};

/* ---- writing -------------------------------------------------------------------------------- */

static void bind_said(sqlite3_stmt *statement, int at, struct base_span text)
{
    handoff_db_bind_text(statement, at, text.data ? text : base_span("", 0));
}

static bool names_nothing(const struct base_uuid *id)
{
    static const struct base_uuid nil;
    return memcmp(id, &nil, sizeof nil) == 0;
}

/* Nil is NULL. */
static void bind_known_id(sqlite3_stmt *statement, int at, const struct base_uuid *id)
{
    if (!names_nothing(id))
        sqlite3_bind_blob(statement, at, id->bytes, sizeof id->bytes, SQLITE_STATIC);
}

/* The item of the bulk job that it belongs to. */
static enum handoff_code mark_item(struct handoff_db *db,
                                   const struct handoff_stored_decision *decision,
                                   struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db,
        "UPDATE job_items SET fate = ?3, code = '', detail = '' WHERE job = ?1 AND handoff = ?2",
        error);
    if (!update)
        return handoff_db_failure(db, NULL);
    bind_known_id(update, 1, &decision->job);
    bind_known_id(update, 2, &decision->handoff);
    sqlite3_bind_int(update, 3, HANDOFF_FATE_SUCCEEDED);
    return handoff_db_do(db, update, error);
}

static enum handoff_code insert_decision(struct handoff_db *db,
                                         const struct handoff_stored_decision *decision,
                                         struct handoff_error *error)
{
    /* or ignore: it comes once more where a commit failed that was made after all */
    sqlite3_stmt *insert = handoff_db_statement(
        db,
        "INSERT OR IGNORE INTO decisions (handoff, at, action, who, said_by, reason, task_id,"
        " source, target, sent_to, cause, fields, replacement, job)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    bind_known_id(insert, 1, &decision->handoff);
    sqlite3_bind_int64(insert, 2, decision->at_ms);
    sqlite3_bind_int(insert, 3, (int)decision->action);
    bind_said(insert, 4, decision->who);
    bind_said(insert, 5, decision->by);
    bind_said(insert, 6, decision->reason);
    bind_said(insert, 7, decision->task_id);
    bind_said(insert, 8, decision->source);
    bind_said(insert, 9, decision->target);
    bind_said(insert, 10, decision->to);
    bind_said(insert, 11, decision->cause);
    bind_said(insert, 12, decision->fields);
    bind_known_id(insert, 13, &decision->replacement);
    bind_known_id(insert, 14, &decision->job);
    return handoff_db_do(db, insert, error);
}

enum handoff_code handoff_decision_insert(struct handoff_db *db,
                                          const struct handoff_stored_decision *decision,
                                          struct handoff_error *error)
{
    enum handoff_code code = insert_decision(db, decision, error);
    return code == HANDOFF_OK && !names_nothing(&decision->job) ? mark_item(db, decision, error)
                                                                : code;
}

enum handoff_code handoff_decisions_retain(struct handoff_db *db, int64_t cutoff_ms,
                                           struct handoff_error *error)
{
    sqlite3_stmt *remove = handoff_db_statement(
        db,
        "DELETE FROM decisions WHERE number < (SELECT min(number) FROM decisions) + ?3"
        " AND (at < ?1 OR number <= (SELECT max(number) FROM decisions) - ?2)",
        error);
    if (!remove)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(remove, 1, cutoff_ms);
    sqlite3_bind_int64(remove, 2, DECISIONS_MAX);
    sqlite3_bind_int64(remove, 3, RETAIN_STEP);
    return handoff_db_do(db, remove, error);
}

/* ---- reading -------------------------------------------------------------------------------- */

#define DECISIONS_WHERE(condition)                                                                 \
    "SELECT number, handoff, at, action, who, said_by, reason, task_id, source, target, sent_to,"  \
    " cause, fields, replacement, job FROM decisions WHERE " condition                             \
    " AND (1 << action & ?4) != 0 AND (?5 IS NULL OR who = ?5) AND (?6 IS NULL OR said_by = ?6)"   \
    " AND (?7 IS NULL OR target = ?7) AND at >= ?8 AND (?9 = 0 OR at < ?9)"                        \
    " AND (?1 IS NULL OR handoff = ?1) AND (?2 IS NULL OR job = ?2)"                               \
    " AND (?3 IS NULL OR task_id = ?3)"
#define OLDEST_FIRST " AND number > ?10 ORDER BY number LIMIT ?11"
#define NEWEST_FIRST " AND (?10 = 0 OR number < ?10) ORDER BY number DESC LIMIT ?11"

/* The condition that an index answers is a statement's own. */
static const char *select_decisions(const struct handoff_decision_filter *filter)
{
    const bool oldest = filter->oldest_first;
    if (!names_nothing(&filter->handoff))
        return oldest ? DECISIONS_WHERE("handoff = ?1") OLDEST_FIRST
                      : DECISIONS_WHERE("handoff = ?1") NEWEST_FIRST;
    if (!names_nothing(&filter->job))
        return oldest ? DECISIONS_WHERE("job = ?2") OLDEST_FIRST
                      : DECISIONS_WHERE("job = ?2") NEWEST_FIRST;
    if (filter->task_id.data)
        return oldest ? DECISIONS_WHERE("task_id = ?3") OLDEST_FIRST
                      : DECISIONS_WHERE("task_id = ?3") NEWEST_FIRST;
    return oldest ? DECISIONS_WHERE("1") OLDEST_FIRST : DECISIONS_WHERE("1") NEWEST_FIRST;
}

static void bind_filter(sqlite3_stmt *select, const struct handoff_decision_filter *filter)
{
    bind_known_id(select, 1, &filter->handoff);
    bind_known_id(select, 2, &filter->job);
    handoff_db_bind_text(select, 3, filter->task_id);
    sqlite3_bind_int64(select, 4, filter->actions);
    handoff_db_bind_text(select, 5, filter->who);
    handoff_db_bind_text(select, 6, filter->by);
    handoff_db_bind_text(select, 7, filter->target);
    sqlite3_bind_int64(select, 8, filter->since_ms);
    sqlite3_bind_int64(select, 9, filter->until_ms);
    sqlite3_bind_int64(select, 10, filter->beyond);
    sqlite3_bind_int64(select, 11, (int64_t)filter->limit);
}

/* NULL is nil. */
static struct base_uuid known_id(sqlite3_stmt *row, int at)
{
    struct base_uuid id = {0};
    struct base_span found = handoff_db_column(row, at);
    if (found.size == sizeof id.bytes)
        memcpy(id.bytes, found.data, found.size);
    return id;
}

static struct handoff_stored_decision read_decision(sqlite3_stmt *row)
{
    return (struct handoff_stored_decision){
        .number = sqlite3_column_int64(row, 0),
        .handoff = known_id(row, 1),
        .at_ms = sqlite3_column_int64(row, 2),
        .action = (enum handoff_action)sqlite3_column_int(row, 3),
        .who = handoff_db_column(row, 4),
        .by = handoff_db_column(row, 5),
        .reason = handoff_db_column(row, 6),
        .task_id = handoff_db_column(row, 7),
        .source = handoff_db_column(row, 8),
        .target = handoff_db_column(row, 9),
        .to = handoff_db_column(row, 10),
        .cause = handoff_db_column(row, 11),
        .fields = handoff_db_column(row, 12),
        .replacement = known_id(row, 13),
        .job = known_id(row, 14),
    };
}

static enum handoff_code
visit_decisions(struct handoff_db *db, const struct handoff_decision_filter *filter,
                void (*visit)(void *arg, const struct handoff_stored_decision *row), void *arg,
                struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, select_decisions(filter), error);
    if (!select)
        return handoff_db_failure(db, NULL);
    bind_filter(select, filter);
    while (handoff_db_row(select)) {
        const struct handoff_stored_decision row = read_decision(select);
        visit(arg, &row);
    }
    return handoff_db_end(db, select, error);
}

enum handoff_code
handoff_store_visit_decisions(struct handoff_store *store,
                              const struct handoff_decision_filter *filter,
                              void (*visit)(void *arg, const struct handoff_stored_decision *row),
                              void *arg, struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = visit_decisions(db, filter, visit, arg, error);
    handoff_store_reader_done(store, db);
    return code;
}
