/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the ancestors of an envelope contributed, and what a request continues; ledger.h has
 * the rules, contribution_rows.h the rows. On a reader thread.
 */
#include "client/store/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "client/store/sqlite/contribution_rows.h"
#include "client/store/sqlite/database.h"
#include "client/store/sqlite/envelope_row.h"
#include "client/store/sqlite/ledger_rows.h"
#include "lib/base/error.h"

static bool copy_text(sqlite3_stmt *row, int at, struct base_arena *arena, struct base_span *to)
{
    struct base_span from = handoff_db_column(row, at);
    *to = base_span(NULL, 0);
    if (!from.data)
        return true;
    *to = base_span(base_arena_copy(arena, from.data, from.size), from.size);
    return to->data != NULL;
}

static void copy_id(sqlite3_stmt *row, int at, struct base_uuid *id)
{
    struct base_span from = handoff_db_column(row, at);
    if (from.size == sizeof id->bytes)
        memcpy(id->bytes, from.data, from.size);
}

/* ---- ids that are read row by row --------------------------------------------------------------
 */

struct ids {
    struct base_uuid *at;
    size_t count;
};

/* False: out of memory. Doubles at powers of two, from 4. */
static bool add_id(struct ids *ids, sqlite3_stmt *row, struct base_arena *arena)
{
    const size_t size = sizeof *ids->at;
    const size_t count = ids->count;
    if (count == 0 || (count >= 4 && (count & (count - 1)) == 0)) {
        struct base_uuid *larger =
            base_arena_resize(arena, ids->at, count * size, (count == 0 ? 4 : count * 2) * size);
        if (!larger)
            return false;
        ids->at = larger;
    }
    ids->at[count] = (struct base_uuid){0};
    copy_id(row, 0, &ids->at[ids->count++]);
    return true;
}

static enum handoff_code read_ids(struct handoff_db *db, sqlite3_stmt *select,
                                  struct base_arena *arena, struct ids *ids,
                                  struct handoff_error *error)
{
    bool memory = true;
    while (memory && handoff_db_row(select))
        memory = add_id(ids, select, arena);
    enum handoff_code code = handoff_db_end(db, select, error);
    return memory ? code : handoff_error_no_memory(error);
}

/* ---- the ledger of envelopes ------------------------------------------------------------------
 */

static enum handoff_code find_envelope(struct handoff_db *db, const struct base_uuid *id,
                                       struct handoff_error *error)
{
    char text[BASE_UUID_TEXT];
    sqlite3_stmt *find =
        handoff_db_statement(db, "SELECT 1 WHERE " HANDOFF_SEQ_OF_ID("?1") " IS NOT NULL", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob(find, 1, id->bytes, sizeof id->bytes, SQLITE_STATIC);
    const bool found = handoff_db_row(find);
    enum handoff_code code = handoff_db_end(db, find, error);
    if (code != HANDOFF_OK || found)
        return code;
    base_uuid_format(id, text);
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no envelope with this id",
                             "previous_id", text);
}

/* ?1: the ids, one after the other; ?2: how many. A UNION takes each once. They are sorted later:
 * SQLite would carry the texts through its sorter. */
static const char select_ledger[] =
    "WITH RECURSIVE given(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM given WHERE n < ?2),"
    " up(seq) AS (SELECT " HANDOFF_SEQ_OF_ID(
        "substr(?1, n * 16 - 15, 16)") " FROM given"
                                       " UNION SELECT l.parent FROM up JOIN lineage l ON l.child = "
                                       "up.seq)"
                                       " SELECT up.seq, coalesce(e.id, c.id), coalesce(c.hop, 0),"
                                       " coalesce(e.created_at, c.created_at), coalesce(e.task_id, "
                                       "c.task_id),"
                                       " coalesce(h.source, c.source), coalesce(h.target, "
                                       "c.target), c.text, c.form,"
                                       " coalesce(e.digest, c.digest), e.seq IS NULL, "
                                       "c.replaced_by FROM up"
                                       " LEFT JOIN contributions c ON c.seq = up.seq LEFT JOIN "
                                       "envelopes e ON e.seq = up.seq"
                                       " LEFT JOIN handoffs h ON h.seq = up.seq";

enum {
    SEQ_AT,
    ID_AT,
    HOP_AT,
    CREATED_AT,
    TASK_AT,
    SOURCE_AT,
    TARGET_AT,
    TEXT_AT,
    FORM_AT,
    DIGEST_AT,
    GONE_AT,
    REPLACED_AT
};

/* A contribution and its number, until its parents and its body were read. */
struct row {
    struct handoff_contribution is;
    int64_t seq;
};

struct rows_read {
    struct row *at;
    size_t count, room;
};

static struct base_span *text_of_form(struct handoff_contribution *is, int form)
{
    switch ((enum handoff_kept_form)form) {
    case HANDOFF_KEPT_BODY:
        return &is->body;
    case HANDOFF_KEPT_INHERITANCE:
        return &is->inheritance;
    case HANDOFF_KEPT_CONTRIBUTION:
        break;
    }
    return &is->text;
}

static bool read_contribution(sqlite3_stmt *row, struct base_arena *arena, struct row *to)
{
    struct handoff_contribution *is = &to->is;
    struct base_span digest = handoff_db_column(row, DIGEST_AT);
    *to = (struct row){.seq = sqlite3_column_int64(row, SEQ_AT)};
    copy_id(row, ID_AT, &is->id);
    is->hop = sqlite3_column_int64(row, HOP_AT);
    is->created_ms = sqlite3_column_int64(row, CREATED_AT);
    is->envelope_is_gone = sqlite3_column_int(row, GONE_AT) == 1;
    is->replaced = sqlite3_column_type(row, REPLACED_AT) != SQLITE_NULL;
    if (is->replaced)
        copy_id(row, REPLACED_AT, &is->replaced_by);
    if (digest.size == sizeof is->digest)
        memcpy(is->digest, digest.data, digest.size);
    return copy_text(row, TASK_AT, arena, &is->task_id) &&
           copy_text(row, SOURCE_AT, arena, &is->source) &&
           copy_text(row, TARGET_AT, arena, &is->target) &&
           copy_text(row, TEXT_AT, arena, text_of_form(is, sqlite3_column_int(row, FORM_AT)));
}

static bool add_contribution(struct rows_read *rows, sqlite3_stmt *row, struct base_arena *arena)
{
    if (rows->count == rows->room) {
        const size_t room = rows->room ? rows->room * 2 : 16;
        struct row *larger = base_arena_resize(arena, rows->at, rows->count * sizeof *rows->at,
                                               room * sizeof *rows->at);
        if (!larger)
            return false;
        rows->at = larger;
        rows->room = room;
    }
    return read_contribution(row, arena, &rows->at[rows->count++]);
}

/* Oldest first. */
static int compare_rows(const void *left, const void *right)
{
    const struct handoff_contribution *a = &((const struct row *)left)->is;
    const struct handoff_contribution *b = &((const struct row *)right)->is;
    if (a->hop != b->hop)
        return a->hop < b->hop ? -1 : 1;
    if (a->created_ms != b->created_ms)
        return a->created_ms < b->created_ms ? -1 : 1;
    return memcmp(&a->id, &b->id, sizeof a->id);
}

static enum handoff_code read_contributions(struct handoff_db *db, struct base_span ids,
                                            struct base_arena *arena, struct rows_read *rows,
                                            struct handoff_error *error)
{
    bool memory = true;
    sqlite3_stmt *select = handoff_db_statement(db, select_ledger, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_blob64(select, 1, ids.data, ids.size, SQLITE_STATIC);
    sqlite3_bind_int64(select, 2, (int64_t)(ids.size / sizeof(struct base_uuid)));
    while (memory && handoff_db_row(select))
        memory = add_contribution(rows, select, arena);
    enum handoff_code code = handoff_db_end(db, select, error);
    if (rows->count > 1)
        qsort(rows->at, rows->count, sizeof *rows->at, compare_rows);
    return memory ? code : handoff_error_no_memory(error);
}

static enum handoff_code read_parents(struct handoff_db *db, struct row *row,
                                      struct base_arena *arena, struct handoff_error *error)
{
    struct ids parents = {0};
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT coalesce(e.id, c.id) FROM lineage l LEFT JOIN envelopes e ON e.seq = l.parent"
        " LEFT JOIN contributions c ON c.seq = l.parent WHERE l.child = ?1 ORDER BY l.place",
        error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, row->seq);
    enum handoff_code code = read_ids(db, select, arena, &parents, error);
    row->is.parents = parents.at;
    row->is.nparents = parents.count;
    return code;
}

/* What is left of it stands in as well. */
static enum handoff_code read_stand_in(struct handoff_db *db, struct row *row,
                                       struct base_arena *arena, struct handoff_error *error)
{
    struct handoff_stored_envelope stored = {0};
    struct handoff_contribution *is = &row->is;
    if (is->text.data || is->body.data || is->inheritance.data || is->envelope_is_gone)
        return HANDOFF_OK;
    enum handoff_code code = handoff_envelope_look_up_seq(db, row->seq, arena, &stored, error);
    is->body = stored.body;
    is->inheritance = stored.inheritance;
    return code == HANDOFF_ERR_ENVELOPE_REMOVED ? handoff_error_clear(error) : code;
}

static enum handoff_code complete_rows(struct handoff_db *db, struct rows_read *rows,
                                       struct base_arena *arena, struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < rows->count && code == HANDOFF_OK; i++) {
        code = read_parents(db, &rows->at[i], arena, error);
        if (code == HANDOFF_OK)
            code = read_stand_in(db, &rows->at[i], arena, error);
    }
    return code;
}

static enum handoff_code give_contributions(const struct rows_read *rows, struct base_arena *arena,
                                            struct handoff_contribution **list, size_t *count,
                                            struct handoff_error *error)
{
    *list = base_arena_calloc(arena, rows->count + 1, sizeof **list);
    *count = rows->count;
    if (!*list)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < rows->count; i++)
        (*list)[i] = rows->at[i].is;
    return HANDOFF_OK;
}

enum handoff_code handoff_ledger_rows_read(struct handoff_db *db, const struct base_uuid *ids,
                                           size_t nids, struct base_arena *arena,
                                           struct handoff_contribution **list, size_t *count,
                                           struct handoff_error *error)
{
    struct rows_read rows = {0};
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < nids && code == HANDOFF_OK; i++)
        code = find_envelope(db, &ids[i], error);
    if (code == HANDOFF_OK)
        code = read_contributions(db, base_span((const char *)ids, nids * sizeof *ids), arena,
                                  &rows, error);
    if (code == HANDOFF_OK)
        code = complete_rows(db, &rows, arena, error);
    return code == HANDOFF_OK ? give_contributions(&rows, arena, list, count, error) : code;
}

/* One state of the store. */
static enum handoff_code read_ledger(struct handoff_db *db, const struct base_uuid *ids,
                                     size_t nids, struct base_arena *arena,
                                     struct handoff_contribution **list, size_t *count,
                                     struct handoff_error *error)
{
    enum handoff_code code = handoff_db_exec(db, "BEGIN", error);
    if (code == HANDOFF_OK)
        code = handoff_ledger_rows_read(db, ids, nids, arena, list, count, error);
    handoff_db_roll_back(db);
    return code;
}

enum handoff_code handoff_store_get_ledger(struct handoff_store *store, const struct base_uuid *ids,
                                           size_t nids, struct base_arena *arena,
                                           struct handoff_contribution **list, size_t *count,
                                           struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = read_ledger(db, ids, nids, arena, list, count, error);
    if (code == HANDOFF_ERR_STORE_CORRUPT) /* unless retention took the file after we saw the row */
        code = read_ledger(db, ids, nids, arena, list, count, error);
    handoff_store_reader_done(store, db);
    return code;
}

/* ---- what a request continues ------------------------------------------------------------------
 */

static const char select_open[] =
    "SELECT coalesce(e.id, c.id) FROM addressed a LEFT JOIN envelopes e ON e.seq = a.seq"
    " LEFT JOIN contributions c ON c.seq = a.seq"
    " WHERE a.task_id = ?1 AND a.agent = ?2 AND a.open = 1 ORDER BY a.seq DESC";
static const char select_newest[] =
    "SELECT coalesce(e.id, c.id) FROM addressed a LEFT JOIN envelopes e ON e.seq = a.seq"
    " LEFT JOIN contributions c ON c.seq = a.seq"
    " WHERE a.task_id = ?1 AND a.agent = ?2 AND a.open = 0 ORDER BY a.seq DESC LIMIT 1";

/* Of a task that is not listed (addressed.h) there is one, but for deliveries. */
static const char select_only[] = "SELECT id FROM envelopes WHERE seq = ?1"
                                  " AND ?2 IN (SELECT agent FROM addresses WHERE seq = ?1)";

/* Or it is a publication: of its deliveries, those in which the agent may have been addressed, and
   of each whether it was. One after the other, since SQLite would make the whole view for all. */
static const char select_deliveries[] =
    "SELECT d.seq FROM channel_deliveries d JOIN handoffs h ON h.seq = d.seq"
    " WHERE d.publication = ?1 AND (?2 IN (h.asked_target, h.target)"
    " OR EXISTS (SELECT 1 FROM attempts a WHERE a.seq = d.seq AND a.target = ?2))"
    " ORDER BY d.seq DESC";
static const char select_delivery_if[] =
    "SELECT id FROM envelopes WHERE seq = ?1"
    " AND EXISTS (SELECT 1 FROM addresses WHERE seq = ?1 AND agent = ?2 AND open = ?3)";

/* The first that retention has left, orphans as well. */
static const char select_first[] =
    "SELECT coalesce(e.id, c.id), coalesce(h.source, c.source) = ?2,"
    " f.seq, EXISTS (SELECT 1 FROM addressed WHERE seq = f.seq), c.replaced_by IS NOT NULL"
    " FROM (SELECT coalesce((SELECT min(seq) FROM addressed"
    " WHERE task_id = ?1 AND agent = '' AND open = 0),"
    " (SELECT min(seq) FROM task_envelopes WHERE task_id = ?1)) AS seq) f"
    " LEFT JOIN envelopes e ON e.seq = f.seq"
    " LEFT JOIN handoffs h ON h.seq = f.seq LEFT JOIN contributions c ON c.seq = f.seq"
    " WHERE coalesce(e.id, c.id) IS NOT NULL";

static enum handoff_code read_only_one(struct handoff_db *db, int64_t seq, struct base_span agent,
                                       struct base_arena *arena, struct ids *ids,
                                       struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, select_only, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    handoff_db_bind_text(select, 2, agent);
    return read_ids(db, select, arena, ids, error);
}

static enum handoff_code read_delivery_if(struct handoff_db *db, int64_t seq,
                                          struct base_span agent, bool open,
                                          struct base_arena *arena, struct ids *ids,
                                          struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, select_delivery_if, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    handoff_db_bind_text(select, 2, agent);
    sqlite3_bind_int(select, 3, open);
    return read_ids(db, select, arena, ids, error);
}

/* All that are open, or the newest that is not. */
static enum handoff_code read_unlisted_deliveries(struct handoff_db *db, int64_t publication,
                                                  struct base_span agent, bool open,
                                                  struct base_arena *arena, struct ids *ids,
                                                  struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *select = handoff_db_statement(db, select_deliveries, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, publication);
    handoff_db_bind_text(select, 2, agent);
    while (code == HANDOFF_OK && (open || ids->count == 0) && handoff_db_row(select))
        code =
            read_delivery_if(db, sqlite3_column_int64(select, 0), agent, open, arena, ids, error);
    enum handoff_code end = handoff_db_end(db, select, code == HANDOFF_OK ? error : NULL);
    return code == HANDOFF_OK ? end : code;
}

static enum handoff_code read_unlisted(struct handoff_db *db, int64_t first, struct base_span agent,
                                       struct base_arena *arena, struct ids *ids,
                                       struct handoff_error *error)
{
    enum handoff_code code = read_only_one(db, first, agent, arena, ids, error);
    if (code == HANDOFF_OK && ids->count == 0)
        code = read_unlisted_deliveries(db, first, agent, true, arena, ids, error);
    if (code == HANDOFF_OK && ids->count == 0)
        code = read_unlisted_deliveries(db, first, agent, false, arena, ids, error);
    return code;
}

static enum handoff_code read_addressed(struct handoff_db *db, const char *text,
                                        struct base_span task_id, struct base_span agent,
                                        struct base_arena *arena, struct ids *ids,
                                        struct handoff_error *error)
{
    sqlite3_stmt *select = handoff_db_statement(db, text, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, task_id);
    handoff_db_bind_text(select, 2, agent);
    return read_ids(db, select, arena, ids, error);
}

struct first_envelope {
    int64_t seq;
    bool task_is_listed, replaced;
};

/* What replaced this one; 0: retention left nothing of it, or nothing did. */
static enum handoff_code read_replacement(struct handoff_db *db, int64_t seq, int64_t *replacement,
                                          struct base_uuid *id, struct handoff_error *error)
{
    *replacement = 0;
    sqlite3_stmt *select = handoff_db_statement(
        db,
        "SELECT r.replaced_by, " HANDOFF_SEQ_OF_ID(
            "r.replaced_by") " AS edit"
                             " FROM contributions r WHERE r.seq = ?1 AND edit IS NOT NULL",
        error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    if (handoff_db_row(select)) {
        copy_id(select, 0, id);
        *replacement = sqlite3_column_int64(select, 1);
    }
    return handoff_db_end(db, select, error);
}

/* The edit of the first envelope stands for it, and an edit of that for both. */
static enum handoff_code follow_edits(struct handoff_db *db, const struct first_envelope *first,
                                      struct base_uuid *id, struct handoff_error *error)
{
    int64_t seq = first->replaced ? first->seq : 0, next = 0;
    enum handoff_code code = HANDOFF_OK;
    for (; code == HANDOFF_OK && seq != 0; seq = next > seq ? next : 0)
        code = read_replacement(db, seq, &next, id, error);
    return code;
}

static enum handoff_code read_first(struct handoff_db *db, struct base_span task_id,
                                    struct base_span agent, struct handoff_continued *continued,
                                    struct first_envelope *first, struct handoff_error *error)
{
    *first = (struct first_envelope){0};
    sqlite3_stmt *select = handoff_db_statement(db, select_first, error);
    if (!select)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(select, 1, task_id);
    handoff_db_bind_text(select, 2, agent);
    continued->is_known = handoff_db_row(select);
    if (continued->is_known) {
        copy_id(select, 0, &continued->first);
        continued->began_it = sqlite3_column_int(select, 1) == 1;
        first->seq = sqlite3_column_int64(select, 2);
        first->task_is_listed = sqlite3_column_int(select, 3) == 1;
        first->replaced = sqlite3_column_int(select, 4) == 1;
    }
    return handoff_db_end(db, select, error);
}

static enum handoff_code read_continued(struct handoff_db *db, struct base_span task_id,
                                        struct base_span agent, struct base_arena *arena,
                                        struct handoff_continued *continued,
                                        struct handoff_error *error)
{
    struct ids ids = {0};
    struct first_envelope first;
    enum handoff_code code = read_first(db, task_id, agent, continued, &first, error);
    if (code == HANDOFF_OK)
        code = follow_edits(db, &first, &continued->first, error);
    if (code != HANDOFF_OK || !continued->is_known)
        return code;
    if (!first.task_is_listed)
        code = read_unlisted(db, first.seq, agent, arena, &ids, error);
    else
        code = read_addressed(db, select_open, task_id, agent, arena, &ids, error);
    if (code == HANDOFF_OK && first.task_is_listed && ids.count == 0)
        code = read_addressed(db, select_newest, task_id, agent, arena, &ids, error);
    continued->ids = ids.at;
    continued->nids = ids.count;
    continued->is_party = !agent.data || ids.count > 0 || continued->began_it;
    return code;
}

enum handoff_code handoff_store_find_continued(struct handoff_store *store,
                                               struct base_span task_id, struct base_span agent,
                                               struct base_arena *arena,
                                               struct handoff_continued *continued,
                                               struct handoff_error *error)
{
    *continued = (struct handoff_continued){0};
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = handoff_db_exec(db, "BEGIN", error);
    if (code == HANDOFF_OK)
        code = read_continued(db, task_id, agent, arena, continued, error);
    handoff_db_roll_back(db);
    handoff_store_reader_done(store, db);
    return code;
}
