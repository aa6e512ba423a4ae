/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and numbers of the embedded spine, read on a reader thread of the store's. */
#include <string.h>

#include "client/spine/embedded/embedded.h"
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

/* A cursor is the seq of the last memory of the page before. */
static enum handoff_code read_cursor(struct base_span cursor, int64_t *below,
                                     struct handoff_error *error)
{
    *below = INT64_MAX;
    if (!cursor.data)
        return HANDOFF_OK;
    int64_t number = 0;
    size_t at = 0;
    for (; at < cursor.size && at < 18 && cursor.data[at] >= '0' && cursor.data[at] <= '9'; at++)
        number = number * 10 + (cursor.data[at] - '0');
    if (at != cursor.size || number <= 0)
        return handoff_error_set(error, HANDOFF_ERR_INVALID_CURSOR,
                                 "the cursor is not from this list; start again without one",
                                 "cursor", NULL);
    *below = number;
    return HANDOFF_OK;
}

static enum handoff_code set_next(struct handoff_spine_list *list, struct handoff_error *error)
{
    char *text =
        base_arena_printf(list->arena, "%lld", (long long)list->memories[list->count - 1].version);
    if (!text)
        return handoff_error_no_memory(error);
    list->next = base_span_text(text);
    return HANDOFF_OK;
}

/* A page also ends where it becomes long: it is written on a loop, which serves others too. */
enum { PAGE_BYTES = 512 * 1024 };

static size_t bytes_of_memory(const struct handoff_memory *memory)
{
    return memory->content.size + memory->summary.size + memory->metadata.size;
}

/* One row more than the page is looked for, to know whether there is a next one. */
static enum handoff_code read_page(struct handoff_db *db, struct handoff_spine_list *list,
                                   int64_t below, struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    bool more = false;
    size_t bytes = 0;
    sqlite3_stmt *page =
        list->pinned_only
            ? handoff_db_statement(db,
                                   "SELECT " HANDOFF_MEMORY_COLUMNS " FROM memories"
                                   " WHERE pinned = 1 AND seq < ?1 ORDER BY seq DESC LIMIT ?2",
                                   error)
            : handoff_db_statement(db,
                                   "SELECT " HANDOFF_MEMORY_COLUMNS " FROM memories"
                                   " WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2",
                                   error);
    if (!page)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(page, 1, below);
    sqlite3_bind_int64(page, 2, (int64_t)list->limit + 1);
    while (code == HANDOFF_OK && handoff_db_row(page)) {
        struct handoff_memory *memory = &list->memories[list->count];
        more = list->count == list->limit || bytes > PAGE_BYTES;
        if (more)
            break;
        code = handoff_embedded_read_row(page, list->arena, memory, error);
        list->count++;
        if (code == HANDOFF_OK)
            bytes += bytes_of_memory(memory);
    }
    enum handoff_code end = handoff_db_end(db, page, code == HANDOFF_OK ? error : NULL);
    if (code != HANDOFF_OK || end != HANDOFF_OK)
        return code != HANDOFF_OK ? code : end;
    return more ? set_next(list, error) : HANDOFF_OK;
}

static void run_page_read(struct handoff_store_read *read)
{
    struct handoff_embedded_scratch *scratch = handoff_embedded_scratch_of_read(read);
    struct handoff_spine_list *list = (void *)handoff_embedded_call(scratch);
    struct handoff_embedded *embedded = scratch->embedded;
    struct handoff_error *error = &list->call.error;
    int64_t below;
    if (read_cursor(list->cursor, &below, error) != HANDOFF_OK)
        return;
    list->memories = base_arena_alloc(list->arena, list->limit * sizeof *list->memories);
    if (!list->memories) {
        handoff_error_no_memory(error);
        return;
    }
    struct handoff_db *db = handoff_store_reader(embedded->store, error);
    if (!db)
        return;
    if (read_page(db, list, below, error) != HANDOFF_OK)
        list->count = 0;
    handoff_store_reader_done(embedded->store, db);
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
