/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and numbers of the embedded spine, read on a reader thread of the store's. */
#include <string.h>

#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/place.h"
#include "client/spine/embedded/visible.h"
#include "lib/base/error.h"

static void read_done(struct handoff_store_read *read)
{
    struct handoff_spine_call *call = handoff_embedded_call(handoff_embedded_scratch_of_read(read));
    call->done(call);
}

enum handoff_spine_progress handoff_embedded_read(struct handoff_spine *spine,
                                                  struct handoff_spine_call *call,
                                                  void (*run)(struct handoff_store_read *read))
{
    struct handoff_embedded_scratch *scratch = handoff_embedded_scratch(call);
    scratch->embedded = handoff_embedded_of(spine);
    scratch->read =
        (struct handoff_store_read){.mailbox = call->mailbox, .run = run, .done = read_done};
    handoff_store_submit_read(scratch->embedded->store, &scratch->read);
    return HANDOFF_SPINE_PENDING;
}

/* ---- list ---------------------------------------------------------------------------------- */

/* A cursor is the recency of the last memory of the page before. */
static enum handoff_code read_cursor(struct base_span cursor, int64_t *below,
                                     struct handoff_error *error)
{
    *below = handoff_first_place(1);
    if (!cursor.data)
        return HANDOFF_OK;
    int64_t number = 0;
    size_t at = 0;
    for (; at < cursor.size && at < 18 && cursor.data[at] >= '0' && cursor.data[at] <= '9'; at++)
        number = number * 10 + (cursor.data[at] - '0');
    if (at != cursor.size || number <= 0 || number >= *below)
        return handoff_error_set(error, HANDOFF_ERR_INVALID_CURSOR,
                                 "the cursor is not from this list; start again without one",
                                 "cursor", NULL);
    *below = number;
    return HANDOFF_OK;
}

static enum handoff_code set_next(struct handoff_spine_list *list, struct handoff_error *error)
{
    char *text =
        base_arena_printf(list->arena, "%lld",
                          (long long)handoff_recency_of(list->memories[list->count - 1].version));
    if (!text)
        return handoff_error_no_memory(error);
    list->next = base_span_text(text);
    return HANDOFF_OK;
}

/* A page also ends where it becomes long: it is written on a loop, which serves others too. */
enum { PAGE_BYTES = 512 * 1024 };

/* A page in the making. */
struct page {
    struct handoff_spine_list *list;
    struct handoff_db *db;
    int64_t below;
    int64_t *seqs; /* one more than the page has room for, to know whether there is a next one */
    size_t count;
};

/* By the index of recency, over all scopes. */
static enum handoff_code find_all(struct page *page, struct handoff_error *error)
{
    const struct handoff_spine_list *list = page->list;
    sqlite3_stmt *find =
        list->pinned_only
            ? handoff_db_statement(page->db,
                                   "SELECT seq FROM memories INDEXED BY memories_pinned_recent"
                                   " WHERE pinned = 1 AND (seq & 1099511627775) < ?1"
                                   " ORDER BY seq & 1099511627775 DESC LIMIT ?2",
                                   error)
            : handoff_db_statement(page->db,
                                   "SELECT seq FROM memories INDEXED BY memories_recent"
                                   " WHERE (seq & 1099511627775) < ?1"
                                   " ORDER BY seq & 1099511627775 DESC LIMIT ?2",
                                   error);
    if (!find)
        return handoff_db_failure(page->db, NULL);
    page->seqs = base_arena_alloc(list->arena, (list->limit + 1) * sizeof *page->seqs);
    sqlite3_bind_int64(find, 1, page->below);
    sqlite3_bind_int64(find, 2, (int64_t)list->limit + 1);
    while (page->seqs && page->count <= list->limit && handoff_db_row(find))
        page->seqs[page->count++] = sqlite3_column_int64(find, 0);
    enum handoff_code code = handoff_db_end(page->db, find, error);
    return page->seqs ? code : handoff_error_no_memory(error);
}

static enum handoff_code find_visible(struct page *page, struct handoff_error *error)
{
    const struct handoff_spine_list *list = page->list;
    struct handoff_visible visible;
    enum handoff_code code = handoff_visible_read(&visible, page->db, &list->scopes, error);
    if (code != HANDOFF_OK)
        return code;
    return handoff_visible_newest(&visible, page->db,
                                  list->pinned_only
                                      ? "SELECT seq FROM memories WHERE pinned = 1"
                                        " AND seq BETWEEN ?1 AND ?2 ORDER BY seq DESC LIMIT ?3"
                                      : "SELECT seq FROM memories WHERE seq BETWEEN ?1 AND ?2"
                                        " ORDER BY seq DESC LIMIT ?3",
                                  base_span(NULL, 0), page->below, list->limit + 1, list->arena,
                                  &page->seqs, &page->count, error);
}

static enum handoff_code read_listed(struct page *page, int64_t seq, struct handoff_error *error)
{
    struct handoff_spine_list *list = page->list;
    enum handoff_code code = HANDOFF_OK;
    sqlite3_stmt *find = handoff_db_statement(
        page->db, "SELECT " HANDOFF_MEMORY_COLUMNS " FROM memories WHERE seq = ?1", error);
    if (!find)
        return handoff_db_failure(page->db, NULL);
    sqlite3_bind_int64(find, 1, seq);
    if (handoff_db_row(find))
        code = handoff_embedded_read_row(find, list->arena, &list->memories[list->count++], error);
    enum handoff_code end = handoff_db_end(page->db, find, code == HANDOFF_OK ? error : NULL);
    return code != HANDOFF_OK ? code : end;
}

static enum handoff_code read_page(struct page *page, struct handoff_error *error)
{
    struct handoff_spine_list *list = page->list;
    enum handoff_code code = list->scopes.all ? find_all(page, error) : find_visible(page, error);
    size_t bytes = 0;
    for (size_t i = 0; i < page->count && code == HANDOFF_OK; i++) {
        if (list->count == list->limit || bytes > PAGE_BYTES)
            return set_next(list, error);
        code = read_listed(page, page->seqs[i], error);
        if (code == HANDOFF_OK)
            bytes += handoff_memory_bytes(&list->memories[list->count - 1]);
    }
    return code;
}

static enum handoff_code read_page_in_snapshot(struct page *page, struct handoff_error *error)
{
    enum handoff_code code = handoff_db_exec(page->db, "BEGIN", error);
    if (code == HANDOFF_OK)
        code = read_page(page, error);
    handoff_db_roll_back(page->db);
    return code;
}

static void run_page_read(struct handoff_store_read *read)
{
    struct handoff_embedded_scratch *scratch = handoff_embedded_scratch_of_read(read);
    struct handoff_spine_list *list = (void *)handoff_embedded_call(scratch);
    struct handoff_embedded *embedded = scratch->embedded;
    struct handoff_error *error = &list->call.error;
    struct page page = {.list = list};
    if (read_cursor(list->cursor, &page.below, error) != HANDOFF_OK)
        return;
    list->memories = base_arena_alloc(list->arena, list->limit * sizeof *list->memories);
    if (!list->memories) {
        handoff_error_no_memory(error);
        return;
    }
    page.db = handoff_store_reader(embedded->store, error);
    if (!page.db)
        return;
    if (read_page_in_snapshot(&page, error) != HANDOFF_OK)
        list->count = 0;
    handoff_store_reader_done(embedded->store, page.db);
}

enum handoff_spine_progress handoff_embedded_list(struct handoff_spine *spine,
                                                  struct handoff_spine_list *list)
{
    return handoff_embedded_read(spine, &list->call, run_page_read);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static void run_stats_read(struct handoff_store_read *read)
{
    struct handoff_embedded_scratch *scratch = handoff_embedded_scratch_of_read(read);
    struct handoff_spine_stats *stats = (void *)handoff_embedded_call(scratch);
    struct handoff_embedded *embedded = scratch->embedded;
    struct handoff_error *error = &stats->call.error;
    struct handoff_db *db = handoff_store_reader(embedded->store, error);
    stats->memories = stats->pinned = 0;
    if (!db)
        return;
    if (handoff_db_number(db, "SELECT count(*) FROM memories", &stats->memories, error) ==
        HANDOFF_OK) {
        enum handoff_code code = handoff_db_number(
            db, "SELECT count(*) FROM memories WHERE pinned = 1", &stats->pinned, error);
        stats->pinned = code == HANDOFF_OK ? stats->pinned : 0;
    }
    handoff_store_reader_done(embedded->store, db);
}

enum handoff_spine_progress handoff_embedded_stats(struct handoff_spine *spine,
                                                   struct handoff_spine_stats *stats)
{
    return handoff_embedded_read(spine, &stats->call, run_stats_read);
}
