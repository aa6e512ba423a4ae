/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publications and their deliveries in the store, see channels.h and delivery_rows.h. Writes run on
 * the writer thread, reads on a reader thread or where the store is opened.
 */
#include "client/store/channels.h"

#include <string.h>

#include "client/store/sqlite/delivery_rows.h"
#include "client/store/sqlite/envelope_row.h"
#include "client/store/sqlite/key_row.h"
#include "client/store/sqlite/retained_size.h"
#include "client/store/sqlite/retention_clock.h"
#include "client/store/sqlite/shelves.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

/* ---- writing -------------------------------------------------------------------------------- */

static enum handoff_code insert_publication(struct handoff_db *db, int64_t seq,
                                            const struct handoff_store_publish *publish,
                                            struct handoff_error *error)
{
    sqlite3_stmt *insert = handoff_db_statement(
        db,
        "INSERT INTO publications (seq, channel, source, at, unfinished, named, shelf)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(insert, 1, seq);
    handoff_db_bind_text(insert, 2, publish->channel);
    handoff_db_bind_text(insert, 3, publish->source);
    sqlite3_bind_int64(insert, 4, publish->at_ms);
    sqlite3_bind_int64(insert, 5, (int64_t)publish->deliveries);
    sqlite3_bind_int(insert, 6, publish->named);
    sqlite3_bind_int(insert, 7, publish->kept);
    return handoff_db_do(db, insert, error);
}

static enum handoff_code find_publication_row(struct handoff_db *db, const struct base_uuid *id,
                                              int64_t *seq, struct handoff_error *error)
{
    *seq = 0;
    sqlite3_stmt *find = handoff_db_statement(
        db, "SELECT p.seq FROM envelopes e JOIN publications p ON p.seq = e.seq WHERE e.id = ?1",
        error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(find, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    if (handoff_db_row(find))
        *seq = sqlite3_column_int64(find, 0);
    return handoff_db_end(db, find, error);
}

static enum handoff_code refuse_published(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT, "the envelope is already published", "id",
                             text);
}

static enum handoff_code list_published(struct handoff_db *db, int64_t seq,
                                        const struct handoff_store_publish *publish,
                                        struct handoff_error *error)
{
    const struct handoff_addressees to = {.asked = publish->put.target,
                                          .given = publish->put.target};
    return handoff_envelope_list(db, seq, publish->put.task_id, &to, error);
}

/* The envelope's number. *known: the same publication is there already, since a commit that failed
   was made after all. */
static enum handoff_code put_published_envelope(struct handoff_db *db,
                                                const struct handoff_store_publish *publish,
                                                int64_t *seq, bool *known,
                                                struct handoff_error *error)
{
    const int64_t row_bytes = handoff_retained_publication_row(publish);
    int64_t published = 0;
    enum handoff_code code = HANDOFF_OK;
    *known = false;
    if (publish->stored) {
        code = find_publication_row(db, &publish->put.id, &published, error);
        if (code == HANDOFF_OK && published != 0)
            return refuse_published(&publish->put.id, error);
        return code == HANDOFF_OK
                   ? handoff_envelope_reopen(db, &publish->put.id, row_bytes, seq, error)
                   : code;
    }
    code = handoff_envelope_insert(db, &publish->put, row_bytes, seq, error);
    if (code == HANDOFF_OK && *seq != 0)
        return list_published(db, *seq, publish, error);
    if (code != HANDOFF_OK)
        return code;
    *known = true;
    return find_publication_row(db, &publish->put.id, seq, error);
}

/* Where nobody receives it, it is over at once. */
static enum handoff_code finish_undelivered(struct handoff_db *db, int64_t seq,
                                            const struct handoff_store_publish *publish,
                                            struct handoff_error *error)
{
    if (publish->deliveries > 0)
        return HANDOFF_OK;
    if (publish->kept)
        return handoff_shelves_put(db, seq, publish->at_ms, error);
    sqlite3_stmt *update = handoff_db_statement(
        db, "UPDATE envelope_state SET finished_at = ?2 WHERE seq = ?1", error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, seq);
    sqlite3_bind_int64(update, 2, handoff_retention_clock_mark(db, publish->at_ms));
    return handoff_db_do(db, update, error);
}

/* For its deliveries. Of what was stored before, other rows may say more. */
static void note_published(struct handoff_db *db, int64_t seq,
                           const struct handoff_store_put_envelope *put)
{
    struct handoff_db_published *published = &db->published;
    *published =
        (struct handoff_db_published){.seq = seq,
                                      .id = put->id,
                                      .cut_at = put->cut_at,
                                      .cut_size = put->cut_size,
                                      .is_first = put->nparents == 0 && put->contribution.data};
    memcpy(published->digest, put->digest, sizeof published->digest);
}

static enum handoff_code run_publish(struct handoff_store_job *job, struct handoff_db *db,
                                     struct handoff_error *error)
{
    struct handoff_store_publish *publish = (void *)job;
    int64_t seq = 0;
    bool known;
    enum handoff_code code = put_published_envelope(db, publish, &seq, &known, error);
    publish->seq = seq;
    if (code != HANDOFF_OK || known)
        return code;
    code = insert_publication(db, seq, publish, error);
    if (code == HANDOFF_OK && !publish->stored)
        note_published(db, seq, &publish->put);
    if (code == HANDOFF_OK)
        code = handoff_key_insert(db, publish->source, publish->idempotency_key, seq,
                                  publish->request_digest, error);
    return code == HANDOFF_OK ? finish_undelivered(db, seq, publish, error) : code;
}

void handoff_store_publish(struct handoff_store *store, struct handoff_store_publish *publish)
{
    BASE_CHECK(!publish->put.finished);
    publish->put.job.run = run_publish;
    publish->put.job.brings_body = !publish->stored;
    handoff_store_submit(store, &publish->put.job);
}

static enum handoff_code refuse_late(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_ENVELOPE_REMOVED,
                             "retention removed the body of this publication", "id", text);
}

/* The publication is not finished any more: another delivery of it begins. What its channel has let
   go is counted as dropped, and does not come late. */
static enum handoff_code reopen_publication(struct handoff_db *db, const struct base_uuid *id,
                                            struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db,
        "UPDATE publications SET unfinished = unfinished + 1"
        " WHERE shelf >= 0 AND seq = (SELECT seq FROM envelopes WHERE id = ?1 AND body <> '')",
        error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(update, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    enum handoff_code code = handoff_db_do(db, update, error);
    if (code == HANDOFF_OK && sqlite3_changes(db->sqlite) == 0)
        return refuse_late(id, error);
    if (code != HANDOFF_OK)
        return code;
    update = handoff_db_statement(db,
                                  "UPDATE envelope_state SET finished_at = 0 WHERE finished_at > 0"
                                  " AND seq = (SELECT seq FROM envelopes WHERE id = ?1)",
                                  error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(update, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    return handoff_db_do(db, update, error);
}

enum handoff_code handoff_delivery_row_insert(struct handoff_db *db,
                                              const struct handoff_store_accept *accept,
                                              struct handoff_error *error)
{
    enum handoff_code code =
        accept->late ? reopen_publication(db, &accept->publication, error) : HANDOFF_OK;
    if (code != HANDOFF_OK)
        return code;
    sqlite3_stmt *insert = handoff_db_statement(
        db,
        "INSERT INTO channel_deliveries (seq, publication, receiver)"
        " SELECT ?1, p.seq, ?3 FROM"
        " (SELECT coalesce(?4, (SELECT seq FROM envelopes WHERE id = ?2)) AS seq) p"
        " WHERE p.seq IS NOT NULL",
        error);
    if (!insert)
        return handoff_db_failure(db, NULL);
    const struct handoff_db_published *published =
        handoff_db_find_published(db, &accept->publication);
    sqlite3_bind_int64(insert, 1, accept->seq);
    sqlite3_bind_blob(insert, 2, accept->publication.bytes, sizeof accept->publication.bytes,
                      SQLITE_STATIC);
    handoff_db_bind_text(insert, 3, accept->asked_target);
    if (published)
        sqlite3_bind_int64(insert, 4, published->seq);
    return handoff_db_do(db, insert, error);
}

/* A count, so that the end of a delivery costs the same with two receivers and with a thousand. The
   write of an end may be repeated, and counts once. Read before it is written: an update that
   returns its row makes a table for that. */
static const char select_unfinished[] =
    "SELECT p.seq, p.unfinished, p.shelf FROM channel_deliveries d"
    " JOIN publications p ON p.seq = d.publication JOIN envelope_state s ON s.seq = d.seq"
    " WHERE d.seq = ?1 AND s.finished_at = 0";

/* What a delivery is of, as of before its end. */
struct unfinished_publication {
    int64_t seq; /* 0: the delivery had ended */
    int64_t deliveries;
    bool kept;
};

static enum handoff_code find_unfinished(struct handoff_db *db, int64_t delivery,
                                         struct unfinished_publication *found,
                                         struct handoff_error *error)
{
    *found = (struct unfinished_publication){0};
    sqlite3_stmt *select = handoff_db_statement(db, select_unfinished, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, delivery);
    if (handoff_db_row(select))
        *found = (struct unfinished_publication){.seq = sqlite3_column_int64(select, 0),
                                                 .deliveries = sqlite3_column_int64(select, 1),
                                                 .kept = sqlite3_column_int64(select, 2) > 0};
    return handoff_db_end(db, select, error);
}

static enum handoff_code count_delivery_down(struct handoff_db *db, int64_t publication,
                                             struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db, "UPDATE publications SET unfinished = unfinished - 1 WHERE seq = ?1", error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, publication);
    return handoff_db_do(db, update, error);
}

/* A millisecond later than its last delivery, so that retention comes to that one first. */
static enum handoff_code finish_publication(struct handoff_db *db, int64_t seq, int64_t over_ms,
                                            struct handoff_error *error)
{
    sqlite3_stmt *update = handoff_db_statement(
        db, "UPDATE envelope_state SET finished_at = ?2 + 1 WHERE finished_at = 0 AND seq = ?1",
        error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, seq);
    sqlite3_bind_int64(update, 2, handoff_retention_clock_mark(db, over_ms));
    return handoff_db_do(db, update, error);
}

enum handoff_code handoff_delivery_row_over(struct handoff_db *db, int64_t seq, int64_t over_ms,
                                            struct handoff_error *error)
{
    struct unfinished_publication of;
    enum handoff_code code = find_unfinished(db, seq, &of, error);
    if (code != HANDOFF_OK || of.seq == 0)
        return code;
    code = count_delivery_down(db, of.seq, error);
    if (code != HANDOFF_OK || of.deliveries > 1)
        return code;
    return of.kept ? handoff_shelves_put(db, of.seq, over_ms + 1, error)
                   : finish_publication(db, of.seq, over_ms, error);
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool copy_published_text(sqlite3_stmt *row, int at, struct base_arena *arena,
                                struct base_span *to)
{
    struct base_span from = handoff_db_column(row, at);
    *to = base_span(base_arena_copy(arena, from.data ? from.data : "", from.size), from.size);
    return to->data != NULL;
}

static void read_published_id(sqlite3_stmt *row, int at, struct base_uuid *id)
{
    struct base_span found = handoff_db_column(row, at);
    if (found.size == sizeof id->bytes)
        memcpy(id->bytes, found.data, found.size);
}

#define PUBLICATION_COLUMNS                                                                        \
    "SELECT p.seq, e.id, p.channel, p.source, e.task_id, p.at FROM publications p"                 \
    " JOIN envelopes e ON e.seq = p.seq "

static bool read_publication(sqlite3_stmt *row, struct base_arena *arena,
                             struct handoff_stored_publication *publication)
{
    *publication = (struct handoff_stored_publication){.seq = sqlite3_column_int64(row, 0),
                                                       .at_ms = sqlite3_column_int64(row, 5)};
    read_published_id(row, 1, &publication->id);
    return copy_published_text(row, 2, arena, &publication->channel) &&
           copy_published_text(row, 3, arena, &publication->source) &&
           copy_published_text(row, 4, arena, &publication->task_id);
}

static enum handoff_code no_publication(const struct base_uuid *id, struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no publication has this id", "id",
                             text);
}

enum handoff_code handoff_store_get_publication(struct handoff_store *store,
                                                const struct base_uuid *id,
                                                struct base_arena *arena,
                                                struct handoff_stored_publication *publication,
                                                struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    bool found = false, memory = true;
    enum handoff_code code = HANDOFF_ERR_STORE_IO;
    sqlite3_stmt *select = handoff_db_statement(db, PUBLICATION_COLUMNS "WHERE e.id = ?1", error);
    if (select) {
        sqlite3_bind_blob(select, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
        found = handoff_db_row(select);
        memory = !found || read_publication(select, arena, publication);
        code = handoff_db_end(db, select, error);
    } else {
        code = handoff_db_failure(db, NULL);
    }
    handoff_store_reader_done(store, db);
    if (code != HANDOFF_OK)
        return code;
    if (!memory)
        return handoff_error_no_memory(error);
    return found ? HANDOFF_OK : no_publication(id, error);
}

static const char select_page[] = PUBLICATION_COLUMNS
    "WHERE p.channel = ?1 AND (?2 = 0 OR p.seq < ?2)"
    " AND (?4 IS NULL OR p.source = ?4 OR EXISTS (SELECT 1 FROM channel_deliveries d"
    " JOIN handoffs h ON h.seq = d.seq WHERE d.publication = p.seq"
    " AND ?4 IN (d.receiver, h.target))) ORDER BY p.seq DESC LIMIT ?3";

enum handoff_code handoff_store_list_publications(struct handoff_store *store,
                                                  struct base_span channel, struct base_span party,
                                                  int64_t before, size_t limit,
                                                  struct base_arena *arena,
                                                  struct handoff_stored_publication **list,
                                                  size_t *count, struct handoff_error *error)
{
    *count = 0;
    *list = base_arena_calloc(arena, limit + 1, sizeof **list);
    if (!*list)
        return handoff_error_no_memory(error);
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    bool memory = true;
    enum handoff_code code = HANDOFF_ERR_STORE_IO;
    sqlite3_stmt *select = handoff_db_statement(db, select_page, error);
    if (select) {
        handoff_db_bind_text(select, 1, channel);
        sqlite3_bind_int64(select, 2, before);
        sqlite3_bind_int64(select, 3, (int64_t)limit);
        handoff_db_bind_text(select, 4, party);
        while (memory && *count < limit && handoff_db_row(select))
            memory = read_publication(select, arena, &(*list)[(*count)++]);
        code = handoff_db_end(db, select, error);
    } else {
        code = handoff_db_failure(db, NULL);
    }
    handoff_store_reader_done(store, db);
    return code == HANDOFF_OK && !memory ? handoff_error_no_memory(error) : code;
}

/* By the handoffs that are live or parked, which are few, whatever the channel has seen. What a
   subscriber catches up with has been pending since it was made, not since it was published. */
static const char select_backlog[] =
    "SELECT p.channel, d.receiver, total(w.state < 4), total(w.state = 5),"
    " coalesce(min(CASE WHEN w.state < 4 THEN coalesce(e.created_at, p.at) END), 0)"
    " FROM (SELECT seq, state FROM handoffs WHERE state < 4"
    " UNION ALL SELECT seq, state FROM handoffs WHERE state = 5) w"
    " JOIN channel_deliveries d ON d.seq = w.seq JOIN publications p ON p.seq = d.publication"
    " LEFT JOIN envelopes e ON e.seq = w.seq"
    " WHERE ?1 IS NULL OR p.channel = ?1 GROUP BY p.channel, d.receiver"
    " ORDER BY p.channel, d.receiver";

static bool add_backlog(sqlite3_stmt *row, struct base_arena *arena,
                        struct handoff_stored_backlog **list, size_t *count)
{
    const size_t size = sizeof **list, room = *count;
    if ((room & (room - 1)) == 0) { /* at each power of two, from 0 */
        *list = base_arena_resize(arena, *list, room * size, (room ? room * 2 : 1) * size);
        if (!*list)
            return false;
    }
    struct handoff_stored_backlog *backlog = &(*list)[(*count)++];
    *backlog = (struct handoff_stored_backlog){.pending = sqlite3_column_int64(row, 2),
                                               .parked = sqlite3_column_int64(row, 3),
                                               .oldest_ms = sqlite3_column_int64(row, 4)};
    return copy_published_text(row, 0, arena, &backlog->channel) &&
           copy_published_text(row, 1, arena, &backlog->receiver);
}

enum handoff_code handoff_store_channel_backlog(struct handoff_store *store,
                                                struct base_span channel, struct base_arena *arena,
                                                struct handoff_stored_backlog **list, size_t *count,
                                                struct handoff_error *error)
{
    *list = NULL;
    *count = 0;
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    bool memory = true;
    enum handoff_code code = HANDOFF_ERR_STORE_IO;
    sqlite3_stmt *select = handoff_db_statement(db, select_backlog, error);
    if (select) {
        handoff_db_bind_text(select, 1, channel);
        while (memory && handoff_db_row(select))
            memory = add_backlog(select, arena, list, count);
        code = handoff_db_end(db, select, error);
    } else {
        code = handoff_db_failure(db, NULL);
    }
    handoff_store_reader_done(store, db);
    return code == HANDOFF_OK && !memory ? handoff_error_no_memory(error) : code;
}

/* The one that it has, or else had: an alternate of another receiver may have its own besides. */
static const char select_delivery[] =
    "SELECT de.id FROM envelopes e JOIN channel_deliveries d ON d.publication = e.seq"
    " JOIN handoffs h ON h.seq = d.seq JOIN envelopes de ON de.seq = d.seq"
    " WHERE e.id = ?1 AND (?2 IS NULL OR h.target = ?2 OR d.receiver = ?2)"
    " ORDER BY d.receiver = ?2 DESC, h.target = ?2 DESC, d.seq LIMIT 2";

/* Which of them a caller means that does not say who it is, nobody knows. */
static enum handoff_code refuse_several(const struct base_uuid *publication,
                                        struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(publication, text);
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                             "the publication has several receivers; use the Handoff-Id that came "
                             "with the envelope, or a token that tells which receiver calls",
                             "id", text);
}

enum handoff_code handoff_store_find_delivery(struct handoff_store *store,
                                              const struct base_uuid *publication,
                                              struct base_span agent, struct base_uuid *delivery,
                                              struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    bool found = false, several = false;
    enum handoff_code code = HANDOFF_ERR_STORE_IO;
    sqlite3_stmt *select = handoff_db_statement(db, select_delivery, error);
    if (select) {
        sqlite3_bind_blob(select, 1, publication->bytes, sizeof publication->bytes, SQLITE_STATIC);
        handoff_db_bind_text(select, 2, agent);
        found = handoff_db_row(select);
        if (found)
            read_published_id(select, 0, delivery);
        several = found && !agent.data && handoff_db_row(select);
        code = handoff_db_end(db, select, error);
    } else {
        code = handoff_db_failure(db, NULL);
    }
    handoff_store_reader_done(store, db);
    if (code == HANDOFF_OK && several)
        return refuse_several(publication, error);
    return code != HANDOFF_OK || found ? code : no_publication(publication, error);
}

/* ---- checking ------------------------------------------------------------------------------- */

/* `shelf`: 0 where the schema is older than shelves. */
#define COUNT_WRONG_DELIVERIES(shelf)                                                              \
    "SELECT (SELECT count(*) FROM publications p WHERE unfinished <> (SELECT count(*)"             \
    "  FROM channel_deliveries d JOIN envelope_state s ON s.seq = d.seq"                           \
    "  WHERE d.publication = p.seq AND s.finished_at = 0)"                                         \
    "  OR (unfinished > 0 OR " shelf                                                               \
    " > 1) <> (SELECT finished_at = 0 FROM envelope_state WHERE seq = p.seq))"                     \
    " + (SELECT count(*) FROM channel_deliveries d WHERE publication NOT IN"                       \
    "  (SELECT seq FROM publications) OR seq NOT IN (SELECT seq FROM handoffs))"

enum handoff_code handoff_delivery_rows_count_wrong(struct handoff_db *db, bool has_shelves,
                                                    int64_t *wrong, struct handoff_error *error)
{
    return handoff_db_number(
        db, has_shelves ? COUNT_WRONG_DELIVERIES("shelf") : COUNT_WRONG_DELIVERIES("0"), wrong,
        error);
}
