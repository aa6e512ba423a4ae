/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the search index of a store anew from its rows, for handoffctl: forgets all of its files,
 * and opens the index, which then reads every row. It has stems if it had before (spine.stemming):
 * what the daemon would not use would be made in vain. On the caller's thread, which may block.
 */
#include <stdio.h>
#include <string.h>

#include "client/spine/embedded/embedded.h"
#include "client/spine/embedded/index.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

struct reindexing {
    void (*progress)(void *context, int64_t done, int64_t all);
    void *context;
    int64_t all;
};

static enum handoff_code run_forget(struct handoff_store_job *job, struct handoff_db *db,
                                    struct handoff_error *error)
{
    (void)job;
    return handoff_db_exec(db, "DELETE FROM search_segments; DELETE FROM memories_gone", error);
}

static void report_progress(void *context, int64_t done)
{
    const struct reindexing *on = context;
    if (on->progress)
        on->progress(on->context, done < on->all ? done : on->all, on->all);
}

static enum handoff_code count_rows_to_read(struct handoff_store *store, int64_t *count,
                                            struct handoff_error *error)
{
    struct handoff_db *db = handoff_store_reader(store, error);
    if (!db)
        return error->code;
    enum handoff_code code =
        handoff_db_number(db, "SELECT coalesce(sum(memories), 0) FROM memory_scopes", count, error);
    handoff_store_reader_done(store, db);
    return code;
}

/* False: it cannot be read. */
static bool read_flags(const char *database, int64_t number, unsigned *flags)
{
    const size_t room = strlen(database) + 64;
    struct search_segment_facts facts;
    char *path = base_malloc(room);
    if (!path)
        return false;
    snprintf(path, room, "%s-search-%lld", database, (long long)number);
    struct search_segment *segment = search_segment_open(path, 0, number);
    base_free(path);
    if (!segment)
        return false;
    search_segment_read_facts(segment, &facts);
    *flags = handoff_memory_index_flags(facts.words);
    search_segment_close(&segment);
    return true;
}

/* Those of the newest file that can be read; without one, the usual. */
static unsigned flags_of_files(struct handoff_store *store)
{
    unsigned flags = 0;
    struct handoff_db *db = handoff_store_reader(store, NULL);
    sqlite3_stmt *files =
        db ? handoff_db_statement(db, "SELECT number FROM search_segments ORDER BY number DESC",
                                  NULL)
           : NULL;
    while (files && handoff_db_row(files))
        if (read_flags(db->path, sqlite3_column_int64(files, 0), &flags))
            break;
    if (files)
        (void)handoff_db_end(db, files, NULL);
    if (db)
        handoff_store_reader_done(store, db);
    return flags;
}

static enum handoff_code reindex(struct handoff_store *store, struct reindexing *on,
                                 struct handoff_error *error)
{
    struct handoff_store_job forget = {.run = run_forget};
    struct handoff_memory_index *index = NULL;
    const unsigned flags = flags_of_files(store);
    enum handoff_code code = count_rows_to_read(store, &on->all, error);
    if (code == HANDOFF_OK && (code = handoff_store_run(store, &forget)) != HANDOFF_OK)
        *error = forget.error;
    if (code == HANDOFF_OK)
        code = handoff_memory_index_open(&index, store, flags, error);
    if (code != HANDOFF_OK)
        return code;
    code = handoff_memory_index_settle(index, report_progress, on, error);
    handoff_memory_index_close(&index);
    return code;
}

enum handoff_code handoff_store_reindex(const char *path,
                                        void (*progress)(void *context, int64_t done, int64_t all),
                                        void *context, struct handoff_error *error)
{
    const struct handoff_store_options options = {.path = path};
    struct reindexing on = {.progress = progress, .context = context};
    struct handoff_error own = {0};
    struct handoff_store *store;
    error = error ? error : &own;
    enum handoff_code code = handoff_store_open(&store, &options, error);
    if (code != HANDOFF_OK)
        return code;
    code = reindex(store, &on, error);
    handoff_store_close(&store);
    return code;
}
