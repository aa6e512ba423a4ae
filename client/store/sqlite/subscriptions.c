/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of subscriptions.h. Writes run on the writer thread, reads on a reader thread or where
 * the store is opened.
 */
#include "client/store/subscriptions.h"

#include <string.h>

#include "client/store/sqlite/database.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

/* ---- writing -------------------------------------------------------------------------------- */

/* A row that is restored counts also what retention took while another one was in its place. The
   job may run twice, and then finds its own. */
static const char replace_subscription[] =
    "INSERT OR REPLACE INTO subscriptions"
    " (channel, receiver, state, at, from_at, position, dropped, newer) VALUES"
    " (?1, ?2, ?3, ?4, ?5, ?6, ?7 + coalesce("
    "   (SELECT iif(at = ?4, max(dropped - ?7, 0), dropped) FROM subscriptions"
    "     WHERE channel = ?1 AND receiver = ?2 AND ?9), 0),"
    "  iif(?8 > 0, ?8, (SELECT coalesce(max(seq), 0) + 1 FROM envelopes)))"
    " RETURNING newer, dropped";

static enum handoff_code put_subscription(struct handoff_db *db,
                                          struct handoff_store_subscribe *change,
                                          struct handoff_error *error)
{
    struct handoff_stored_subscription *row = &change->row;
    sqlite3_stmt *put = handoff_db_statement(db, replace_subscription, error);
    if (!put)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(put, 1, row->channel);
    handoff_db_bind_text(put, 2, row->receiver);
    sqlite3_bind_int(put, 3, (int)row->state);
    sqlite3_bind_int64(put, 4, row->at_ms);
    sqlite3_bind_int64(put, 5, row->from_ms);
    sqlite3_bind_int64(put, 6, row->position);
    sqlite3_bind_int64(put, 7, row->dropped);
    sqlite3_bind_int64(put, 8, row->newer);
    sqlite3_bind_int(put, 9, change->restores);
    if (handoff_db_row(put)) {
        row->newer = sqlite3_column_int64(put, 0);
        change->dropped = sqlite3_column_int64(put, 1);
    }
    return handoff_db_end(db, put, error);
}

static enum handoff_code remove_subscription(struct handoff_db *db,
                                             const struct handoff_stored_subscription *row,
                                             struct handoff_error *error)
{
    sqlite3_stmt *remove = handoff_db_statement(
        db, "DELETE FROM subscriptions WHERE channel = ?1 AND receiver = ?2", error);
    if (!remove)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(remove, 1, row->channel);
    handoff_db_bind_text(remove, 2, row->receiver);
    return handoff_db_do(db, remove, error);
}

static enum handoff_code run_subscribe(struct handoff_store_job *job, struct handoff_db *db,
                                       struct handoff_error *error)
{
    struct handoff_store_subscribe *put = (void *)job;
    return put->row.state == HANDOFF_SUBSCRIPTION_NONE ? remove_subscription(db, &put->row, error)
                                                       : put_subscription(db, put, error);
}

void handoff_store_subscribe(struct handoff_store *store, struct handoff_store_subscribe *put)
{
    put->job.run = run_subscribe;
    handoff_store_submit(store, &put->job);
}

/* A step that is repeated, since its commit failed and was made after all, finds its own end. */
static enum handoff_code run_catch_up(struct handoff_store_job *job, struct handoff_db *db,
                                      struct handoff_error *error)
{
    const struct handoff_store_catch_up *step = (const void *)job;
    sqlite3_stmt *update = handoff_db_statement(
        db,
        "UPDATE subscriptions SET position = max(position, ?3), state = ?4"
        " WHERE channel = ?1 AND receiver = ?2 AND at = ?5 AND state IN (3, ?4)",
        error);
    if (!update)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(update, 1, step->channel);
    handoff_db_bind_text(update, 2, step->receiver);
    sqlite3_bind_int64(update, 3, step->to);
    sqlite3_bind_int(update, 4,
                     step->ends ? HANDOFF_SUBSCRIPTION_CURRENT : HANDOFF_SUBSCRIPTION_CATCHING_UP);
    sqlite3_bind_int64(update, 5, step->at_ms);
    enum handoff_code code = handoff_db_do(db, update, error);
    if (code != HANDOFF_OK || sqlite3_changes(db->sqlite) > 0)
        return code;
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT, "the subscription was changed meanwhile",
                             "agent", NULL);
}

void handoff_store_catch_up(struct handoff_store *store, struct handoff_store_catch_up *step)
{
    step->job.run = run_catch_up;
    handoff_store_submit(store, &step->job);
}

/* ---- reading -------------------------------------------------------------------------------- */

static void visit_subscription(sqlite3_stmt *row,
                               void (*visit)(void *arg,
                                             const struct handoff_stored_subscription *row),
                               void *arg)
{
    const struct handoff_stored_subscription found = {
        .channel = handoff_db_column(row, 0),
        .receiver = handoff_db_column(row, 1),
        .state = (enum handoff_subscription_state)sqlite3_column_int(row, 2),
        .at_ms = sqlite3_column_int64(row, 3),
        .from_ms = sqlite3_column_int64(row, 4),
        .position = sqlite3_column_int64(row, 5),
        .dropped = sqlite3_column_int64(row, 6),
        .newer = sqlite3_column_int64(row, 7)};
    visit(arg, &found);
}

enum handoff_code handoff_store_visit_subscriptions(
    struct handoff_store *store,
    void (*visit)(void *arg, const struct handoff_stored_subscription *row), void *arg,
    struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = HANDOFF_ERR_STORE_IO;
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT channel, receiver, state, at, from_at, position, dropped, newer"
        " FROM subscriptions ORDER BY channel, receiver",
        error);
    if (select) {
        while (handoff_db_row(select))
            visit_subscription(select, visit, arg);
        code = handoff_db_end(db, select, error);
    } else {
        code = handoff_db_failure(db, NULL);
    }
    handoff_store_reader_done(store, db);
    return code;
}

/* A body that was removed is the empty TEXT (bodies.h), which no other is equal to. */
static const char select_missed[] =
    "SELECT p.seq, e.id FROM publications p JOIN envelopes e ON e.seq = p.seq"
    " WHERE p.channel = ?1 AND p.seq > ?2 AND (p.at >= ?3 OR p.seq >= ?6) AND p.source <> ?4"
    " AND p.named = 0 AND p.shelf >= 0"
    " AND e.body <> '' AND NOT EXISTS (SELECT 1 FROM channel_deliveries d"
    "  WHERE d.publication = p.seq AND d.receiver = ?4)"
    " AND NOT EXISTS (SELECT 1 FROM channel_received r"
    "  WHERE r.publication = p.seq AND r.receiver = ?4)"
    " ORDER BY p.seq LIMIT ?5";

static void read_missed_row(sqlite3_stmt *row, struct handoff_stored_missed *missed)
{
    const struct base_span id = handoff_db_column(row, 1);
    *missed = (struct handoff_stored_missed){.seq = sqlite3_column_int64(row, 0)};
    if (id.size == sizeof missed->id.bytes)
        memcpy(missed->id.bytes, id.data, id.size);
}

enum handoff_code handoff_store_list_missed(struct handoff_store *store,
                                            const struct handoff_stored_subscription *of,
                                            size_t limit, struct handoff_stored_missed *list,
                                            size_t *count, struct handoff_error *error)
{
    *count = 0;
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = HANDOFF_ERR_STORE_IO;
    sqlite3_stmt *select = handoff_db_statement(db, select_missed, error);
    if (select) {
        handoff_db_bind_text(select, 1, of->channel);
        sqlite3_bind_int64(select, 2, of->position);
        sqlite3_bind_int64(select, 3, of->from_ms);
        handoff_db_bind_text(select, 4, of->receiver);
        sqlite3_bind_int64(select, 5, (int64_t)limit);
        sqlite3_bind_int64(select, 6, of->newer);
        while (*count < limit && handoff_db_row(select))
            read_missed_row(select, &list[(*count)++]);
        code = handoff_db_end(db, select, error);
    } else {
        code = handoff_db_failure(db, NULL);
    }
    handoff_store_reader_done(store, db);
    return code;
}
