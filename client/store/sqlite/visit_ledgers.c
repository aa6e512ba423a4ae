/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives every envelope with its ledger, for a check from outside; ledger.h has the rules. Each is
 * read in a transaction of its own, so that a daemon beside it can go on checkpointing.
 *
 * On the caller's thread, which may block; handoffctl runs it.
 */
#include "client/store/sqlite/data_dir.h"
#include "client/store/sqlite/delivery_rows.h"
#include "client/store/sqlite/envelope_row.h"
#include "client/store/sqlite/ledger_rows.h"
#include "client/store/sqlite/migrate.h"
#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* Of the first envelope behind a number; 0: there is none. A delivery of a publication is passed
 * over: its envelope is the publication's. */
static enum handoff_code find_kept(struct handoff_db *db, struct base_span task_id, int64_t *seq,
                                   bool *has_contribution, struct handoff_error *error)
{
    sqlite3_stmt *next =
        handoff_db_statement(db,
                             "SELECT e.seq, c.text IS NOT NULL AND c.form = 0"
                             " FROM envelopes e LEFT JOIN contributions c"
                             " ON c.seq = e.seq WHERE e.seq > ?1"
                             " AND NOT (" HANDOFF_ROW_SHARES_BODY(
                                 "e") ")"
                                      " AND (?2 IS NULL OR e.seq IN"
                                      " (SELECT seq FROM task_envelopes WHERE task_id = ?2))"
                                      " ORDER BY e.seq LIMIT 1",
                             error);
    if (!next)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(next, 1, *seq);
    handoff_db_bind_text(next, 2, task_id);
    const bool found = handoff_db_row(next);
    *seq = found ? sqlite3_column_int64(next, 0) : 0;
    *has_contribution = found && sqlite3_column_int(next, 1) == 1;
    return handoff_db_end(db, next, error);
}

static enum handoff_code chain_is_as_written(struct handoff_db *db, int64_t seq, bool *is,
                                             struct handoff_error *error)
{
    sqlite3_stmt *find =
        handoff_db_statement(db,
                             "WITH RECURSIVE up(seq) AS (SELECT ?1"
                             " UNION SELECT l.parent FROM up JOIN lineage l ON l.child = up.seq)"
                             " SELECT 1 FROM up JOIN contributions c ON c.seq = up.seq"
                             " WHERE c.replaced_by IS NOT NULL OR c.text IS NULL OR c.form <> 0"
                             " LIMIT 1",
                             error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(find, 1, seq);
    *is = !handoff_db_row(find);
    return handoff_db_end(db, find, error);
}

static enum handoff_code read_kept(struct handoff_db *db, int64_t seq, struct base_arena *arena,
                                   struct handoff_kept_ledger *kept, struct handoff_error *error)
{
    enum handoff_code code = handoff_envelope_look_up_seq(db, seq, arena, &kept->envelope, error);
    if (code == HANDOFF_OK)
        code = chain_is_as_written(db, seq, &kept->is_as_written, error);
    if (code == HANDOFF_OK && kept->has_contribution)
        code = handoff_ledger_rows_read(db, &kept->envelope.id, 1, arena, &kept->list, &kept->count,
                                        error);
    return code;
}

/* Sets *seq to 0 at the end. */
static enum handoff_code read_next_kept(struct handoff_db *db, struct base_span task_id,
                                        int64_t *seq, struct base_arena *arena,
                                        struct handoff_kept_ledger *kept,
                                        struct handoff_error *error)
{
    *kept = (struct handoff_kept_ledger){0};
    enum handoff_code code = handoff_db_exec(db, "BEGIN", error);
    if (code == HANDOFF_OK)
        code = find_kept(db, task_id, seq, &kept->has_contribution, error);
    if (code == HANDOFF_OK && *seq != 0) {
        code = kept->found = read_kept(db, *seq, arena, kept, error);
        if (code == HANDOFF_ERR_ENVELOPE_REMOVED || code == HANDOFF_ERR_STORE_CORRUPT)
            code = handoff_error_clear(error);
    }
    handoff_db_roll_back(db);
    return code;
}

static enum handoff_code
visit_all(struct handoff_db *db, struct base_span task_id,
          enum handoff_code (*visit)(void *, const struct handoff_kept_ledger *,
                                     struct base_arena *, struct handoff_error *),
          void *context, struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_kept_ledger kept;
    int64_t seq = 0;
    enum handoff_code code;
    base_arena_init(&arena, 0);
    do {
        base_arena_reset(&arena);
        code = read_next_kept(db, task_id, &seq, &arena, &kept, error);
        if (code == HANDOFF_OK && seq != 0)
            code = visit(context, &kept, &arena, error);
    } while (code == HANDOFF_OK && seq != 0);
    base_arena_free(&arena);
    return code;
}

enum handoff_code handoff_store_visit_ledgers(
    const char *path, struct base_span task_id,
    enum handoff_code (*visit)(void *context, const struct handoff_kept_ledger *kept,
                               struct base_arena *arena, struct handoff_error *error),
    void *context, struct handoff_error *error)
{
    struct handoff_db db = {0};
    char *database;
    int version = 0;
    enum handoff_code code = handoff_data_dir_find_database(path, &database, error);
    if (code == HANDOFF_OK)
        code = handoff_db_open(&db, database, HANDOFF_DB_READ, NULL, error);
    if (code == HANDOFF_OK)
        code = handoff_migrate_version(&db, &version, error);
    if (code == HANDOFF_OK && version >= HANDOFF_SCHEMA_LEDGER)
        code = visit_all(&db, task_id, visit, context, error);
    handoff_db_close(&db);
    base_free(database);
    return code;
}
