/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-only connections. A thread borrows one for a read and gives it back; when all are out,
 * another is opened, so that no reader ever waits, and only a few are kept when they come back.
 */
#include "client/store/sqlite/bodies.h"
#include "client/store/sqlite/store_internal.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/serving.h"

enum { KEPT_READERS = 8 }; /* one per loop of a usual machine; each keeps up to 4 MiB of pages */

static struct handoff_db *take_idle(struct handoff_store *store)
{
    pthread_mutex_lock(&store->readers_lock);
    struct handoff_db *db = store->idle_readers;
    if (db) {
        store->idle_readers = db->next;
        store->idle_count--;
    }
    pthread_mutex_unlock(&store->readers_lock);
    return db;
}

static void discard(struct handoff_db *db)
{
    handoff_db_close(db);
    base_free(db);
}

/* Opened by its name, so it may be another database by now. */
static bool is_of_this_store(struct handoff_store *store, struct handoff_error *error)
{
    const char *displaced = handoff_store_files_displaced(&store->files, HANDOFF_STORE_FILES);
    if (displaced)
        handoff_store_displaced(displaced, error);
    return !displaced;
}

static struct handoff_db *open_reader(struct handoff_store *store, struct handoff_error *error)
{
    struct handoff_db *db = base_malloc(sizeof *db);
    if (!db) {
        handoff_error_no_memory(error);
        return NULL;
    }
    if (handoff_db_open(db, store->data_dir.database, HANDOFF_DB_READ, store->options.vfs, error) !=
        HANDOFF_OK) {
        base_free(db);
        return NULL;
    }
    if (is_of_this_store(store, error))
        return db;
    discard(db);
    return NULL;
}

struct handoff_db *handoff_store_reader(struct handoff_store *store, struct handoff_error *error)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    BASE_CHECK(!base_thread_is_serving()); /* it would wait for the disk: submit a read */
    const char *displaced = handoff_store_displaced_file(store);
    if (displaced) {
        handoff_store_displaced(displaced, error);
        return NULL;
    }
    struct handoff_db *db = take_idle(store);
    return db ? db : open_reader(store, error);
}

void handoff_store_reader_done(struct handoff_store *store, struct handoff_db *db)
{
    BASE_CHECK(sqlite3_get_autocommit(db->sqlite)); /* no snapshot may stay behind, */
    handoff_body_file_close(&db->bodies); /* nor a file that retention removes meanwhile */
    pthread_mutex_lock(&store->readers_lock);
    bool keep = store->idle_count < KEPT_READERS;
    if (keep) {
        db->next = store->idle_readers;
        store->idle_readers = db;
        store->idle_count++;
    }
    pthread_mutex_unlock(&store->readers_lock);
    if (!keep)
        discard(db);
}

void handoff_store_readers_close(struct handoff_store *store)
{
    for (struct handoff_db *db = take_idle(store); db; db = take_idle(store))
        discard(db);
}
