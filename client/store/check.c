/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking a store from outside, beside a daemon or without one. SQLite's integrity_check knows the
 * structure (pages, B-trees, indexes) and nothing of the content, so every envelope is read and
 * compared with its digest, and the full-text index is counted against its table.
 */
#include <stdio.h>
#include <string.h>

#include "client/base/error.h"
#include "client/base/memory.h"
#include "client/store/database.h"
#include "client/store/envelope_row.h"
#include "client/store/migrate.h"
#include "client/store/place.h"
#include "client/store/retention.h"

enum { SCHEMA_WITH_MEMORIES = 3 }; /* the step of migrate.c that made them */

static void note(struct handoff_store_report *report, const char *what, const char *which)
{
    if (report->problems++ == 0)
        snprintf(report->problem, sizeof report->problem, "%s%s", what, which);
}

/* ---- structure ----------------------------------------------------------------------------- */

static enum handoff_code check_structure(struct handoff_db *db, struct handoff_store_report *report,
                                         struct handoff_error *error)
{
    sqlite3_stmt *check = handoff_db_statement(db, "PRAGMA integrity_check", error);
    if (!check)
        return handoff_db_failure(db, NULL);
    while (handoff_db_row(check)) {
        const char *line = (const char *)sqlite3_column_text(check, 0);
        if (!line || strcmp(line, "ok") != 0)
            note(report, "", line ? line : "no memory");
    }
    return handoff_db_end(db, check, error);
}

/* ---- envelopes ------------------------------------------------------------------------------ */

static bool row_intact(sqlite3_stmt *row)
{
    struct handoff_span digest = handoff_db_column(row, 1), body = handoff_db_column(row, 4);
    return digest.size == HANDOFF_SHA256_BYTES && body.data &&
           handoff_envelope_intact(body, sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3),
                                   (const uint8_t *)digest.data);
}

static void note_envelope(struct handoff_store_report *report, struct handoff_span id)
{
    struct handoff_uuid uuid;
    char text[HANDOFF_UUID_TEXT] = "(its id is damaged too)";
    if (id.size == sizeof uuid.bytes) {
        memcpy(uuid.bytes, id.data, id.size);
        handoff_uuid_format(&uuid, text);
    }
    note(report, "an envelope does not match its digest: ", text);
}

static enum handoff_code check_envelopes(struct handoff_db *db, struct handoff_store_report *report,
                                         struct handoff_error *error)
{
    sqlite3_stmt *all = handoff_db_statement(
        db, "SELECT id, digest, cut_at, cut_size, body FROM envelopes ORDER BY seq", error);
    if (!all)
        return handoff_db_failure(db, NULL);
    for (; handoff_db_row(all); report->envelopes++)
        if (!row_intact(all))
            note_envelope(report, handoff_db_column(all, 0));
    return handoff_db_end(db, all, error);
}

/* ---- memories ------------------------------------------------------------------------------- */

static enum handoff_code check_memories(struct handoff_db *db, struct handoff_store_report *report,
                                        struct handoff_error *error)
{
    int64_t unindexed = 0, stray = 0;
    enum handoff_code code =
        handoff_db_number(db, "SELECT count(*) FROM memories", &report->memories, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db,
                                 "SELECT count(*) FROM memories WHERE seq NOT IN"
                                 " (SELECT id FROM memories_text_docsize)",
                                 &unindexed, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db,
                                 "SELECT count(*) FROM memories_text_docsize WHERE id NOT IN"
                                 " (SELECT seq FROM memories)",
                                 &stray, error);
    if (unindexed > 0)
        note(report, "a memory is missing from the full-text index", "");
    if (stray > 0)
        note(report, "the full-text index names a memory that is not there", "");
    return code;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum handoff_code check_all(struct handoff_db *db, struct handoff_store_report *report,
                                   struct handoff_error *error)
{
    enum handoff_code code = handoff_db_exec(db, "BEGIN", error); /* one state of a moving store */
    if (code == HANDOFF_OK)
        code = handoff_migrate_version(db, &report->version, error);
    if (code == HANDOFF_OK)
        code = check_structure(db, report, error);
    if (code == HANDOFF_OK && report->version >= 1)
        code = check_envelopes(db, report, error);
    if (code == HANDOFF_OK && report->version >= SCHEMA_WITH_MEMORIES)
        code = check_memories(db, report, error);
    if (code == HANDOFF_OK)
        code = handoff_retention_bytes(db, &report->bytes, error);
    if (!sqlite3_get_autocommit(db->sqlite))
        sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

enum handoff_code handoff_store_check(const char *path, struct handoff_store_report *report,
                                      struct handoff_error *error)
{
    struct handoff_db db = {0};
    char *database;
    memset(report, 0, sizeof *report);
    enum handoff_code code = handoff_place_find(path, &database, error);
    if (code == HANDOFF_OK)
        code = handoff_db_open(&db, database, HANDOFF_DB_READ, NULL, error);
    if (code == HANDOFF_OK)
        code = check_all(&db, report, error);
    handoff_db_close(&db);
    handoff_free(database);
    return code;
}
