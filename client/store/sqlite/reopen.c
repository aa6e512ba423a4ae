/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reopens an envelope that was stored without a handoff, and so counted as finished, since it is to
 * be delivered after all. Its rows are kept until that handoff is over. On the writer thread.
 */
#include "client/store/sqlite/bodies.h"
#include "client/store/sqlite/contribution_rows.h"
#include "client/store/sqlite/envelope_row.h"
#include "lib/base/error.h"

static enum handoff_code refuse_reopening(const struct base_uuid *id, enum handoff_code code,
                                          const char *message, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, code, message, "id", text);
}

static enum handoff_code judge_finished(sqlite3_stmt *row, const struct base_uuid *id,
                                        struct handoff_error *error)
{
    if (sqlite3_column_int(row, 1) == 1)
        return refuse_reopening(id, HANDOFF_ERR_CONFLICT, "the envelope is already being delivered",
                                error);
    if (handoff_body_removed_column(row, 2))
        return refuse_reopening(id, HANDOFF_ERR_ENVELOPE_REMOVED,
                                "retention removed the body of this envelope, so it can no longer "
                                "be delivered; assemble it again",
                                error);
    return HANDOFF_OK;
}

static enum handoff_code find_finished(struct handoff_db *db, const struct base_uuid *id,
                                       int64_t *seq, struct handoff_error *error)
{
    sqlite3_stmt *find =
        handoff_db_statement(db,
                             "SELECT e.seq, h.seq IS NOT NULL, e.body FROM envelopes e"
                             " LEFT JOIN handoffs h ON h.seq = e.seq WHERE e.id = ?1",
                             error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(find, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    enum handoff_code judged = HANDOFF_ERR_NOT_FOUND;
    *seq = 0;
    if (handoff_db_row(find)) {
        *seq = sqlite3_column_int64(find, 0);
        judged = judge_finished(find, id, error);
    }
    enum handoff_code code = handoff_db_end(db, find, judged == HANDOFF_OK ? error : NULL);
    if (code == HANDOFF_OK && *seq == 0)
        refuse_reopening(id, judged, "no envelope has this id", error);
    return code == HANDOFF_OK ? judged : code;
}

/* The triggers of retained_size.h subtract what is not finished any more. */
static enum handoff_code set_open(struct handoff_db *db, int64_t seq, int64_t row_bytes,
                                  struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db, "UPDATE envelope_state SET finished_at = 0, row_bytes = row_bytes + ?2 WHERE seq = ?1",
        error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, seq);
    sqlite3_bind_int64(update, 2, row_bytes);
    return handoff_db_do(db, update, error);
}

enum handoff_code handoff_envelope_reopen(struct handoff_db *db, const struct base_uuid *id,
                                          int64_t row_bytes, int64_t *seq,
                                          struct handoff_error *error)
{
    enum handoff_code code = find_finished(db, id, seq, error);
    if (code == HANDOFF_OK)
        code = set_open(db, *seq, row_bytes, error);
    return code == HANDOFF_OK ? handoff_contribution_hand_off(db, *seq, error) : code;
}
