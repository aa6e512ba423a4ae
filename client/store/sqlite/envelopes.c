/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes in the store: put, finish, get. The body is stored as it came and served byte for byte;
 * the digest that the document carries is the store's checksum too, so a put hashes nothing and a
 * get hashes once.
 *
 * Puts run on the writer thread, gets on a reader thread.
 */
#include <stdio.h>
#include <string.h>

#include "client/store/sqlite/addressed.h"
#include "client/store/sqlite/body_log.h"
#include "client/store/sqlite/contribution_rows.h"
#include "client/store/sqlite/delivery_rows.h"
#include "client/store/sqlite/envelope_row.h"
#include "client/store/sqlite/known_tasks.h"
#include "client/store/sqlite/retained_size.h"
#include "client/store/sqlite/retention_clock.h"
#include "client/store/store.h"
#include "lib/base/error.h"

/* ---- writing ------------------------------------------------------------------------------- */

static bool shares_body(const struct handoff_store_put_envelope *put)
{
    static const struct base_uuid nil;
    return memcmp(&put->shares, &nil, sizeof nil) != 0;
}

/* What the other envelope's row lends to this one's. */
struct shared_body {
    char text[HANDOFF_BODY_PLACE_TEXT]; /* its number */
    int64_t cut_at, cut_size;
};

static void lend_shared_body(struct shared_body *shared, int64_t seq, int64_t cut_at,
                             int64_t cut_size)
{
    snprintf(shared->text, sizeof shared->text, "@%lld", (long long)seq);
    shared->cut_at = cut_at;
    shared->cut_size = cut_size;
}

static enum handoff_code find_shared_body(struct handoff_db *db,
                                          const struct handoff_store_put_envelope *put,
                                          struct shared_body *shared, struct handoff_error *error)
{
    char id[BASE_UUID_TEXT];
    const struct handoff_db_published *published = handoff_db_find_published(db, &put->shares);
    if (published && memcmp(published->digest, put->digest, sizeof put->digest) == 0) {
        lend_shared_body(shared, published->seq, published->cut_at, published->cut_size);
        return HANDOFF_OK;
    }
    sqlite3_stmt *find = handoff_db_statement(
        db, "SELECT seq, cut_at, cut_size FROM envelopes WHERE id = ?1 AND digest = ?2", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(find, 1, put->shares.bytes, sizeof put->shares.bytes, SQLITE_STATIC);
    sqlite3_bind_blob(find, 2, put->digest, sizeof put->digest, SQLITE_STATIC);
    const bool found = handoff_db_row(find);
    if (found)
        lend_shared_body(shared, sqlite3_column_int64(find, 0), sqlite3_column_int64(find, 1),
                         sqlite3_column_int64(find, 2));
    enum handoff_code code = handoff_db_end(db, find, error);
    if (code != HANDOFF_OK || found)
        return code;
    base_uuid_format(&put->shares, id);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope has this id", "id", id);
}

/* place: where the body lies; NULL: it comes into the row. */
static enum handoff_code insert_row(struct handoff_db *db,
                                    const struct handoff_store_put_envelope *put,
                                    const struct handoff_body_place *place,
                                    struct handoff_error *error)
{
    char text[HANDOFF_BODY_PLACE_TEXT];
    struct shared_body shared = {.cut_at = put->cut_at, .cut_size = put->cut_size};
    const bool shares = shares_body(put);
    enum handoff_code code = shares ? find_shared_body(db, put, &shared, error) : HANDOFF_OK;
    if (code != HANDOFF_OK)
        return code;
    sqlite3_stmt *insert = handoff_db_statement(
        db,
        "INSERT INTO envelopes (id, task_id, created_at, digest, cut_at, cut_size, body,"
        " inheritance) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING",
        error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(insert, 1, put->id.bytes, sizeof put->id.bytes, SQLITE_STATIC);
    handoff_db_bind_text(insert, 2, put->task_id);
    sqlite3_bind_int64(insert, 3, put->created_ms);
    sqlite3_bind_blob(insert, 4, put->digest, sizeof put->digest, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 5, shared.cut_at);
    sqlite3_bind_int64(insert, 6, shared.cut_size);
    if (shares)
        handoff_db_bind_text(insert, 7, base_span_text(shared.text));
    else if (place)
        handoff_db_bind_text(insert, 7, base_span(text, handoff_body_place_format(place, text)));
    else
        sqlite3_bind_blob64(insert, 7, put->body.data, put->body.size, SQLITE_STATIC);
    handoff_db_bind_text(insert, 8, put->inheritance);
    return handoff_db_do(db, insert, error);
}

static enum handoff_code insert_state(struct handoff_db *db, int64_t seq,
                                      const struct handoff_store_put_envelope *put,
                                      int64_t row_bytes, struct handoff_error *error)
{
    sqlite3_stmt *insert = handoff_db_statement(
        db, "INSERT INTO envelope_state (seq, body_bytes, row_bytes) VALUES (?1, ?2, ?3)", error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(insert, 1, seq);
    sqlite3_bind_int64(insert, 2, (int64_t)put->body.size);
    sqlite3_bind_int64(insert, 3, handoff_retained_envelope_row(put) + row_bytes);
    return handoff_db_do(db, insert, error);
}

/* By an update, which is counted (retained_size.h); an insert is not, for most are of what goes on.
 */
static enum handoff_code finish_envelope_of(struct handoff_db *db, const struct base_uuid *id,
                                            int64_t finished_ms, struct handoff_error *error)
{
    sqlite3_stmt *update =
        handoff_db_statement(db,
                             "UPDATE envelope_state SET finished_at = ?2"
                             " WHERE seq = (SELECT seq FROM envelopes WHERE id = ?1)",
                             error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(update, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    sqlite3_bind_int64(update, 2, handoff_retention_clock_mark(db, finished_ms));
    return handoff_db_do(db, update, error);
}

/* The id exists: harmless when it is the same envelope, sent again because the result was not
 * known. */
static enum handoff_code compare_with_stored(struct handoff_db *db,
                                             const struct handoff_store_put_envelope *put,
                                             struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    sqlite3_stmt *find =
        handoff_db_statement(db, "SELECT digest = ?2 FROM envelopes WHERE id = ?1", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(find, 1, put->id.bytes, sizeof put->id.bytes, SQLITE_STATIC);
    sqlite3_bind_blob(find, 2, put->digest, sizeof put->digest, SQLITE_STATIC);
    bool same = handoff_db_row(find) && sqlite3_column_int(find, 0) == 1;
    enum handoff_code code = handoff_db_end(db, find, error);
    if (code != HANDOFF_OK || same)
        return code;
    base_uuid_format(&put->id, text);
    return handoff_error_set(
        error, HANDOFF_ERR_CONFLICT,
        "a different envelope with this id is already stored; envelopes never change", "id", text);
}

static bool may_be_known(struct handoff_db *db, struct base_span task_id)
{
    return !db->known_tasks || handoff_known_tasks_may_have(db->known_tasks, task_id);
}

enum handoff_code handoff_envelope_insert(struct handoff_db *db,
                                          const struct handoff_store_put_envelope *put,
                                          int64_t row_bytes, int64_t *seq,
                                          struct handoff_error *error)
{
    struct handoff_body_place place;
    bool outside = db->body_log && !shares_body(put) &&
                   handoff_body_log_append(db->body_log, put->body, &place);
    enum handoff_code code = insert_row(db, put, outside ? &place : NULL, error);
    *seq = 0;
    if (code != HANDOFF_OK)
        return code;
    if (sqlite3_changes(db->sqlite) == 0)
        return compare_with_stored(db, put, error);
    *seq = sqlite3_last_insert_rowid(db->sqlite);
    if (outside)
        handoff_body_log_named(db->body_log, &place, *seq);
    code = insert_state(db, *seq, put, row_bytes, error);
    return code == HANDOFF_OK ? handoff_contribution_insert(db, *seq, put, error) : code;
}

enum handoff_code handoff_envelope_list(struct handoff_db *db, int64_t seq,
                                        struct base_span task_id,
                                        const struct handoff_addressees *to,
                                        struct handoff_error *error)
{
    const bool is_known = may_be_known(db, task_id);
    if (db->known_tasks)
        handoff_known_tasks_add(db->known_tasks, task_id);
    return is_known ? handoff_addressed_add(db, seq, task_id, to, error) : HANDOFF_OK;
}

static enum handoff_code run_put_envelope(struct handoff_store_job *job, struct handoff_db *db,
                                          struct handoff_error *error)
{
    const struct handoff_store_put_envelope *put = (const void *)job;
    int64_t seq;
    enum handoff_code code = handoff_envelope_insert(db, put, 0, &seq, error);
    if (code == HANDOFF_OK && seq != 0)
        code = handoff_envelope_list(db, seq, put->task_id, NULL, error);
    if (code == HANDOFF_OK && seq != 0 && put->finished)
        code = finish_envelope_of(db, &put->id, put->created_ms, error);
    return code;
}

void handoff_store_put_envelope(struct handoff_store *store, struct handoff_store_put_envelope *put)
{
    put->job.run = run_put_envelope;
    put->job.brings_body = true;
    handoff_store_submit(store, &put->job);
}

static enum handoff_code run_finish(struct handoff_store_job *job, struct handoff_db *db,
                                    struct handoff_error *error)
{
    const struct handoff_store_finish_envelope *finish = (const void *)job;
    char text[BASE_UUID_TEXT];
    enum handoff_code code = finish_envelope_of(db, &finish->id, finish->finished_ms, error);
    if (code != HANDOFF_OK || sqlite3_changes(db->sqlite) == 1)
        return code;
    base_uuid_format(&finish->id, text);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope has this id", "id", text);
}

void handoff_store_finish_envelope(struct handoff_store *store,
                                   struct handoff_store_finish_envelope *finish)
{
    finish->job.run = run_finish;
    handoff_store_submit(store, &finish->job);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The bytes that the digest leaves out must name that very digest. */
static bool cut_names_digest(struct base_span body, size_t at, size_t size,
                             const uint8_t digest[BASE_SHA256_BYTES])
{
    char hex[BASE_SHA256_HEX_SIZE];
    base_sha256_hex(digest, hex);
    return size == 0 || memmem(body.data + at, size, hex, sizeof hex - 1) != NULL;
}

bool handoff_envelope_intact(struct base_span body, int64_t cut_at, int64_t cut_size,
                             const uint8_t digest[BASE_SHA256_BYTES])
{
    struct base_sha256 hash;
    uint8_t found[BASE_SHA256_BYTES];
    if (cut_at < 0 || cut_size < 0 || (uint64_t)cut_at > body.size ||
        (uint64_t)cut_size > body.size - (uint64_t)cut_at)
        return false;
    size_t at = (size_t)cut_at, size = (size_t)cut_size;
    base_sha256_start(&hash);
    base_sha256_add(&hash, body.data, at);
    base_sha256_add(&hash, body.data + at + size, body.size - at - size);
    base_sha256_finish(&hash, found);
    return memcmp(found, digest, sizeof found) == 0 && cut_names_digest(body, at, size, digest);
}

static enum handoff_code changed(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_STORE_CORRUPT,
                             "the stored envelope does not match its digest, so it is "
                             "damaged; run `handoffctl store check` and restore a backup",
                             "id", text);
}

static bool copy_span(struct base_arena *arena, struct base_span from, struct base_span *to)
{
    to->data = base_arena_copy(arena, from.data ? from.data : "", from.size);
    to->size = from.size;
    return to->data != NULL;
}

static enum handoff_code body_is_removed(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_ENVELOPE_REMOVED,
                             "retention removed the body of this envelope because finished "
                             "handoffs exceeded storage.retention.size; raise it to keep bodies "
                             "longer",
                             "id", text);
}

/* From the row, or from the file that it names. */
static enum handoff_code read_envelope_body(struct handoff_db *db, sqlite3_stmt *row,
                                            struct base_arena *arena, struct base_span *body,
                                            struct handoff_error *error)
{
    struct handoff_body_place place;
    if (!handoff_body_place_column(row, 6, &place))
        return copy_span(arena, handoff_db_column(row, 6), body) ? HANDOFF_OK
                                                                 : handoff_error_no_memory(error);
    char *room = base_arena_alloc(arena, (size_t)place.size + 1);
    if (!room)
        return handoff_error_no_memory(error);
    room[place.size] = '\0';
    *body = base_span(room, (size_t)place.size);
    return handoff_body_read(db, &place, room, error);
}

/* What is left of it. */
static enum handoff_code read_removed(sqlite3_stmt *row, struct base_arena *arena,
                                      struct handoff_stored_envelope *envelope,
                                      struct handoff_error *error)
{
    struct base_span inheritance = handoff_db_column(row, 8);
    if (inheritance.data && !copy_span(arena, inheritance, &envelope->inheritance))
        return handoff_error_no_memory(error);
    return body_is_removed(&envelope->id, error);
}

static enum handoff_code read_envelope_row(struct handoff_db *db, sqlite3_stmt *row,
                                           struct base_arena *arena,
                                           struct handoff_stored_envelope *envelope,
                                           struct handoff_error *error)
{
    struct base_span id = handoff_db_column(row, 0), digest = handoff_db_column(row, 3);
    memset(envelope, 0, sizeof *envelope);
    if (id.size == sizeof envelope->id.bytes)
        memcpy(envelope->id.bytes, id.data, id.size);
    if (id.size != sizeof envelope->id.bytes || digest.size != sizeof envelope->digest)
        return changed(&envelope->id, error);
    memcpy(envelope->digest, digest.data, digest.size);
    envelope->created_ms = sqlite3_column_int64(row, 2);
    envelope->finished_ms = sqlite3_column_int64(row, 7);
    if (!copy_span(arena, handoff_db_column(row, 1), &envelope->task_id))
        return handoff_error_no_memory(error);
    if (handoff_body_removed_column(row, 6))
        return read_removed(row, arena, envelope, error);
    enum handoff_code code = read_envelope_body(db, row, arena, &envelope->body, error);
    if (code != HANDOFF_OK)
        return code;
    if (!handoff_envelope_intact(envelope->body, sqlite3_column_int64(row, 4),
                                 sqlite3_column_int64(row, 5), envelope->digest))
        return changed(&envelope->id, error);
    return HANDOFF_OK;
}

#define ENVELOPE_COLUMNS                                                                           \
    "SELECT e.id, e.task_id, e.created_at, e.digest, e.cut_at, e.cut_size, " HANDOFF_ROW_BODY(     \
        "e") ","                                                                                   \
             " s.finished_at, e.inheritance FROM envelopes e LEFT JOIN envelope_state s ON s.seq " \
             "= e.seq "

static enum handoff_code read_looked_up(struct handoff_db *db, sqlite3_stmt *select,
                                        struct base_arena *arena,
                                        struct handoff_stored_envelope *envelope, bool *found,
                                        struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    *found = handoff_db_row(select);
    if (*found)
        code = read_envelope_row(db, select, arena, envelope, error);
    enum handoff_code end = handoff_db_end(db, select, code == HANDOFF_OK ? error : NULL);
    return code != HANDOFF_OK ? code : end;
}

static enum handoff_code look_up_envelope(struct handoff_db *db, const struct base_uuid *id,
                                          struct base_arena *arena,
                                          struct handoff_stored_envelope *envelope, bool *found,
                                          struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, ENVELOPE_COLUMNS "WHERE e.id = ?1", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(select, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    return read_looked_up(db, select, arena, envelope, found, error);
}

enum handoff_code handoff_envelope_look_up_seq(struct handoff_db *db, int64_t seq,
                                               struct base_arena *arena,
                                               struct handoff_stored_envelope *envelope,
                                               struct handoff_error *error)
{
    bool found;
    sqlite3_stmt *select = handoff_db_statement(db, ENVELOPE_COLUMNS "WHERE e.seq = ?1", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    enum handoff_code code = read_looked_up(db, select, arena, envelope, &found, error);
    if (code != HANDOFF_OK || found)
        return code;
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope has this number", NULL,
                             NULL);
}

enum handoff_code handoff_envelope_look_up(struct handoff_db *db, const struct base_uuid *id,
                                           struct base_arena *arena,
                                           struct handoff_stored_envelope *envelope,
                                           struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    bool found = false;
    enum handoff_code code = look_up_envelope(db, id, arena, envelope, &found, error);
    if (code == HANDOFF_ERR_STORE_CORRUPT) /* unless retention took the file after we saw the row */
        code = look_up_envelope(db, id, arena, envelope, &found, error);
    if (code != HANDOFF_OK || found)
        return code;
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope has this id", "id", text);
}

enum handoff_code handoff_store_get_envelope(struct handoff_store *store,
                                             const struct base_uuid *id, struct base_arena *arena,
                                             struct handoff_stored_envelope *envelope,
                                             struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = handoff_envelope_look_up(db, id, arena, envelope, error);
    handoff_store_reader_done(store, db);
    return code;
}
