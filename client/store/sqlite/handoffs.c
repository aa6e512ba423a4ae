/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handoffs, attempts, circuits and idempotency keys in the store. Writes run on the writer thread,
 * reads on a reader thread or where the store is opened.
 */
#include "client/store/handoffs.h"

#include <string.h>

#include "client/model/model.h"
#include "client/store/parked.h"
#include "client/store/sqlite/addressed.h"
#include "client/store/sqlite/database.h"
#include "client/store/sqlite/decision_rows.h"
#include "client/store/sqlite/delivery_rows.h"
#include "client/store/sqlite/envelope_row.h"
#include "client/store/sqlite/key_row.h"
#include "client/store/sqlite/party_rows.h"
#include "client/store/sqlite/retained_size.h"
#include "client/store/sqlite/retention_clock.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

/* ---- writing -------------------------------------------------------------------------------- */

static enum handoff_code handoff_row_failure(struct handoff_db *db)
{
    return handoff_db_failure(db, NULL);
}

/* For columns that are never NULL: what is absent is empty. */
static void bind_some(sqlite3_stmt *statement, int at, struct base_span text)
{
    handoff_db_bind_text(statement, at, text.data ? text : base_span("", 0));
}

static struct base_span reason_text(const struct handoff_standing *standing)
{
    return standing->reason == HANDOFF_REASON_OTHER
               ? standing->words
               : base_span_text(handoff_reason_name(standing->reason));
}

static enum handoff_code insert_handoff(struct handoff_db *db,
                                        const struct handoff_store_accept *accept,
                                        struct handoff_error *error)
{
    const struct handoff_standing *standing = &accept->standing;
    sqlite3_stmt *insert =
        handoff_db_statement(db,
                             "INSERT INTO handoffs (seq, state, source, asked_target, target,"
                             " pattern, deadline_at, due_at, excerpt, reason, settled_at, summary)"
                             " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                             error);
    if (!insert)
        return handoff_row_failure(db);
    sqlite3_bind_int64(insert, 1, accept->seq);
    sqlite3_bind_int(insert, 2, standing->state);
    bind_some(insert, 3, accept->source);
    bind_some(insert, 4, accept->asked_target);
    bind_some(insert, 5, standing->target);
    sqlite3_bind_int(insert, 6, (int)accept->pattern);
    sqlite3_bind_int64(insert, 7, accept->deadline_ms);
    sqlite3_bind_int64(insert, 8, standing->due_ms);
    handoff_db_bind_text(insert, 9, accept->excerpt);
    bind_some(insert, 10, reason_text(standing));
    sqlite3_bind_int64(insert, 11, standing->settled_ms);
    handoff_db_bind_text(insert, 12, accept->summary);
    return handoff_db_do(db, insert, error);
}

enum handoff_code handoff_key_insert(struct handoff_db *db, struct base_span source,
                                     struct base_span key, int64_t seq,
                                     const uint8_t request_digest[BASE_SHA256_BYTES],
                                     struct handoff_error *error)
{
    if (!key.data)
        return HANDOFF_OK;
    sqlite3_stmt *insert = handoff_db_statement(
        db, "INSERT INTO idempotency (source, key, seq, request_digest) VALUES (?1, ?2, ?3, ?4)",
        error);
    if (!insert)
        return handoff_row_failure(db);
    bind_some(insert, 1, source);
    bind_some(insert, 2, key);
    sqlite3_bind_int64(insert, 3, seq);
    sqlite3_bind_blob(insert, 4, request_digest, BASE_SHA256_BYTES, SQLITE_STATIC);
    return handoff_db_do(db, insert, error);
}

/* The number of the envelope that was just put, and whether its handoff is already there. */
static enum handoff_code find_seq(struct handoff_db *db, const struct base_uuid *id, int64_t *seq,
                                  bool *known, struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(
        db,
        "SELECT e.seq, h.seq IS NOT NULL FROM envelopes e LEFT JOIN handoffs h ON h.seq = e.seq"
        " WHERE e.id = ?1",
        error);
    if (!find)
        return handoff_row_failure(db);
    sqlite3_bind_blob(find, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    if (handoff_db_row(find)) {
        *seq = sqlite3_column_int64(find, 0);
        *known = sqlite3_column_int(find, 1) == 1;
    }
    return handoff_db_end(db, find, error);
}

/* NULL leaves it as it is. */
static void read_id(sqlite3_stmt *row, int at, struct base_uuid *id)
{
    struct base_span found = handoff_db_column(row, at);
    if (found.size == sizeof id->bytes)
        memcpy(id->bytes, found.data, found.size);
}

static enum handoff_code find_root(struct handoff_db *db, struct handoff_store_accept *accept,
                                   struct handoff_error *error)
{
    sqlite3_stmt *find =
        handoff_db_statement(db, "SELECT root FROM contributions WHERE seq = ?1", error);
    if (!find)
        return handoff_row_failure(db);
    accept->previous = accept->put.parents[0];
    sqlite3_bind_int64(find, 1, accept->seq);
    if (handoff_db_row(find))
        read_id(find, 0, &accept->root);
    return handoff_db_end(db, find, error);
}

/* The same of an envelope that was put before. */
static enum handoff_code find_chain(struct handoff_db *db, struct handoff_store_accept *accept,
                                    struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(
        db,
        "SELECT (SELECT root FROM contributions WHERE seq = ?1),"
        " (SELECT coalesce(p.id, c.id) FROM lineage l LEFT JOIN envelopes p ON p.seq = l.parent"
        " LEFT JOIN contributions c ON c.seq = l.parent WHERE l.child = ?1 AND l.place = 0)",
        error);
    if (!find)
        return handoff_row_failure(db);
    sqlite3_bind_int64(find, 1, accept->seq);
    if (handoff_db_row(find)) {
        read_id(find, 0, &accept->root);
        read_id(find, 1, &accept->previous);
    }
    return handoff_db_end(db, find, error);
}

static enum handoff_code put_accepted_envelope(struct handoff_store_accept *accept,
                                               struct handoff_db *db, bool *known,
                                               struct handoff_error *error)
{
    int64_t row_bytes = handoff_retained_handoff_row(accept);
    *known = false;
    if (accept->stored)
        return handoff_envelope_reopen(db, &accept->put.id, row_bytes, &accept->seq, error);
    enum handoff_code code =
        handoff_envelope_insert(db, &accept->put, row_bytes, &accept->seq, error);
    if (code == HANDOFF_OK && accept->seq == 0)
        code = find_seq(db, &accept->put.id, &accept->seq, known, error);
    return code;
}

static bool is_of_publication(const struct handoff_store_accept *accept)
{
    static const struct base_uuid nil;
    return memcmp(&accept->publication, &nil, sizeof nil) != 0;
}

/* An envelope that was stored before may be listed. */
static enum handoff_code list_accepted(struct handoff_db *db,
                                       const struct handoff_store_accept *accept,
                                       struct handoff_error *error)
{
    const struct handoff_addressees to = {.asked = accept->asked_target,
                                          .given = accept->standing.target,
                                          .of_publication = is_of_publication(accept)};
    return accept->stored ? handoff_addressed_anew(db, accept->seq, error)
                          : handoff_envelope_list(db, accept->seq, accept->put.task_id, &to, error);
}

static enum handoff_code run_accept(struct handoff_store_job *job, struct handoff_db *db,
                                    struct handoff_error *error)
{
    struct handoff_store_accept *accept = (void *)job;
    bool known;
    enum handoff_code code = put_accepted_envelope(accept, db, &known, error);
    if (code != HANDOFF_OK || known)
        return code;
    code = insert_handoff(db, accept, error);
    if (code == HANDOFF_OK)
        code = list_accepted(db, accept, error);
    if (code == HANDOFF_OK)
        code = handoff_key_insert(db, accept->source, accept->idempotency_key, accept->seq,
                                  accept->request_digest, error);
    if (code == HANDOFF_OK && accept->decision)
        code = handoff_decision_insert(db, accept->decision, error);
    if (code == HANDOFF_OK && is_of_publication(accept))
        code = handoff_delivery_row_insert(db, accept, error);
    if (code == HANDOFF_OK && accept->stored)
        return find_chain(db, accept, error);
    return code == HANDOFF_OK && accept->put.nparents > 0 ? find_root(db, accept, error) : code;
}

void handoff_store_accept(struct handoff_store *store, struct handoff_store_accept *accept)
{
    BASE_CHECK(!accept->put.finished);
    accept->put.job.run = run_accept;
    accept->put.job.brings_body = !accept->stored && accept->put.body.size > 0;
    handoff_store_submit(store, &accept->put.job);
}

/* Only an update that names the target has the triggers which look for others that were addressed.
 */
static enum handoff_code run_update(struct handoff_db *db, const char *text,
                                    const struct handoff_store_move *move,
                                    struct handoff_error *error)
{
    const struct handoff_standing *standing = &move->standing;
    sqlite3_stmt *update = handoff_db_statement(db, text, error);
    if (!update)
        return handoff_row_failure(db);
    sqlite3_bind_int64(update, 1, move->seq);
    sqlite3_bind_int(update, 2, standing->state);
    bind_some(update, 3, standing->target);
    bind_some(update, 4, reason_text(standing));
    sqlite3_bind_int64(update, 5, standing->due_ms);
    sqlite3_bind_int64(update, 6, standing->settled_ms);
    sqlite3_bind_int64(update, 7, standing->attempts);
    sqlite3_bind_int64(update, 8, standing->failures);
    sqlite3_bind_int64(update, 9, standing->alternate);
    sqlite3_bind_int64(update, 10, standing->replays);
    return handoff_db_do(db, update, error);
}

static enum handoff_code update_handoff(struct handoff_db *db,
                                        const struct handoff_store_move *move,
                                        struct handoff_error *error)
{
#define MOVED                                                                                      \
    "state = ?2, reason = ?4, due_at = ?5, settled_at = ?6, attempts = ?7, failures = ?8,"         \
    " alternate = ?9, replays = ?10"
    enum handoff_code code =
        run_update(db, "UPDATE handoffs SET " MOVED " WHERE seq = ?1 AND target = ?3", move, error);
    if (code != HANDOFF_OK || sqlite3_changes(db->sqlite) > 0)
        return code;
    return run_update(db, "UPDATE handoffs SET " MOVED ", target = ?3 WHERE seq = ?1", move, error);
#undef MOVED
}

static enum handoff_code insert_attempt(struct handoff_db *db, int64_t seq,
                                        const struct handoff_attempt *attempt,
                                        struct handoff_error *error)
{
    /* or replace: a number that was used before a crash lost the count is used again */
    sqlite3_stmt *insert =
        handoff_db_statement(db,
                             "INSERT OR REPLACE INTO attempts (seq, number, at, duration_us,"
                             " target, result, status, error, peer, answer)"
                             " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                             error);
    if (!insert)
        return handoff_row_failure(db);
    sqlite3_bind_int64(insert, 1, seq);
    sqlite3_bind_int64(insert, 2, attempt->number);
    sqlite3_bind_int64(insert, 3, attempt->at_ms);
    sqlite3_bind_int64(insert, 4, attempt->duration_us);
    bind_some(insert, 5, attempt->target);
    sqlite3_bind_int(insert, 6, (int)attempt->result);
    sqlite3_bind_int(insert, 7, attempt->status);
    bind_some(insert, 8, attempt->error);
    bind_some(insert, 9, attempt->peer);
    bind_some(insert, 10, attempt->answer);
    return handoff_db_do(db, insert, error);
}

static enum handoff_code insert_passed_over(struct handoff_db *db, int64_t seq,
                                            const struct handoff_attempt *passed,
                                            struct handoff_error *error)
{
    /* or ignore: it comes once more where a commit failed that was made after all */
    sqlite3_stmt *insert =
        handoff_db_statement(db,
                             "INSERT OR IGNORE INTO passed_over (seq, after, at, target, reason)"
                             " VALUES (?1, ?2, ?3, ?4, ?5)",
                             error);
    if (!insert)
        return handoff_row_failure(db);
    sqlite3_bind_int64(insert, 1, seq);
    sqlite3_bind_int64(insert, 2, passed->number);
    sqlite3_bind_int64(insert, 3, passed->at_ms);
    bind_some(insert, 4, passed->target);
    bind_some(insert, 5, passed->error);
    return handoff_db_do(db, insert, error);
}

/* The agent that has the handoff is listed for that already. */
static enum handoff_code insert_record(struct handoff_db *db, const struct handoff_store_move *move,
                                       const struct handoff_attempt_record *record,
                                       struct handoff_error *error)
{
    const struct handoff_attempt *attempt = &record->attempt;
    if (record->decision)
        return handoff_decision_insert(db, record->decision, error);
    if (attempt->passed_over)
        return insert_passed_over(db, move->seq, attempt, error);
    enum handoff_code code = insert_attempt(db, move->seq, attempt, error);
    if (code != HANDOFF_OK || base_span_equal(attempt->target, move->standing.target))
        return code;
    return handoff_addressed_anew(db, move->seq, error);
}

/* By their number: the owner may have begun to add to the chain's end. */
static enum handoff_code insert_attempts(struct handoff_db *db,
                                         const struct handoff_store_move *move,
                                         struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    const struct handoff_attempt_record *record = move->attempts;
    for (size_t left = move->nattempts; left > 0 && code == HANDOFF_OK; left--) {
        code = insert_record(db, move, record, error);
        if (left > 1)
            record = record->next;
    }
    return code;
}

static int64_t attempt_rows(const struct handoff_store_move *move)
{
    int64_t bytes = 0;
    const struct handoff_attempt_record *record = move->attempts;
    for (size_t left = move->nattempts; left > 0; left--) {
        if (!record->decision) /* which outlives the handoff */
            bytes += handoff_retained_attempt_row(&record->attempt);
        if (left > 1)
            record = record->next;
    }
    return bytes;
}

/* finished_ms 0: it goes on. */
static enum handoff_code count_rows(struct handoff_db *db, int64_t seq, int64_t finished_ms,
                                    int64_t bytes, struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(db,
                                                "UPDATE envelope_state SET finished_at = ?2,"
                                                " row_bytes = row_bytes + ?3 WHERE seq = ?1",
                                                error);
    if (!update)
        return handoff_row_failure(db);
    sqlite3_bind_int64(update, 1, seq);
    sqlite3_bind_int64(update, 2, handoff_retention_clock_mark(db, finished_ms));
    sqlite3_bind_int64(update, 3, bytes);
    return handoff_db_do(db, update, error);
}

/* What the text takes is counted with the rows of its envelope, in place of what it replaces. */
static enum handoff_code count_progress(struct handoff_db *db,
                                        const struct handoff_store_move *move,
                                        struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db,
        "UPDATE envelope_state SET row_bytes = row_bytes + ?2 - (SELECT"
        " coalesce(length(CAST(progress AS BLOB)), 0) FROM handoffs WHERE seq = ?1) WHERE seq = ?1",
        error);
    if (!update)
        return handoff_row_failure(db);
    sqlite3_bind_int64(update, 1, move->seq);
    sqlite3_bind_int64(update, 2, (int64_t)move->progress.text.size);
    return handoff_db_do(db, update, error);
}

static enum handoff_code update_progress(struct handoff_db *db,
                                         const struct handoff_store_move *move,
                                         struct handoff_error *error)
{
    enum handoff_code code = count_progress(db, move, error);
    if (code != HANDOFF_OK)
        return code;
    sqlite3_stmt *update = handoff_db_statement(
        db, "UPDATE handoffs SET progress = ?2, progress_at = ?3 WHERE seq = ?1", error);
    if (!update)
        return handoff_row_failure(db);
    sqlite3_bind_int64(update, 1, move->seq);
    bind_some(update, 2, move->progress.text);
    sqlite3_bind_int64(update, 3, move->progress.at_ms);
    return handoff_db_do(db, update, error);
}

/* For the index of parked ones, which a list by cause walks through. */
static enum handoff_code note_last_error(struct handoff_db *db, int64_t seq,
                                         struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db,
        "UPDATE handoffs SET error = coalesce((SELECT a.error FROM attempts a WHERE a.seq = ?1"
        " ORDER BY a.number DESC LIMIT 1), '') WHERE seq = ?1",
        error);
    if (!update)
        return handoff_row_failure(db);
    sqlite3_bind_int64(update, 1, seq);
    return handoff_db_do(db, update, error);
}

static enum handoff_code run_move(struct handoff_store_job *job, struct handoff_db *db,
                                  struct handoff_error *error)
{
    const struct handoff_store_move *move = (const void *)job;
    enum handoff_code code = update_handoff(db, move, error);
    if (code == HANDOFF_OK)
        code = insert_attempts(db, move, error);
    if (code == HANDOFF_OK && move->standing.state == HANDOFF_STATE_PARKED)
        code = note_last_error(db, move->seq, error);
    if (code == HANDOFF_OK && move->progress.text.data)
        code = update_progress(db, move, error);
    if (code == HANDOFF_OK && move->over && move->of_publication)
        code = handoff_delivery_row_over(db, move->seq, move->standing.settled_ms, error);
    if (code == HANDOFF_OK && (move->over || move->nattempts > 0))
        code = count_rows(db, move->seq, move->over ? move->standing.settled_ms : 0,
                          attempt_rows(move), error);
    return code;
}

void handoff_store_move(struct handoff_store *store, struct handoff_store_move *move)
{
    BASE_CHECK(move->seq > 0);
    move->job.run = run_move;
    handoff_store_submit(store, &move->job);
}

static enum handoff_code insert_refusal(struct handoff_db *db,
                                        const struct handoff_store_refuse_next *refuse,
                                        struct handoff_error *error)
{
    sqlite3_stmt *insert =
        handoff_db_statement(db,
                             "INSERT OR REPLACE INTO refused_next (seq, at, code, detail, request)"
                             " VALUES (?1, ?2, ?3, ?4, ?5)",
                             error);
    if (!insert)
        return handoff_row_failure(db);
    sqlite3_bind_int64(insert, 1, refuse->seq);
    sqlite3_bind_int64(insert, 2, refuse->at_ms);
    bind_some(insert, 3, refuse->code);
    bind_some(insert, 4, refuse->detail);
    bind_some(insert, 5, refuse->request);
    return handoff_db_do(db, insert, error);
}

static enum handoff_code run_refuse_next(struct handoff_store_job *job, struct handoff_db *db,
                                         struct handoff_error *error)
{
    const struct handoff_store_refuse_next *refuse = (const void *)job;
    enum handoff_code code = insert_refusal(db, refuse, error);
    if (code != HANDOFF_OK)
        return code;
    return count_rows(db, refuse->seq, 0, handoff_retained_refusal_row(refuse), error);
}

void handoff_store_refuse_next(struct handoff_store *store,
                               struct handoff_store_refuse_next *refuse)
{
    BASE_CHECK(refuse->seq > 0);
    refuse->job.run = run_refuse_next;
    handoff_store_submit(store, &refuse->job);
}

static enum handoff_code run_circuit(struct handoff_store_job *job, struct handoff_db *db,
                                     struct handoff_error *error)
{
    const struct handoff_stored_circuit *circuit =
        &((const struct handoff_store_circuit *)(const void *)job)->circuit;
    sqlite3_stmt *insert = handoff_db_statement(
        db,
        "INSERT OR REPLACE INTO circuits (agent, consecutive_failures, open_until)"
        " VALUES (?1, ?2, ?3)",
        error);
    if (!insert)
        return handoff_row_failure(db);
    bind_some(insert, 1, circuit->agent);
    sqlite3_bind_int64(insert, 2, circuit->consecutive_failures);
    sqlite3_bind_int64(insert, 3, circuit->open_until_ms);
    return handoff_db_do(db, insert, error);
}

void handoff_store_put_circuit(struct handoff_store *store, struct handoff_store_circuit *circuit)
{
    circuit->job.run = run_circuit;
    handoff_store_submit(store, &circuit->job);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A list that is read row by row into an arena, doubling; `read` fills one entry and says whether
   there was memory. */
struct rows {
    struct base_arena *arena;
    size_t size; /* of one entry */
    bool (*read)(sqlite3_stmt *row, struct base_arena *arena, void *entry);
    char *entries;
    size_t count, capacity;
};

static bool add_row(struct rows *rows, sqlite3_stmt *row)
{
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity ? rows->capacity * 2 : 16;
        char *larger = base_arena_calloc(rows->arena, capacity, rows->size);
        if (!larger)
            return false;
        if (rows->count)
            memcpy(larger, rows->entries, rows->count * rows->size);
        rows->entries = larger;
        rows->capacity = capacity;
    }
    return rows->read(row, rows->arena, rows->entries + rows->count++ * rows->size);
}

static enum handoff_code read_rows(struct handoff_db *db, sqlite3_stmt *select, struct rows *rows,
                                   struct handoff_error *error)
{
    bool memory = true;
    while (memory && handoff_db_row(select))
        memory = add_row(rows, select);
    enum handoff_code code = handoff_db_end(db, select, error);
    return memory ? code : handoff_error_no_memory(error);
}

static bool copy_column(sqlite3_stmt *row, int at, struct base_arena *arena, struct base_span *to)
{
    struct base_span from = handoff_db_column(row, at);
    *to = base_span(base_arena_copy(arena, from.data ? from.data : "", from.size), from.size);
    return to->data != NULL;
}

/* What is not the name of a reason is what a person said, or what another version wrote. */
static bool copy_reason(sqlite3_stmt *row, int at, struct base_arena *arena,
                        struct handoff_standing *standing)
{
    standing->reason = handoff_reason_from_name(handoff_db_column(row, at));
    standing->words = base_span("", 0);
    return standing->reason != HANDOFF_REASON_OTHER ||
           copy_column(row, at, arena, &standing->words);
}

/* NULL stays absent. */
static bool copy_nullable_column(sqlite3_stmt *row, int at, struct base_arena *arena,
                                 struct base_span *to)
{
    *to = base_span(NULL, 0);
    return sqlite3_column_type(row, at) == SQLITE_NULL || copy_column(row, at, arena, to);
}

#define HANDOFF_COLUMNS                                                                            \
    "SELECT h.seq, e.id, e.task_id, h.source, h.asked_target, h.pattern, e.created_at,"            \
    " h.deadline_at, h.state, h.target, h.reason, h.due_at, h.settled_at, h.attempts, h.failures," \
    " h.alternate, h.replays, h.excerpt, (SELECT root FROM contributions WHERE seq = h.seq),"      \
    " (SELECT coalesce(p.id, c.id) FROM lineage l LEFT JOIN envelopes p ON p.seq = l.parent"       \
    " LEFT JOIN contributions c ON c.seq = l.parent WHERE l.child = h.seq AND l.place = 0),"       \
    " h.progress, h.progress_at, h.summary, coalesce((SELECT a.error FROM attempts a WHERE"        \
    " a.seq = h.seq ORDER BY a.number DESC LIMIT 1), ''),"                                         \
    " (SELECT b.channel FROM channel_deliveries d JOIN publications b ON b.seq = d.publication"    \
    " WHERE d.seq = h.seq), h.gaps, (SELECT replaced_by FROM contributions WHERE seq = h.seq),"    \
    " (SELECT s.digest <> e.digest FROM channel_deliveries d JOIN envelopes s"                     \
    " ON s.seq = d.publication WHERE d.seq = h.seq)"                                               \
    " FROM handoffs h JOIN envelopes e ON e.seq = h.seq "

static bool read_handoff(sqlite3_stmt *row, struct base_arena *arena, void *entry)
{
    struct handoff_stored *stored = entry;
    struct handoff_standing *standing = &stored->standing;
    read_id(row, 1, &stored->id);
    read_id(row, 18, &stored->root);
    read_id(row, 19, &stored->previous);
    read_id(row, 26, &stored->replaced_by);
    stored->seq = sqlite3_column_int64(row, 0);
    stored->pattern = (enum handoff_pattern)sqlite3_column_int(row, 5);
    stored->created_ms = sqlite3_column_int64(row, 6);
    stored->deadline_ms = sqlite3_column_int64(row, 7);
    stored->progress.at_ms = sqlite3_column_int64(row, 21);
    stored->of_publication = sqlite3_column_type(row, 24) != SQLITE_NULL;
    stored->projected = sqlite3_column_int(row, 27) != 0;
    standing->state = sqlite3_column_int(row, 8);
    standing->due_ms = sqlite3_column_int64(row, 11);
    standing->settled_ms = sqlite3_column_int64(row, 12);
    standing->attempts = (uint32_t)sqlite3_column_int64(row, 13);
    standing->failures = (uint32_t)sqlite3_column_int64(row, 14);
    standing->alternate = (uint32_t)sqlite3_column_int64(row, 15);
    standing->replays = (uint32_t)sqlite3_column_int64(row, 16);
    return copy_column(row, 2, arena, &stored->task_id) &&
           copy_nullable_column(row, 24, arena, &stored->channel) &&
           copy_column(row, 3, arena, &stored->source) &&
           copy_column(row, 4, arena, &stored->asked_target) &&
           copy_column(row, 9, arena, &standing->target) && copy_reason(row, 10, arena, standing) &&
           copy_nullable_column(row, 17, arena, &stored->excerpt) &&
           copy_nullable_column(row, 20, arena, &stored->progress.text) &&
           copy_nullable_column(row, 22, arena, &stored->summary) &&
           copy_column(row, 23, arena, &stored->error) &&
           copy_nullable_column(row, 25, arena, &stored->gaps);
}

static enum handoff_code no_reader(const struct handoff_error *error)
{
    return error ? error->code : HANDOFF_ERR_STORE_IO;
}

static enum handoff_code not_found(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no handoff has this id", "id", text);
}

static enum handoff_code look_up_handoff(struct handoff_db *db, const struct base_uuid *id,
                                         struct base_arena *arena, struct handoff_stored *stored,
                                         struct handoff_error *error)
{
    struct rows rows = {.arena = arena, .size = sizeof *stored, .read = read_handoff};
    sqlite3_stmt *select = handoff_db_statement(db, HANDOFF_COLUMNS "WHERE e.id = ?1", error);
    if (!select)
        return handoff_row_failure(db);
    sqlite3_bind_blob(select, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    enum handoff_code code = read_rows(db, select, &rows, error);
    if (code != HANDOFF_OK)
        return code;
    if (rows.count == 0)
        return not_found(id, error);
    memcpy(stored, rows.entries, sizeof *stored);
    return HANDOFF_OK;
}

enum handoff_code handoff_store_get_handoff(struct handoff_store *store, const struct base_uuid *id,
                                            struct base_arena *arena, struct handoff_stored *stored,
                                            struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return no_reader(error);
    enum handoff_code code = look_up_handoff(db, id, arena, stored, error);
    handoff_store_reader_done(store, db);
    return code;
}

static void look_up_whole(struct handoff_db *db, struct handoff_stored_whole *whole)
{
    handoff_error_clear(&whole->error);
    handoff_error_clear(&whole->envelope_error);
    if (look_up_handoff(db, &whole->id, whole->arena, &whole->stored, &whole->error) == HANDOFF_OK)
        (void)!handoff_envelope_look_up(db, &whole->id, whole->arena, &whole->envelope,
                                        &whole->envelope_error);
}

void handoff_store_get_whole(struct handoff_store *store, struct handoff_stored_whole *const *list,
                             size_t count)
{
    struct handoff_error error;
    struct handoff_db *db = handoff_store_reader(store, &error);
    for (size_t i = 0; i < count; i++) {
        if (db)
            look_up_whole(db, list[i]);
        else
            list[i]->error = error;
    }
    if (db)
        handoff_store_reader_done(store, db);
}

static enum handoff_code get_numbered(struct handoff_db *db, int64_t seq, struct rows *rows,
                                      struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, HANDOFF_COLUMNS "WHERE h.seq = ?1", error);
    if (!select)
        return handoff_row_failure(db);
    sqlite3_bind_int64(select, 1, seq);
    return read_rows(db, select, rows, error);
}

enum handoff_code handoff_store_get_numbered(struct handoff_store *store, const int64_t *seqs,
                                             size_t nseqs, struct base_arena *arena,
                                             struct handoff_stored **list, size_t *count,
                                             struct handoff_error *error)
{
    struct rows rows = {.arena = arena, .size = sizeof **list, .read = read_handoff};
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return no_reader(error);
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < nseqs && code == HANDOFF_OK; i++)
        code = get_numbered(db, seqs[i], &rows, error);
    handoff_store_reader_done(store, db);
    *list = (struct handoff_stored *)(void *)rows.entries;
    *count = rows.count;
    return code;
}

/* What every list asks for; the numbers are bound in handoff_store_list. */
#define WANTED                                                                                     \
    " AND h.seq > ?5 AND (1 << h.state & ?1) != 0 AND (?2 IS NULL OR h.target = ?2)"               \
    " AND (?3 IS NULL OR h.reason = ?3) AND (?4 IS NULL OR e.task_id = ?4)"                        \
    " AND (?7 IS NULL OR " HANDOFF_ROW_CONCERNS("?7") ")"

/* The condition on states is put together from the partial indexes' own words, so that the planner
   can use them: live and parked handoffs are few, whatever is stored beside them. */
static const char *select_for(const struct handoff_store_filter *filter)
{
    const uint32_t live = 1u << 1 | 1u << 2 | 1u << 3, parked = 1u << 5;
    if (filter->publication != 0)
        return HANDOFF_COLUMNS
            "WHERE h.seq IN (SELECT seq FROM channel_deliveries WHERE publication = ?8)" WANTED
            " ORDER BY h.seq LIMIT ?6";
    if (filter->task_id.data)
        return HANDOFF_COLUMNS
            "WHERE h.seq IN (SELECT seq FROM task_envelopes WHERE task_id = ?4)" WANTED
            " ORDER BY h.seq LIMIT ?6";
    if ((filter->states & ~live) == 0)
        return HANDOFF_COLUMNS "WHERE h.state < 4" WANTED " ORDER BY h.seq LIMIT ?6";
    if (filter->states == parked)
        return HANDOFF_COLUMNS "WHERE h.state = 5" WANTED " ORDER BY h.seq LIMIT ?6";
    return HANDOFF_COLUMNS "WHERE 1" WANTED " ORDER BY h.seq LIMIT ?6";
}

enum handoff_code handoff_store_list(struct handoff_store *store,
                                     const struct handoff_store_filter *filter,
                                     struct base_arena *arena, struct handoff_stored **list,
                                     size_t *count, struct handoff_error *error)
{
    struct rows rows = {.arena = arena, .size = sizeof **list, .read = read_handoff};
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return no_reader(error);
    enum handoff_code code;
    sqlite3_stmt *select = handoff_db_statement(db, select_for(filter), error);
    if (select) {
        sqlite3_bind_int64(select, 1, filter->states);
        handoff_db_bind_text(select, 2, filter->target);
        handoff_db_bind_text(select, 3, filter->reason);
        handoff_db_bind_text(select, 4, filter->task_id);
        sqlite3_bind_int64(select, 5, filter->after_seq);
        sqlite3_bind_int64(select, 6, (int64_t)filter->limit);
        handoff_db_bind_text(select, 7, filter->party);
        if (filter->publication != 0)
            sqlite3_bind_int64(select, 8, filter->publication);
        code = read_rows(db, select, &rows, error);
    } else {
        code = handoff_row_failure(db);
    }
    handoff_store_reader_done(store, db);
    *list = (struct handoff_stored *)(void *)rows.entries;
    *count = rows.count;
    return code;
}

static bool read_attempt(sqlite3_stmt *row, struct base_arena *arena, void *entry)
{
    struct handoff_attempt *attempt = entry;
    attempt->number = (uint32_t)sqlite3_column_int64(row, 0);
    attempt->at_ms = sqlite3_column_int64(row, 1);
    attempt->duration_us = sqlite3_column_int64(row, 2);
    attempt->result = (enum handoff_attempt_result)sqlite3_column_int(row, 4);
    attempt->status = sqlite3_column_int(row, 5);
    attempt->passed_over = sqlite3_column_int(row, 9) != 0;
    return copy_column(row, 3, arena, &attempt->target) &&
           copy_column(row, 6, arena, &attempt->error) &&
           copy_column(row, 7, arena, &attempt->peer) &&
           copy_column(row, 8, arena, &attempt->answer);
}

enum handoff_code handoff_store_attempts(struct handoff_store *store, int64_t seq,
                                         struct base_arena *arena, struct handoff_attempt **list,
                                         size_t *count, struct handoff_error *error)
{
    struct rows rows = {.arena = arena, .size = sizeof **list, .read = read_attempt};
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return no_reader(error);
    enum handoff_code code;
    sqlite3_stmt *select =
        handoff_db_statement(db,
                             "SELECT number, at, duration_us, target, result, status, error, peer,"
                             " answer, 0, 0 FROM attempts WHERE seq = ?1 UNION ALL"
                             " SELECT after, at, 0, target, 0, 0, reason, '', '', 1, rowid"
                             " FROM passed_over WHERE seq = ?1 ORDER BY 1, 10, 11",
                             error);
    if (select) {
        sqlite3_bind_int64(select, 1, seq);
        code = read_rows(db, select, &rows, error);
    } else {
        code = handoff_row_failure(db);
    }
    handoff_store_reader_done(store, db);
    *list = (struct handoff_attempt *)(void *)rows.entries;
    *count = rows.count;
    return code;
}

static bool read_idempotency_row(sqlite3_stmt *row, struct base_uuid *id,
                                 uint8_t request_digest[BASE_SHA256_BYTES])
{
    struct base_span stored_id = handoff_db_column(row, 0), digest = handoff_db_column(row, 1);
    if (stored_id.size != sizeof id->bytes || digest.size != BASE_SHA256_BYTES)
        return false;
    memcpy(id->bytes, stored_id.data, stored_id.size);
    memcpy(request_digest, digest.data, digest.size);
    return true;
}

enum handoff_code handoff_store_find_key(struct handoff_store *store, struct base_span source,
                                         struct base_span key, struct base_uuid *id,
                                         uint8_t request_digest[BASE_SHA256_BYTES],
                                         struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return no_reader(error);
    bool found = false;
    enum handoff_code code;
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT e.id, i.request_digest FROM idempotency i JOIN envelopes e ON e.seq = i.seq"
        " WHERE i.source = ?1 AND i.key = ?2",
        error);
    if (select) {
        handoff_db_bind_text(select, 1, source);
        handoff_db_bind_text(select, 2, key);
        found = handoff_db_row(select) && read_idempotency_row(select, id, request_digest);
        code = handoff_db_end(db, select, error);
    } else {
        code = handoff_row_failure(db);
    }
    handoff_store_reader_done(store, db);
    if (code != HANDOFF_OK || found)
        return code;
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no handoff was accepted with this key",
                             "Idempotency-Key", NULL);
}

static bool read_refusal(sqlite3_stmt *row, struct base_arena *arena, void *entry)
{
    struct handoff_stored_refusal *refusal = entry;
    read_id(row, 0, &refusal->id);
    refusal->at_ms = sqlite3_column_int64(row, 1);
    return copy_column(row, 2, arena, &refusal->code) &&
           copy_column(row, 3, arena, &refusal->detail) &&
           copy_column(row, 4, arena, &refusal->request);
}

enum handoff_code handoff_store_refused_next(struct handoff_store *store, struct base_span task_id,
                                             struct base_span party, struct base_arena *arena,
                                             struct handoff_stored_refusal **list, size_t *count,
                                             struct handoff_error *error)
{
    struct rows rows = {.arena = arena, .size = sizeof **list, .read = read_refusal};
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return no_reader(error);
    enum handoff_code code;
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT e.id, r.at, r.code, r.detail,"
        " CASE WHEN ?2 IS NULL OR h.target = ?2 THEN r.request ELSE '' END FROM task_envelopes t"
        " JOIN refused_next r ON r.seq = t.seq JOIN envelopes e ON e.seq = t.seq"
        " JOIN handoffs h ON h.seq = t.seq WHERE t.task_id = ?1"
        " AND (?2 IS NULL OR " HANDOFF_ROW_CONCERNS("?2") ") ORDER BY t.seq",
        error);
    if (select) {
        handoff_db_bind_text(select, 1, task_id);
        handoff_db_bind_text(select, 2, party);
        code = read_rows(db, select, &rows, error);
    } else {
        code = handoff_row_failure(db);
    }
    handoff_store_reader_done(store, db);
    *list = (struct handoff_stored_refusal *)(void *)rows.entries;
    *count = rows.count;
    return code;
}

static bool read_circuit(sqlite3_stmt *row, struct base_arena *arena, void *entry)
{
    struct handoff_stored_circuit *circuit = entry;
    circuit->consecutive_failures = (uint32_t)sqlite3_column_int64(row, 1);
    circuit->open_until_ms = sqlite3_column_int64(row, 2);
    return copy_column(row, 0, arena, &circuit->agent);
}

/* Runs a select without parameters. */
static enum handoff_code read_all(struct handoff_store *store, const char *text, struct rows *rows,
                                  struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return no_reader(error);
    sqlite3_stmt *select = handoff_db_statement(db, text, error);
    enum handoff_code code = select ? read_rows(db, select, rows, error) : handoff_row_failure(db);
    handoff_store_reader_done(store, db);
    return code;
}

enum handoff_code handoff_store_circuits(struct handoff_store *store, struct base_arena *arena,
                                         struct handoff_stored_circuit **list, size_t *count,
                                         struct handoff_error *error)
{
    struct rows rows = {.arena = arena, .size = sizeof **list, .read = read_circuit};
    enum handoff_code code = read_all(
        store, "SELECT agent, consecutive_failures, open_until FROM circuits ORDER BY agent", &rows,
        error);
    *list = (struct handoff_stored_circuit *)(void *)rows.entries;
    *count = rows.count;
    return code;
}

enum handoff_code handoff_store_visit_parked(struct handoff_store *store,
                                             void (*visit)(void *arg, struct base_span target,
                                                           int64_t settled_ms),
                                             void *arg, struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return no_reader(error);
    enum handoff_code code;
    sqlite3_stmt *select =
        handoff_db_statement(db, "SELECT target, settled_at FROM handoffs WHERE state = 5", error);
    if (select) {
        while (handoff_db_row(select))
            visit(arg, handoff_db_column(select, 0), sqlite3_column_int64(select, 1));
        code = handoff_db_end(db, select, error);
    } else {
        code = handoff_row_failure(db);
    }
    handoff_store_reader_done(store, db);
    return code;
}
