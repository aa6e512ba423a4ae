/* SPDX-License-Identifier: Apache-2.0 */
/* Changes the gaps in the row of a handoff, see client/store/gaps.h. On the writer's thread. */
#include "client/store/gaps.h"

#include <stdio.h>

#include "client/model/gaps.h"
#include "client/store/sqlite/database.h"
#include "lib/base/error.h"

/* The row as it was read; texts are in the buffer. */
struct gap_row {
    int64_t seq;
    struct base_buffer kept;
};

static enum handoff_code read_gap_row(struct handoff_db *db, struct handoff_store_gaps *gaps,
                                      struct gap_row *row, struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(db,
                                              "SELECT h.seq, h.target, h.gaps FROM envelopes e"
                                              " JOIN handoffs h ON h.seq = e.seq WHERE e.id = ?1",
                                              error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(find, 1, gaps->id.bytes, sizeof gaps->id.bytes, SQLITE_STATIC);
    if (handoff_db_row(find)) {
        const struct base_span target = handoff_db_column(find, 1);
        const struct base_span kept = handoff_db_column(find, 2);
        row->seq = sqlite3_column_int64(find, 0);
        snprintf(gaps->target, sizeof gaps->target, "%.*s", (int)target.size, target.data);
        base_buffer_append(&row->kept, kept.data, kept.size);
    }
    enum handoff_code code = handoff_db_end(db, find, error);
    if (code == HANDOFF_OK && row->kept.failed)
        return handoff_error_no_memory(error);
    if (code == HANDOFF_OK && row->seq == 0)
        return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no handoff has this id", "id",
                                 NULL);
    return code;
}

/* They count with the rows of its envelope. */
static enum handoff_code count_gaps(struct handoff_db *db, const struct gap_row *row,
                                    struct base_span text, struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db, "UPDATE envelope_state SET row_bytes = row_bytes + ?2 WHERE seq = ?1", error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, row->seq);
    sqlite3_bind_int64(update, 2, (int64_t)text.size - (int64_t)row->kept.size);
    return handoff_db_do(db, update, error);
}

static enum handoff_code write_gap_row(struct handoff_db *db, const struct gap_row *row,
                                       struct base_span text, struct handoff_error *error)
{
    sqlite3_stmt *update =
        handoff_db_statement(db, "UPDATE handoffs SET gaps = ?2 WHERE seq = ?1", error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, row->seq);
    handoff_db_bind_text(update, 2, text);
    enum handoff_code code = handoff_db_do(db, update, error);
    return code == HANDOFF_OK ? count_gaps(db, row, text, error) : code;
}

static enum handoff_code change_gap_row(struct handoff_db *db, struct handoff_store_gaps *gaps,
                                        const struct gap_row *row, struct handoff_error *error)
{
    struct base_buffer text = {0};
    struct handoff_gaps_change change = {.kept = base_buffer_span(&row->kept),
                                         .lacking = gaps->lacking,
                                         .found = gaps->found,
                                         .agent = gaps->agent.data ? gaps->agent
                                                                   : base_span_text(gaps->target),
                                         .at_ms = gaps->at_ms};
    enum handoff_code code = handoff_gaps_change(&change, &text, error);
    if (code == HANDOFF_OK && change.flagged + change.recovered > 0)
        code = write_gap_row(db, row, base_buffer_span(&text), error);
    gaps->flagged = change.flagged;
    gaps->recovered = change.recovered;
    base_buffer_free(&text);
    return code;
}

static enum handoff_code run_gaps(struct handoff_store_job *job, struct handoff_db *db,
                                  struct handoff_error *error)
{
    struct handoff_store_gaps *gaps = (void *)job;
    struct gap_row row = {0};
    enum handoff_code code = read_gap_row(db, gaps, &row, error);
    if (code == HANDOFF_OK)
        code = change_gap_row(db, gaps, &row, error);
    base_buffer_free(&row.kept);
    return code;
}

void handoff_store_keep_gaps(struct handoff_store *store, struct handoff_store_gaps *gaps)
{
    gaps->job.run = run_gaps;
    handoff_store_submit(store, &gaps->job);
}
