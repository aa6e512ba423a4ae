/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints beside the writer, see checkpoint.h. A dedicated thread copies; the writer thread
 * asks for it and copies the rest.
 */
#include "client/store/sqlite/checkpoint.h"

#include "client/store/sqlite/bodies.h"

void handoff_checkpoint_init(struct handoff_checkpoint *checkpoint, const char *database,
                             const char *vfs)
{
    *checkpoint = (struct handoff_checkpoint){.database = database, .vfs = vfs};
    pthread_mutex_init(&checkpoint->lock, NULL);
    pthread_cond_init(&checkpoint->changed, NULL);
}

/* ---- copying: the thread, or the writer, never both ----------------------------------------- */

static void set_sync_failed(struct handoff_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->sync_failed = true;
    pthread_mutex_unlock(&checkpoint->lock);
}

int handoff_checkpoint_copy(struct handoff_checkpoint *checkpoint, struct handoff_db *db,
                            int *pages)
{
    int result =
        sqlite3_wal_checkpoint_v2(db->sqlite, NULL, SQLITE_CHECKPOINT_PASSIVE, pages, NULL);
    if (result == SQLITE_IOERR_FSYNC)
        set_sync_failed(checkpoint);
    return result;
}

bool handoff_checkpoint_sync_failed(struct handoff_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    bool failed = checkpoint->sync_failed;
    pthread_mutex_unlock(&checkpoint->lock);
    return failed;
}

void handoff_checkpoint_before_close(struct handoff_checkpoint *checkpoint, struct handoff_db *db)
{
    if (checkpoint->sync_failed && db->sqlite)
        sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

/* ---- the thread ---------------------------------------------------------------------------- */

/* Failures are not told: what is not copied here, the writer copies, and tells its own. */
static void sync_bodies(struct handoff_db *db, int64_t number)
{
    sqlite3_file *file;
    if (number == 0 ||
        handoff_body_file_open(db, number, SQLITE_OPEN_READWRITE, &file) != SQLITE_OK)
        return;
    file->pMethods->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    handoff_body_file_close(&file);
}

/* Gives the pages that were in the WAL when it began; -1: it failed. */
static int copy_wal(struct handoff_checkpoint *checkpoint, struct handoff_db *db, int64_t bodies)
{
    int pages = -1;
    if (!db->sqlite && handoff_db_open(db, checkpoint->database, HANDOFF_DB_WRITE, checkpoint->vfs,
                                       NULL) != HANDOFF_OK)
        return -1;
    sync_bodies(db, bodies);
    return handoff_checkpoint_copy(checkpoint, db, &pages) == SQLITE_OK ? pages : -1;
}

static bool has_grown(struct handoff_checkpoint *checkpoint, int pages)
{
    pthread_mutex_lock(&checkpoint->lock);
    bool grown = checkpoint->pages > pages;
    pthread_mutex_unlock(&checkpoint->lock);
    return grown;
}

/* What came during the first pass is copied by the second, and what came during that is little.
   Without proof that something came, there is none: see the head of checkpoint.h. */
static void copy_most(struct handoff_checkpoint *checkpoint, struct handoff_db *db, int64_t bodies)
{
    int copied = copy_wal(checkpoint, db, bodies);
    if (copied >= 0 && has_grown(checkpoint, copied))
        copy_wal(checkpoint, db, bodies);
}

static void *run_checkpoints(void *argument)
{
    struct handoff_checkpoint *checkpoint = argument;
    struct handoff_db db = {0};
    pthread_mutex_lock(&checkpoint->lock);
    while (!checkpoint->stopping) {
        if (checkpoint->state != HANDOFF_CHECKPOINT_ASKED) {
            pthread_cond_wait(&checkpoint->changed, &checkpoint->lock);
            continue;
        }
        int64_t bodies = checkpoint->bodies;
        pthread_mutex_unlock(&checkpoint->lock);
        copy_most(checkpoint, &db, bodies);
        pthread_mutex_lock(&checkpoint->lock);
        checkpoint->state = HANDOFF_CHECKPOINT_PREPARED;
        pthread_cond_broadcast(&checkpoint->changed);
    }
    pthread_mutex_unlock(&checkpoint->lock);
    handoff_db_close(&db);
    return NULL;
}

/* ---- the writer's side --------------------------------------------------------------------- */

static bool start_checkpoint_thread(struct handoff_checkpoint *checkpoint)
{
    if (!checkpoint->started)
        checkpoint->started =
            pthread_create(&checkpoint->thread, NULL, run_checkpoints, checkpoint) == 0;
    return checkpoint->started;
}

bool handoff_checkpoint_prepared(struct handoff_checkpoint *checkpoint, int pages, int64_t bodies,
                                 bool wait)
{
    bool started = start_checkpoint_thread(checkpoint);
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->pages = pages;
    if (!started)
        checkpoint->state = HANDOFF_CHECKPOINT_PREPARED;
    if (checkpoint->state == HANDOFF_CHECKPOINT_IDLE && !checkpoint->sync_failed) {
        checkpoint->state = HANDOFF_CHECKPOINT_ASKED;
        checkpoint->bodies = bodies;
        pthread_cond_broadcast(&checkpoint->changed);
    }
    while (wait && checkpoint->state == HANDOFF_CHECKPOINT_ASKED)
        pthread_cond_wait(&checkpoint->changed, &checkpoint->lock);
    bool prepared = checkpoint->state == HANDOFF_CHECKPOINT_PREPARED && !checkpoint->sync_failed;
    if (prepared)
        checkpoint->state = HANDOFF_CHECKPOINT_IDLE;
    pthread_mutex_unlock(&checkpoint->lock);
    return prepared;
}

void handoff_checkpoint_stop(struct handoff_checkpoint *checkpoint)
{
    pthread_mutex_lock(&checkpoint->lock);
    checkpoint->stopping = true;
    pthread_mutex_unlock(&checkpoint->lock);
    pthread_cond_broadcast(&checkpoint->changed);
    if (checkpoint->started)
        pthread_join(checkpoint->thread, NULL);
    pthread_cond_destroy(&checkpoint->changed);
    pthread_mutex_destroy(&checkpoint->lock);
}
