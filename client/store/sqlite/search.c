/* SPDX-License-Identifier: Apache-2.0 */
/* Searches of handoffs, see search.h. On a reader thread. */
#include "client/store/search.h"

#include <string.h>

#include "client/store/sqlite/party_rows.h"
#include "client/store/sqlite/store_internal.h"
#include "lib/base/error.h"

enum {
    EXAMINED = 5000,   /* ids that one page looks at: a few milliseconds */
    UUID_MS_BYTES = 6, /* of a version 7 id */
};

#define FOUND                                                                                      \
    " AND e.id > ?1 AND (1 << h.state & ?2) != 0 AND (?3 IS NULL OR h.source = ?3)"                \
    " AND (?4 IS NULL OR h.target = ?4) AND (?5 IS NULL OR e.task_id = ?5)"                        \
    " AND e.created_at >= ?6 AND (?7 IS NULL OR " HANDOFF_ROW_CONCERNS(                            \
        "?7") ")"                                                                                  \
              " ORDER BY e.id LIMIT ?8"

/* The conditions on states are in the words of the partial indexes, so that the planner can use
   them. The last one joins no more than what it examines. */
static const char of_task[] = "SELECT e.id FROM task_envelopes t JOIN envelopes e ON e.seq = t.seq"
                              " JOIN handoffs h ON h.seq = t.seq WHERE t.task_id = ?5" FOUND;
static const char of_live[] =
    "SELECT e.id FROM handoffs h JOIN envelopes e ON e.seq = h.seq WHERE h.state < 4" FOUND;
static const char of_parked[] =
    "SELECT e.id FROM handoffs h JOIN envelopes e ON e.seq = h.seq WHERE h.state = 5" FOUND;
static const char of_any[] =
    "SELECT e.id FROM (SELECT seq FROM envelopes WHERE id > ?1 ORDER BY id LIMIT ?9) w"
    " JOIN envelopes e ON e.seq = w.seq JOIN handoffs h ON h.seq = w.seq WHERE 1" FOUND;

static bool walks_ids(const char *text)
{
    return text == of_any;
}

static const char *text_of_search(const struct handoff_store_search *search)
{
    const uint32_t live = 1u << HANDOFF_STATE_READY | 1u << HANDOFF_STATE_IN_FLIGHT |
                          1u << HANDOFF_STATE_AWAITING_ACK;
    if (search->task_id.data)
        return of_task;
    if ((search->states & ~live) == 0)
        return of_live;
    return search->states == 1u << HANDOFF_STATE_PARKED ? of_parked : of_any;
}

/* Ids begin with their milliseconds, and none is older than its handoff says. */
static struct base_uuid first_id(const struct handoff_store_search *search)
{
    struct base_uuid since = {0};
    for (int i = 0; search->since_ms > 0 && i < UUID_MS_BYTES; i++)
        since.bytes[i] = (uint8_t)((uint64_t)search->since_ms >> 8 * (UUID_MS_BYTES - 1 - i));
    return memcmp(since.bytes, search->after.bytes, sizeof since.bytes) > 0 ? since : search->after;
}

static bool read_found_id(sqlite3_stmt *row, struct base_uuid *id)
{
    struct base_span bytes = handoff_db_column(row, 0);
    if (bytes.size != sizeof id->bytes)
        return false;
    memcpy(id->bytes, bytes.data, bytes.size);
    return true;
}

static enum handoff_code select_page(struct handoff_db *db, const char *text,
                                     const struct base_uuid *from,
                                     struct handoff_store_search *search,
                                     struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, text, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(select, 1, from->bytes, sizeof from->bytes, SQLITE_STATIC);
    sqlite3_bind_int64(select, 2, search->states);
    handoff_db_bind_text(select, 3, search->source);
    handoff_db_bind_text(select, 4, search->target);
    handoff_db_bind_text(select, 5, search->task_id);
    sqlite3_bind_int64(select, 6, search->since_ms);
    handoff_db_bind_text(select, 7, search->party);
    sqlite3_bind_int64(select, 8, (int64_t)search->limit);
    if (walks_ids(text))
        sqlite3_bind_int64(select, 9, EXAMINED);
    while (search->count < search->limit && handoff_db_row(select)) {
        if (read_found_id(select, &search->ids[search->count]))
            search->count++;
    }
    return handoff_db_end(db, select, error);
}

/* Where the walk ended before the page was full. */
static enum handoff_code find_last_examined(struct handoff_db *db, const struct base_uuid *from,
                                            struct handoff_store_search *search,
                                            struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(
        db, "SELECT id FROM envelopes WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(select, 1, from->bytes, sizeof from->bytes, SQLITE_STATIC);
    sqlite3_bind_int64(select, 2, EXAMINED - 1);
    search->more = handoff_db_row(select) && read_found_id(select, &search->next);
    return handoff_db_end(db, select, error);
}

static enum handoff_code search_in(struct handoff_db *db, struct handoff_store_search *search,
                                   struct handoff_error *error)
{
    const char *text = text_of_search(search);
    const struct base_uuid from = first_id(search);
    enum handoff_code code = select_page(db, text, &from, search, error);
    if (code != HANDOFF_OK)
        return code;
    if (search->count == search->limit) {
        search->more = true;
        search->next = search->ids[search->count - 1];
        return HANDOFF_OK;
    }
    return walks_ids(text) ? find_last_examined(db, &from, search, error) : HANDOFF_OK;
}

enum handoff_code handoff_store_search(struct handoff_store *store,
                                       struct handoff_store_search *search,
                                       struct base_arena *arena, struct handoff_error *error)
{
    search->count = 0;
    search->more = false;
    search->ids = base_arena_calloc(arena, search->limit, sizeof *search->ids);
    if (!search->ids)
        return handoff_error_no_memory(error);
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = search_in(db, search, error);
    handoff_store_reader_done(store, db);
    return code;
}
