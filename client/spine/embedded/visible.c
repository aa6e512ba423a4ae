/* SPDX-License-Identifier: Apache-2.0 */
/* Visible scopes: their numbers, and the newest of their memories. The thread: visible.h. */
#include "client/spine/embedded/visible.h"

#include <stdlib.h>
#include <string.h>

#include "client/spine/embedded/place.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

static enum handoff_code add_scope(struct handoff_visible *visible, struct handoff_db *db,
                                   struct base_span name, struct handoff_error *error)
{
    sqlite3_stmt *find = handoff_db_statement(
        db, "SELECT number, memories FROM memory_scopes WHERE name = ?1", error);
    if (!find)
        return handoff_db_failure(db, NULL);
    handoff_db_bind_text(find, 1, name);
    if (handoff_db_row(find)) {
        visible->scopes[visible->count++] = sqlite3_column_int64(find, 0);
        visible->memories += sqlite3_column_int64(find, 1);
    }
    return handoff_db_end(db, find, error);
}

enum handoff_code handoff_visible_read(struct handoff_visible *visible, struct handoff_db *db,
                                       const struct handoff_scopes *scopes,
                                       struct handoff_error *error)
{
    *visible = (struct handoff_visible){.all = scopes->all};
    BASE_CHECK(scopes->count <= HANDOFF_SCOPES_MAX);
    enum handoff_code code = add_scope(visible, db, base_span_text(""), error);
    for (size_t i = 0; i < scopes->count && code == HANDOFF_OK; i++)
        code = add_scope(visible, db, scopes->names[i], error);
    BASE_CHECK(code != HANDOFF_OK || (visible->count > 0 && visible->scopes[0] == 0));
    return code;
}

bool handoff_visible_has(const struct handoff_visible *visible, int64_t seq)
{
    bool has = visible->all;
    for (size_t i = 0; i < visible->count && !has; i++)
        has = visible->scopes[i] == handoff_scope_of(seq);
    return has;
}

/* ---- the newest ------------------------------------------------------------------------------ */

static int more_recent(const void *a, const void *b)
{
    const int64_t left = handoff_recency_of(*(const int64_t *)a);
    const int64_t right = handoff_recency_of(*(const int64_t *)b);
    return (left < right) - (left > right);
}

static enum handoff_code add_newest(struct handoff_db *db, sqlite3_stmt *find, size_t most,
                                    int64_t *seqs, size_t *count, struct handoff_error *error)
{
    size_t added = 0;
    for (; added < most && handoff_db_row(find); added++)
        seqs[(*count)++] = sqlite3_column_int64(find, 0);
    return handoff_db_end(db, find, error);
}

enum handoff_code handoff_visible_newest(const struct handoff_visible *visible,
                                         struct handoff_db *db, const char *statement,
                                         struct base_span text, int64_t below, size_t most,
                                         struct base_arena *arena, int64_t **seqs, size_t *count,
                                         struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    BASE_CHECK(!visible->all && below <= handoff_first_place(1));
    *count = 0;
    *seqs = base_arena_alloc(arena, (visible->count * most + 1) * sizeof **seqs);
    if (!*seqs)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < visible->count && code == HANDOFF_OK; i++) {
        const int64_t first = handoff_first_place(visible->scopes[i]);
        sqlite3_stmt *find = handoff_db_statement(db, statement, error);
        if (!find)
            return handoff_db_failure(db, NULL);
        sqlite3_bind_int64(find, 1, first);
        sqlite3_bind_int64(find, 2, first + (below - 1));
        sqlite3_bind_int64(find, 3, (int64_t)most);
        if (text.data)
            handoff_db_bind_text(find, 4, text);
        code = add_newest(db, find, most, *seqs, count, error);
    }
    qsort(*seqs, *count, sizeof **seqs, more_recent);
    if (*count > most)
        *count = most;
    return code;
}
