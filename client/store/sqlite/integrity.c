/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking a store from outside, beside a daemon or without one. SQLite's integrity_check knows the
 * structure (pages, B-trees, indexes) and nothing of the content, so every envelope is read and
 * compared with its digest, and the full-text index is counted against its table.
 *
 * On the caller's thread, which may block; handoffctl runs it.
 */
#include <stdio.h>
#include <string.h>

#include "client/model/handoff_model.h"
#include "client/store/sqlite/addressed.h"
#include "client/store/sqlite/body_files.h"
#include "client/store/sqlite/data_dir.h"
#include "client/store/sqlite/database.h"
#include "client/store/sqlite/delivery_rows.h"
#include "client/store/sqlite/envelope_row.h"
#include "client/store/sqlite/migrate.h"
#include "client/store/sqlite/retention.h"
#include "client/store/sqlite/search_files.h"
#include "client/store/sqlite/shelves.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

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
            note(report, "", line ? line : "out of memory");
    }
    return handoff_db_end(db, check, error);
}

/* ---- envelopes ------------------------------------------------------------------------------ */

struct checked {
    int64_t seq;
    struct base_uuid id;
    bool id_whole, intact;
};

static bool intact(sqlite3_stmt *row, struct base_span body)
{
    struct base_span digest = handoff_db_column(row, 2);
    return digest.size == BASE_SHA256_BYTES && body.data &&
           handoff_envelope_intact(body, sqlite3_column_int64(row, 3), sqlite3_column_int64(row, 4),
                                   (const uint8_t *)digest.data);
}

/* A body that cannot be read is not intact; only a lack of memory is a failure of the check. */
static enum handoff_code check_body(struct handoff_db *db, sqlite3_stmt *row, bool *is_intact,
                                    struct handoff_error *error)
{
    struct handoff_body_place place;
    *is_intact = handoff_body_removed_column(row, 5);
    if (*is_intact)
        return HANDOFF_OK;
    if (!handoff_body_place_column(row, 5, &place)) {
        *is_intact = intact(row, handoff_db_column(row, 5));
        return HANDOFF_OK;
    }
    char *body = base_malloc((size_t)place.size + 1);
    if (!body)
        return handoff_error_no_memory(error);
    *is_intact = handoff_body_read(db, &place, body, NULL) == HANDOFF_OK &&
                 intact(row, base_span(body, (size_t)place.size));
    base_free(body);
    return HANDOFF_OK;
}

/* A body that a publication's deliveries share is checked with the publication; a delivery has to
   name it, and its digest. As from a removed body, nothing is read of it here. */
#define BODY_TO_CHECK(row)                                                                         \
    "CASE WHEN " HANDOFF_ROW_SHARES_BODY(                                                          \
        row) " THEN (SELECT '' FROM envelopes shared WHERE shared.digest = " row                   \
             ".digest AND shared.seq = " HANDOFF_ROW_SHARED_SEQ(row) ") ELSE " row ".body END"

/* The first envelope from a number on. */
static enum handoff_code check_next(struct handoff_db *db, int64_t from, struct checked *checked,
                                    bool *found, struct handoff_error *error)
{
    sqlite3_stmt *next =
        handoff_db_statement(db,
                             "SELECT seq, id, digest, cut_at, cut_size, " BODY_TO_CHECK(
                                 "e") " FROM envelopes e WHERE seq >= ?1 ORDER BY seq LIMIT 1",
                             error);
    if (!next)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(next, 1, from);
    enum handoff_code code = HANDOFF_OK;
    *found = handoff_db_row(next);
    if (*found) {
        struct base_span id = handoff_db_column(next, 1);
        checked->seq = sqlite3_column_int64(next, 0);
        checked->id_whole = id.size == sizeof checked->id.bytes;
        if (checked->id_whole)
            memcpy(checked->id.bytes, id.data, id.size);
        code = check_body(db, next, &checked->intact, error);
    }
    enum handoff_code end = handoff_db_end(db, next, code == HANDOFF_OK ? error : NULL);
    return code != HANDOFF_OK ? code : end;
}

static void note_envelope(struct handoff_store_report *report, const struct checked *checked)
{
    char text[BASE_UUID_TEXT] = "(its id is damaged too)";
    if (checked->id_whole)
        base_uuid_format(&checked->id, text);
    note(report, "an envelope does not match its digest: ", text);
}

/* Each in its own snapshot: beside a daemon, retention may take a row, and then the file of
   its body, while we are about to read it. So what is not intact is looked at once more. */
static enum handoff_code check_envelopes(struct handoff_db *db, struct handoff_store_report *report,
                                         struct handoff_error *error)
{
    struct checked checked = {0}, again;
    bool found = true;
    for (enum handoff_code code;;) {
        code = check_next(db, checked.seq + 1, &checked, &found, error);
        if (code == HANDOFF_OK && found && !checked.intact) {
            code = check_next(db, checked.seq, &again, &found, error);
            checked = found ? again : checked;
        }
        if (code != HANDOFF_OK || !found)
            return code;
        report->envelopes++;
        if (!checked.intact)
            note_envelope(report, &checked);
    }
}

/* ---- memories ------------------------------------------------------------------------------- */

static enum handoff_code check_memories(struct handoff_db *db, struct handoff_store_report *report,
                                        struct handoff_error *error)
{
    return handoff_db_number(db, "SELECT count(*) FROM memories", &report->memories, error);
}

/* Each scope has its count, each memory a scope, and a new memory a place that none has. */
static enum handoff_code check_scopes(struct handoff_db *db, struct handoff_store_report *report,
                                      struct handoff_error *error)
{
    int64_t miscounted = 0, lost = 0, ahead = 0;
    enum handoff_code code = handoff_db_number(
        db,
        "SELECT count(*) FROM memory_scopes s WHERE s.memories <> (SELECT count(*) FROM memories m"
        " WHERE m.seq BETWEEN s.number << 40 AND (s.number << 40) + 1099511627775)",
        &miscounted, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db,
                                 "SELECT (SELECT count(*) FROM memories)"
                                 " <> (SELECT sum(memories) FROM memory_scopes)",
                                 &lost, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(db,
                                 "SELECT coalesce(max(seq & 1099511627775), 0)"
                                 " > (SELECT last FROM memory_clock) FROM memories",
                                 &ahead, error);
    if (miscounted > 0 || lost > 0)
        note(report, "memory_scopes does not match the memories", "");
    if (ahead > 0)
        note(report, "memory_clock is behind the memories", "");
    return code;
}

/* ---- files of bodies ------------------------------------------------------------------------ */

static enum handoff_code check_body_files(struct handoff_db *db,
                                          struct handoff_store_report *report,
                                          struct handoff_error *error)
{
    int64_t miscounted;
    enum handoff_code code = handoff_body_files_miscounted(db, &miscounted, error);
    if (miscounted > 0)
        note(report, "body_files does not match the envelopes", "");
    return code;
}

/* ---- what retention counts ------------------------------------------------------------------- */

static enum handoff_code check_kept(struct handoff_db *db, struct handoff_store_report *report,
                                    struct handoff_error *error)
{
    int64_t wrong;
    enum handoff_code code =
        handoff_db_number(db,
                          "SELECT NOT EXISTS (SELECT 1 FROM kept WHERE (bodies, rows) = (SELECT"
                          " coalesce(sum(body_bytes), 0), coalesce(sum(row_bytes), 0)"
                          " FROM envelope_state WHERE finished_at > 0))",
                          &wrong, error);
    if (wrong != 0)
        note(report, "retention's counts do not match the envelopes", "");
    return code;
}

/* ---- the ledger -------------------------------------------------------------------------------
 */

#define COUNT_HANDED_OFF_WRONG(handed_off)                                                         \
    "SELECT count(*) FROM contributions c WHERE seq IN (SELECT child FROM lineage)"                \
    " AND charged_to IS NULL AND handed_off <> (seq IN (" handed_off "))"

/* Only of those that continue something it matters. What was published was handed off by its
   deliveries. */
static enum handoff_code check_handed_off(struct handoff_db *db,
                                          struct handoff_store_report *report,
                                          struct handoff_error *error)
{
    int64_t wrong;
    const char *count = report->version >= HANDOFF_SCHEMA_CHANNELS
                            ? COUNT_HANDED_OFF_WRONG("SELECT seq FROM handoffs"
                                                     " UNION ALL SELECT seq FROM publications")
                            : COUNT_HANDED_OFF_WRONG("SELECT seq FROM handoffs");
    enum handoff_code code = handoff_db_number(db, count, &wrong, error);
    if (code == HANDOFF_OK && wrong > 0)
        note(report, "the ledger and the handoffs differ in which envelopes were handed off", "");
    return code;
}

/* What contribution_rows.h says. */
static enum handoff_code check_ledger(struct handoff_db *db, struct handoff_store_report *report,
                                      struct handoff_error *error)
{
    int64_t lost = 0, stray = 0, wrong = 0;
    enum handoff_code code =
        handoff_db_number(db,
                          "SELECT count(*) FROM lineage l WHERE l.parent >= l.child"
                          " OR l.child NOT IN (SELECT seq FROM contributions)"
                          " OR l.parent NOT IN (SELECT seq FROM contributions)",
                          &lost, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(
            db,
            "SELECT count(*) FROM contributions c WHERE CASE WHEN c.charged_to IS NULL"
            " THEN c.seq NOT IN (SELECT seq FROM envelopes)"
            " ELSE c.charged_to NOT IN (SELECT seq FROM envelopes)"
            " OR c.seq NOT IN (SELECT parent FROM lineage) END",
            &stray, error);
    if (code == HANDOFF_OK)
        code = handoff_addressed_count_wrong(db, report->version >= HANDOFF_SCHEMA_CHANNELS, &wrong,
                                             error);
    if (lost > 0)
        note(report, "an envelope's ledger lacks one of its ancestors", "");
    if (stray > 0)
        note(report, "the ledger has a contribution that no envelope needs", "");
    if (wrong > 0)
        note(report, "the list of who was addressed in a task does not match its handoffs", "");
    return code;
}

/* ---- channels ------------------------------------------------------------------------------ */

static enum handoff_code check_deliveries(struct handoff_db *db,
                                          struct handoff_store_report *report,
                                          struct handoff_error *error)
{
    int64_t wrong;
    enum handoff_code code = handoff_delivery_rows_count_wrong(
        db, report->version >= HANDOFF_SCHEMA_SHELVES, &wrong, error);
    if (code == HANDOFF_OK && wrong > 0)
        note(report, "publications do not match their deliveries", "");
    if (code != HANDOFF_OK || report->version < HANDOFF_SCHEMA_CHANNEL_RECEIVED)
        return code;
    code = handoff_db_number(db,
                             "SELECT count(*) FROM channel_received WHERE publication NOT IN"
                             " (SELECT seq FROM publications)",
                             &wrong, error);
    if (code == HANDOFF_OK && wrong > 0)
        note(report, "a publication that is gone is remembered as received", "");
    if (code != HANDOFF_OK || report->version < HANDOFF_SCHEMA_SHELVES)
        return code;
    code = handoff_shelves_count_wrong(db, &wrong, error);
    if (code == HANDOFF_OK && wrong > 0)
        note(report, "what a channel keeps is not what its publications say", "");
    return code;
}

/* ---- decisions and bulk jobs ----------------------------------------------------------------- */

/* A decision of a job and the fate of its item are one commit. A job outlives its decisions where
   retention has removed those, which takes the oldest first. */
static enum handoff_code check_decisions(struct handoff_db *db, struct handoff_store_report *report,
                                         struct handoff_error *error)
{
    int64_t stray = 0, undecided = 0;
    _Static_assert(HANDOFF_FATE_SUCCEEDED == 1, "as the queries have it");
    enum handoff_code code = handoff_db_number(
        db, "SELECT count(*) FROM job_items WHERE job NOT IN (SELECT id FROM jobs)", &stray, error);
    if (code == HANDOFF_OK)
        code = handoff_db_number(
            db,
            "SELECT (SELECT count(*) FROM decisions d JOIN job_items i"
            "  ON i.job = d.job AND i.handoff = d.handoff WHERE i.fate <> 1)"
            " + (SELECT count(*) FROM job_items i JOIN jobs j ON j.id = i.job WHERE i.fate = 1"
            "  AND j.began_at >= (SELECT min(at) FROM decisions) AND NOT EXISTS"
            "  (SELECT 1 FROM decisions d WHERE d.job = i.job AND d.handoff = i.handoff))",
            &undecided, error);
    if (stray > 0)
        note(report, "a result belongs to no bulk job", "");
    if (undecided > 0)
        note(report, "the results of a bulk job do not match its decisions", "");
    return code;
}

/* ---- the search index ----------------------------------------------------------------------- */

static enum handoff_code check_search_files(struct handoff_db *db,
                                            struct handoff_store_report *report,
                                            struct handoff_error *error)
{
    const char *problem;
    enum handoff_code code = handoff_search_files_check(db, &problem, error);
    if (code == HANDOFF_OK && problem)
        note(report, problem, "");
    return code;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum handoff_code count_bytes(struct handoff_db *db, struct handoff_store_report *report,
                                     struct handoff_error *error)
{
    int64_t outside = 0, written;
    enum handoff_code code = handoff_retention_bytes(db, &report->bytes, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_BODY_FILES)
        code = handoff_body_files_bytes(db, &outside, &written, error);
    report->bytes += outside;
    return code;
}

static enum handoff_code check_all(struct handoff_db *db, struct handoff_store_report *report,
                                   struct handoff_error *error)
{
    enum handoff_code code = handoff_db_exec(db, "BEGIN", error); /* one state of a moving store */
    if (code == HANDOFF_OK)
        code = handoff_migrate_version(db, &report->version, error);
    if (code == HANDOFF_OK)
        code = check_structure(db, report, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_MEMORIES)
        code = check_memories(db, report, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_SCOPES)
        code = check_scopes(db, report, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_BODY_FILES)
        code = check_body_files(db, report, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_KEPT)
        code = check_kept(db, report, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_LEDGER)
        code = check_ledger(db, report, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_HANDED_OFF)
        code = check_handed_off(db, report, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_CHANNELS)
        code = check_deliveries(db, report, error);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_DECISIONS)
        code = check_decisions(db, report, error);
    if (code == HANDOFF_OK)
        code = count_bytes(db, report, error);
    handoff_db_roll_back(db);
    if (code == HANDOFF_OK && report->version >= HANDOFF_SCHEMA_SEARCH)
        code = check_search_files(db, report, error);
    if (code == HANDOFF_OK && report->version >= 1)
        code = check_envelopes(db, report, error);
    return code;
}

enum handoff_code handoff_store_check(const char *path, struct handoff_store_report *report,
                                      struct handoff_error *error)
{
    struct handoff_db db = {0};
    char *database;
    memset(report, 0, sizeof *report);
    enum handoff_code code = handoff_data_dir_find_database(path, &database, error);
    if (code == HANDOFF_OK)
        code = handoff_db_open(&db, database, HANDOFF_DB_READ, NULL, error);
    if (code == HANDOFF_OK)
        code = check_all(&db, report, error);
    handoff_db_close(&db);
    base_free(database);
    return code;
}
