/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds parked handoffs, see parked.h. The index answers all but the words, which are looked for
 * here: SQLite would begin anew for each. On a reader thread.
 */
#include "client/store/parked.h"

#include <string.h>
#include <strings.h>

#include "client/store/sqlite/database.h"
#include "client/store/sqlite/party_rows.h"

/* ---- words ------------------------------------------------------------------------------------
 */

/* ASCII letters in either case. */
static bool has_word(struct base_span text, struct base_span word)
{
    for (size_t at = 0; at + word.size <= text.size; at++) {
        if (strncasecmp(text.data + at, word.data, word.size) == 0)
            return true;
    }
    return false;
}

static bool row_has_word(const struct handoff_parked_row *row, struct base_span word)
{
    return has_word(row->summary, word) || has_word(row->error, word) ||
           has_word(row->reason, word) || has_word(row->target, word) ||
           has_word(row->source, word);
}

/* Absent at the end. */
static struct base_span next_parked_word(struct base_span *words)
{
    size_t begin = 0, end;
    while (begin < words->size && words->data[begin] == ' ')
        begin++;
    for (end = begin; end < words->size && words->data[end] != ' ';)
        end++;
    struct base_span word = base_span(end > begin ? words->data + begin : NULL, end - begin);
    *words = base_span(words->data + end, words->size - end);
    return word;
}

static bool row_has_words(const struct handoff_parked_row *row, struct base_span words)
{
    while (words.size > 0) {
        struct base_span word = next_parked_word(&words);
        if (word.data && !row_has_word(row, word))
            return false;
    }
    return true;
}

/* ---- rows -------------------------------------------------------------------------------------
 */

#define PARKED_ROWS(where)                                                                         \
    "SELECT h.seq, h.target, h.source, h.reason, h.error, h.summary, h.settled_at"                 \
    " FROM handoffs h INDEXED BY handoffs_parked_rows WHERE h.state = 5" where                     \
    " AND (?1 IS NULL OR h.target = ?1) AND (?2 IS NULL OR h.source = ?2)"                         \
    " AND (?3 IS NULL OR h.reason = ?3) AND (?4 IS NULL OR h.error = ?4)"                          \
    " AND h.settled_at >= ?5 AND (?6 = 0 OR h.settled_at < ?6)"
#define OF_TASK     " AND h.seq IN (SELECT seq FROM task_envelopes WHERE task_id = ?8)"
#define OF_PARTY    " AND " HANDOFF_ROW_CONCERNS("?9")
#define PARKED_ASC  " AND h.seq > ?7 ORDER BY h.seq"
#define PARKED_DESC " AND (?7 = 0 OR h.seq < ?7) ORDER BY h.seq DESC"

/* What needs another table or column than the index has is a statement's own. */
static const char *select_parked(const struct handoff_parked_filter *filter)
{
    static const char *const statements[2][2][2] = {
        {{PARKED_ROWS("") PARKED_ASC, PARKED_ROWS("") PARKED_DESC},
         {PARKED_ROWS(OF_PARTY) PARKED_ASC, PARKED_ROWS(OF_PARTY) PARKED_DESC}},
        {{PARKED_ROWS(OF_TASK) PARKED_ASC, PARKED_ROWS(OF_TASK) PARKED_DESC},
         {PARKED_ROWS(OF_TASK OF_PARTY) PARKED_ASC, PARKED_ROWS(OF_TASK OF_PARTY) PARKED_DESC}}};
    return statements[filter->task_id.data != NULL][filter->party.data != NULL]
                     [filter->newest_first];
}

static void bind_parked(sqlite3_stmt *select, const struct handoff_parked_filter *filter)
{
    handoff_db_bind_text(select, 1, filter->target);
    handoff_db_bind_text(select, 2, filter->source);
    handoff_db_bind_text(select, 3, filter->reason);
    handoff_db_bind_text(select, 4, filter->error);
    sqlite3_bind_int64(select, 5, filter->since_ms);
    sqlite3_bind_int64(select, 6, filter->until_ms);
    sqlite3_bind_int64(select, 7, filter->beyond);
    if (filter->task_id.data)
        handoff_db_bind_text(select, 8, filter->task_id);
    if (filter->party.data)
        handoff_db_bind_text(select, 9, filter->party);
}

static struct handoff_parked_row read_parked_row(sqlite3_stmt *row)
{
    return (struct handoff_parked_row){.seq = sqlite3_column_int64(row, 0),
                                       .target = handoff_db_column(row, 1),
                                       .source = handoff_db_column(row, 2),
                                       .reason = handoff_db_column(row, 3),
                                       .error = handoff_db_column(row, 4),
                                       .summary = handoff_db_column(row, 5),
                                       .parked_ms = sqlite3_column_int64(row, 6)};
}

static enum handoff_code
find_parked_in(struct handoff_db *db, const struct handoff_parked_filter *filter,
               bool (*visit)(void *arg, const struct handoff_parked_row *row), void *arg,
               struct handoff_error *error)
{
    bool goes_on = true;
    sqlite3_stmt *select = handoff_db_statement(db, select_parked(filter), error);
    if (!select)
        return handoff_db_failure(db, NULL);
    bind_parked(select, filter);
    while (goes_on && handoff_db_row(select)) {
        const struct handoff_parked_row row = read_parked_row(select);
        if (row_has_words(&row, filter->words))
            goes_on = visit(arg, &row);
    }
    return handoff_db_end(db, select, error);
}

enum handoff_code
handoff_store_find_parked(struct handoff_store *store, const struct handoff_parked_filter *filter,
                          bool (*visit)(void *arg, const struct handoff_parked_row *row), void *arg,
                          struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    enum handoff_code code = find_parked_in(db, filter, visit, arg, error);
    handoff_store_reader_done(store, db);
    return code;
}

/* ---- ids --------------------------------------------------------------------------------------
 */

static enum handoff_code get_id(struct handoff_db *db, int64_t seq, struct base_uuid *ids,
                                size_t *count, struct handoff_error *error)
{
    sqlite3_stmt *select =
        handoff_db_statement(db, "SELECT id FROM envelopes WHERE seq = ?1", error);
    if (!select)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(select, 1, seq);
    if (handoff_db_row(select)) {
        struct base_span id = handoff_db_column(select, 0);
        if (id.size == sizeof ids->bytes)
            memcpy(ids[(*count)++].bytes, id.data, id.size);
    }
    return handoff_db_end(db, select, error);
}

enum handoff_code handoff_store_get_ids(struct handoff_store *store, const int64_t *seqs,
                                        size_t nseqs, struct base_uuid *ids, size_t *count,
                                        struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    enum handoff_code code = HANDOFF_OK;
    *count = 0;
    if (!db)
        return error ? error->code : HANDOFF_ERR_STORE_IO;
    for (size_t i = 0; i < nseqs && code == HANDOFF_OK; i++)
        code = get_id(db, seqs[i], ids, count, error);
    handoff_store_reader_done(store, db);
    return code;
}
