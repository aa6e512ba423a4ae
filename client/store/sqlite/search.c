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

/* Of the task's other handoffs, made before or after this one: nothing works on it, or was
   acknowledged later. Of those acknowledged at the same time the last counts. */
#define NO_OTHER_LASTS(made)                                                                       \
    "NOT EXISTS (SELECT 1 FROM task_envelopes o JOIN handoffs p ON p.seq = o.seq"                  \
    " WHERE o.task_id = e.task_id AND o.seq " made " h.seq AND (p.state < 4 OR p.state = 5"        \
    " OR (p.state = 4 AND (p.settled_at, p.seq) > (h.settled_at, h.seq))))"

/* The same rule as in open_tasks.h. What was made after it comes first: that mostly tells, and its
   first row does, where a look from the task's beginning would be as long as the task. */
#define TASK_WAITS_SINCE                                                                           \
    "NOT EXISTS (SELECT 1 FROM tasks c WHERE c.task_id = e.task_id)"                               \
    " AND " NO_OTHER_LASTS(">") " AND " NO_OTHER_LASTS("<")

/* An excerpt ends with the line of the share that is included: 1 if nothing is missing. */
#define FOUND                                                                                      \
    " AND (1 << h.state & ?2) != 0 AND (?3 IS NULL OR h.source = ?3)"                              \
    " AND (?4 IS NULL OR h.target = ?4) AND (?5 IS NULL OR e.task_id = ?5)"                        \
    " AND e.created_at >= ?6 AND (?7 IS NULL OR " HANDOFF_ROW_CONCERNS(                            \
        "?7") ")"                                                                                  \
              " AND (?10 = 0 OR substr(h.excerpt, -2) <> char(10) || '1')"                         \
              " AND (?12 = 0 OR (h.state = 4 AND " TASK_WAITS_SINCE "))"

/* The conditions on states are in the words of the partial indexes, so that the planner can use
   them. The last one joins no more than what it examines. */
#define OF_TASK(beyond, order)                                                                     \
    "SELECT e.id FROM task_envelopes t JOIN envelopes e ON e.seq = t.seq"                          \
    " JOIN handoffs h ON h.seq = t.seq WHERE t.task_id = ?5 AND e.id " beyond " ?1" FOUND          \
    " ORDER BY e.id" order " LIMIT ?8"
#define OF_STATE(state, beyond, order)                                                             \
    "SELECT e.id FROM handoffs h JOIN envelopes e ON e.seq = h.seq WHERE h.state " state           \
    " AND e.id " beyond " ?1" FOUND " ORDER BY e.id" order " LIMIT ?8"
#define OF_ANY(beyond, order)                                                                      \
    "SELECT e.id FROM (SELECT seq FROM envelopes WHERE id " beyond                                 \
    " ?1 AND id >= ?11 ORDER BY id" order " LIMIT ?9) w"                                           \
    " JOIN envelopes e ON e.seq = w.seq JOIN handoffs h ON h.seq = w.seq WHERE 1" FOUND            \
    " ORDER BY e.id" order " LIMIT ?8"
#define LAST_EXAMINED(beyond, order)                                                               \
    "SELECT id FROM envelopes WHERE id " beyond " ?1 AND id >= ?3 ORDER BY id" order               \
    " LIMIT 1 OFFSET ?2"
#define IN_THIS_ORDER(beyond, order)                                                               \
    {                                                                                              \
        OF_TASK(beyond, order), OF_STATE("< 4", beyond, order), OF_STATE("= 5", beyond, order),    \
            OF_STATE("= 6", beyond, order), OF_ANY(beyond, order), LAST_EXAMINED(beyond, order)    \
    }

enum { SEARCH_TASK, SEARCH_LIVE, SEARCH_PARKED, SEARCH_EXPIRED, SEARCH_ANY, LAST_EXAMINED_ID };
static const char *const texts[2][LAST_EXAMINED_ID + 1] = {IN_THIS_ORDER(">", ""),
                                                           IN_THIS_ORDER("<", " DESC")};

static int kind_of_search(const struct handoff_store_search *search)
{
    const uint32_t live = 1u << HANDOFF_STATE_READY | 1u << HANDOFF_STATE_IN_FLIGHT |
                          1u << HANDOFF_STATE_AWAITING_ACK;
    if (search->task_id.data)
        return SEARCH_TASK;
    if ((search->states & ~live) == 0)
        return SEARCH_LIVE;
    if (search->states == 1u << HANDOFF_STATE_EXPIRED)
        return SEARCH_EXPIRED;
    return search->states == 1u << HANDOFF_STATE_PARKED ? SEARCH_PARKED : SEARCH_ANY;
}

/* Ids begin with their milliseconds, and none is older than its handoff says. */
static struct base_uuid oldest_id(const struct handoff_store_search *search)
{
    struct base_uuid since = {0};
    for (int i = 0; search->since_ms > 0 && i < UUID_MS_BYTES; i++)
        since.bytes[i] = (uint8_t)((uint64_t)search->since_ms >> 8 * (UUID_MS_BYTES - 1 - i));
    return since;
}

/* Before the first that is looked at. */
static struct base_uuid begin_of_page(const struct handoff_store_search *search)
{
    static const struct base_uuid none;
    struct base_uuid from = search->after;
    if (search->newest_first && memcmp(from.bytes, none.bytes, sizeof from.bytes) == 0)
        memset(from.bytes, 0xff, sizeof from.bytes);
    if (search->newest_first)
        return from;
    const struct base_uuid oldest = oldest_id(search);
    return memcmp(oldest.bytes, from.bytes, sizeof from.bytes) > 0 ? oldest : from;
}

static bool read_found_id(sqlite3_stmt *row, struct base_uuid *id)
{
    struct base_span bytes = handoff_db_column(row, 0);
    if (bytes.size != sizeof id->bytes)
        return false;
    memcpy(id->bytes, bytes.data, bytes.size);
    return true;
}

static enum handoff_code select_page(struct handoff_db *db, int kind, const struct base_uuid *from,
                                     struct handoff_store_search *search,
                                     struct handoff_error *error)
{
    const struct base_uuid oldest = oldest_id(search);
    sqlite3_stmt *select = handoff_db_statement(db, texts[search->newest_first][kind], error);
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
    sqlite3_bind_int(select, 10, search->incomplete);
    sqlite3_bind_int(select, 12, search->open);
    if (kind == SEARCH_ANY) {
        sqlite3_bind_int64(select, 9, EXAMINED);
        sqlite3_bind_blob(select, 11, oldest.bytes, sizeof oldest.bytes, SQLITE_STATIC);
    }
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
    const struct base_uuid oldest = oldest_id(search);
    sqlite3_stmt *select =
        handoff_db_statement(db, texts[search->newest_first][LAST_EXAMINED_ID], error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(select, 1, from->bytes, sizeof from->bytes, SQLITE_STATIC);
    sqlite3_bind_int64(select, 2, EXAMINED - 1);
    sqlite3_bind_blob(select, 3, oldest.bytes, sizeof oldest.bytes, SQLITE_STATIC);
    search->more = handoff_db_row(select) && read_found_id(select, &search->next);
    return handoff_db_end(db, select, error);
}

static enum handoff_code search_in(struct handoff_db *db, struct handoff_store_search *search,
                                   struct handoff_error *error)
{
    const int kind = kind_of_search(search);
    const struct base_uuid from = begin_of_page(search);
    enum handoff_code code = select_page(db, kind, &from, search, error);
    if (code != HANDOFF_OK)
        return code;
    if (search->count == search->limit) {
        search->more = true;
        search->next = search->ids[search->count - 1];
        return HANDOFF_OK;
    }
    return kind == SEARCH_ANY ? find_last_examined(db, &from, search, error) : HANDOFF_OK;
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
