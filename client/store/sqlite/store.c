/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a store: the directory and its lock, the writer's connection, the schema, the
 * thread. Nothing is repaired silently: whatever is wrong comes back as an error that says what to
 * do.
 */
#include "client/store/store.h"

#include <string.h>
#include <sys/stat.h>

#include "client/store/ledger.h"
#include "client/store/sqlite/body_files.h"
#include "client/store/sqlite/body_orphans.h"
#include "client/store/sqlite/migrate.h"
#include "client/store/sqlite/retained_size.h"
#include "client/store/sqlite/retention.h"
#include "client/store/sqlite/store_internal.h"
#include "client/store/sqlite/task_index.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* So large that there are few, but small beside all that may be kept: a file goes as a whole. */
static int64_t body_file_bytes(int64_t retention_bytes)
{
    const int64_t most = 64 << 20, least = 1 << 20, share = retention_bytes / 16;
    if (retention_bytes == 0 || share > most)
        return most;
    return share < least ? least : share;
}

static void set_store_defaults(struct handoff_store *store,
                               const struct handoff_store_options *options)
{
    struct handoff_store_options *own = &store->options;
    *own = *options;
    own->path = NULL; /* lent for the call */
    if (!own->clock)
        own->clock = &base_clock_system;
    if (own->retention_every_ms <= 0)
        own->retention_every_ms = 1000;
    if (own->group_max == 0)
        own->group_max = 512; /* beyond that a larger group saves nothing and its first job waits */
    if (own->body_file_bytes == 0)
        own->body_file_bytes = body_file_bytes(own->retention_bytes);
    if (own->checkpoint_pages == 0)
        own->checkpoint_pages =
            4000; /* 16 MiB: rarely enough to write hot pages once per checkpoint */
}

static void init_locks(struct handoff_store *store)
{
    pthread_condattr_t attributes;
    pthread_mutex_init(&store->queue_lock, NULL);
    pthread_mutex_init(&store->readers_lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&store->queue_filled, &attributes);
    pthread_condattr_destroy(&attributes);
    store->last = &store->oldest;
    handoff_reader_threads_init(&store->readers);
    handoff_known_tasks_init(&store->known_tasks);
}

/* It may read much of the store, and nobody is served meanwhile: whoever looks must see why. */
static enum handoff_code upgrade(struct handoff_store *store, int from, struct handoff_error *error)
{
    int64_t used, written;
    const int to = handoff_migrate_newest();
    if (from > 0 && from < to && store->options.on_upgrade &&
        handoff_store_measure(&store->writer, &used, &written, NULL) == HANDOFF_OK)
        store->options.on_upgrade(store->options.observer, from, to, used);
    return handoff_migrate(&store->writer, to, error);
}

static enum handoff_code open_database(struct handoff_store *store, struct handoff_error *error)
{
    int version;
    enum handoff_code code = handoff_db_open(&store->writer, store->data_dir.database,
                                             HANDOFF_DB_WRITE, store->options.vfs, error);
    if (code == HANDOFF_OK) /* before anything is written: it may not be ours */
        code = handoff_migrate_version(&store->writer, &version, error);
    if (code == HANDOFF_OK)
        code = handoff_store_writer_prepare(store, error);
    if (code == HANDOFF_OK)
        code = handoff_db_save_wal(&store->writer, error);
    if (code == HANDOFF_OK)
        code = upgrade(store, version, error);
    int64_t used = 0, written;
    if (code == HANDOFF_OK)
        code = handoff_store_measure(&store->writer, &used, &written, error);
    atomic_init(&store->bytes, used);
    if (code == HANDOFF_OK)
        code = handoff_store_measure_kept(store, error);
    if (code == HANDOFF_OK)
        code = handoff_retention_clock_load(&store->retention_clock, &store->writer,
                                            store->options.clock, error);
    atomic_init(&store->retention_ahead_ms, store->retention_clock.ahead_ms);
    if (code == HANDOFF_OK)
        code = handoff_store_files_note(&store->files, &store->data_dir, error);
    return code;
}

/* A store that cannot be written must be found out at the start and not by the first handoff. */
static enum handoff_code try_a_write(struct handoff_store *store, struct handoff_error *error)
{
    enum handoff_code code = handoff_db_exec(&store->writer, "BEGIN IMMEDIATE; ROLLBACK", error);
    if (code == HANDOFF_OK && sqlite3_db_readonly(store->writer.sqlite, "main") == 1)
        return handoff_db_result(&store->writer, SQLITE_READONLY, error);
    return code;
}

/* SQLite counts its memory under one lock that every thread takes for every allocation; nobody
   reads the count. Refused, and then harmless, when the host uses SQLite already. */
static void configure_sqlite(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

static void prepare_writer(struct handoff_store *store)
{
    store->body_log.db = &store->writer;
    store->body_log.file_max = store->options.body_file_bytes;
    store->body_log.synced = store->options.durability == HANDOFF_DURABILITY_FULL;
    store->writer.body_log = &store->body_log;
    store->writer.known_tasks = &store->known_tasks;
    store->writer.retention_clock = &store->retention_clock;
}

static enum handoff_code remove_orphans(struct handoff_store *store, struct handoff_error *error)
{
    struct handoff_body_orphans removed;
    enum handoff_code code = handoff_body_orphans_remove(&store->writer, &removed, error);
    atomic_init(&store->orphans, removed.files);
    atomic_init(&store->orphans_bytes, removed.bytes);
    return code;
}

static enum handoff_code start_writer(struct handoff_store *store, struct handoff_error *error)
{
    if (pthread_create(&store->writer_thread, NULL, handoff_store_writer_main, store) == 0)
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                             "cannot start the store's writer thread; raise the process limit",
                             NULL, NULL);
}

/* Closing the last connection copies the WAL into the database and deletes it, by its name. Where
   another database is on the path, that would be another store's. */
static void leave_other_store_alone(struct handoff_store *store)
{
    const char *file = handoff_store_displaced_file(store);
    if (file && strcmp(file, store->data_dir.database) == 0)
        sqlite3_db_config(store->writer.sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

static void destroy_store(struct handoff_store *store)
{
    handoff_reader_threads_stop(&store->readers);
    handoff_checkpoint_stop(&store->checkpoint);
    handoff_store_readers_close(store);
    handoff_body_log_close(&store->body_log);
    handoff_checkpoint_before_close(&store->checkpoint, &store->writer);
    leave_other_store_alone(store);
    handoff_db_close(&store->writer); /* the last one: checkpoints and removes the WAL */
    handoff_store_files_forget(&store->files);
    handoff_data_dir_unlock(&store->data_dir);
    handoff_damaged_files_free(&store->damaged_files);
    handoff_known_tasks_free(&store->known_tasks);
    base_mailbox_free(&store->follow_mailbox);
    pthread_cond_destroy(&store->queue_filled);
    pthread_mutex_destroy(&store->queue_lock);
    pthread_mutex_destroy(&store->readers_lock);
    store->magic = 0;
    base_free(store);
}

enum handoff_code handoff_store_open(struct handoff_store **store,
                                     const struct handoff_store_options *options,
                                     struct handoff_error *error)
{
    static pthread_once_t configured = PTHREAD_ONCE_INIT;
    struct handoff_store *opened = base_calloc(1, sizeof *opened);
    *store = NULL;
    pthread_once(&configured, configure_sqlite);
    if (!opened)
        return handoff_error_no_memory(error);
    opened->magic = HANDOFF_STORE_MAGIC;
    opened->data_dir = (struct handoff_data_dir){.directory = -1, .lock = -1};
    opened->unindexed = HANDOFF_TASK_INDEX_BATCH; /* that many may wait since the last time */
    set_store_defaults(opened, options);
    init_locks(opened);
    enum handoff_code code = handoff_data_dir_lock(&opened->data_dir, options->path, error);
    handoff_checkpoint_init(&opened->checkpoint, opened->data_dir.database, opened->options.vfs);
    if (code == HANDOFF_OK)
        code = open_database(opened, error);
    if (code == HANDOFF_OK)
        code = try_a_write(opened, error);
    if (code == HANDOFF_OK)
        code = remove_orphans(opened, error);
    if (code == HANDOFF_OK) {
        prepare_writer(opened);
        code = handoff_reader_threads_start(&opened->readers, error);
    }
    if (code == HANDOFF_OK)
        code = base_mailbox_init(&opened->follow_mailbox, error);
    if (code == HANDOFF_OK)
        code = start_writer(opened, error);
    if (code == HANDOFF_OK)
        *store = opened;
    else
        destroy_store(opened);
    return code;
}

void handoff_store_close(struct handoff_store **store)
{
    struct handoff_store *closing = store ? *store : NULL;
    if (!closing)
        return;
    BASE_CHECK_MAGIC(closing, HANDOFF_STORE_MAGIC);
    *store = NULL;
    pthread_mutex_lock(&closing->queue_lock);
    closing->stopping = true;
    pthread_mutex_unlock(&closing->queue_lock);
    pthread_cond_signal(&closing->queue_filled);
    pthread_join(closing->writer_thread, NULL);
    destroy_store(closing);
}

bool handoff_store_may_know_task(struct handoff_store *store, struct base_span task_id)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    return handoff_known_tasks_may_have(&store->known_tasks, task_id);
}

/* ---- waiting for one job ------------------------------------------------------------------- */

static void nothing_more(struct handoff_store_job *job)
{
    (void)job;
}

static void run_by_mailbox(struct handoff_store *store, struct handoff_store_job *job,
                           struct base_mailbox *mailbox)
{
    job->mailbox = mailbox;
    job->batch = NULL;
    job->unit = NULL;
    job->done = nothing_more;
    handoff_store_submit(store, job);
    while (base_mailbox_wait(mailbox, -1) == 0)
        ;
    job->mailbox = NULL;
    job->done = NULL;
}

enum handoff_code handoff_store_run(struct handoff_store *store, struct handoff_store_job *job)
{
    struct base_mailbox mailbox;
    enum handoff_code code = base_mailbox_init(&mailbox, &job->error);
    if (code != HANDOFF_OK)
        return code;
    run_by_mailbox(store, job, &mailbox);
    base_mailbox_free(&mailbox);
    return job->error.code;
}

static enum handoff_code change_nothing(struct handoff_store_job *job, struct handoff_db *db,
                                        struct handoff_error *error)
{
    (void)job;
    (void)db;
    (void)error;
    return HANDOFF_OK;
}

/* Whether or not the job can be run: its group was taken, and the follower with it. */
void handoff_store_follow(struct handoff_store *store, const struct handoff_db_follower *follower)
{
    struct handoff_store_job job = {.run = change_nothing};
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    pthread_mutex_lock(&store->queue_lock);
    store->follower = follower;
    pthread_mutex_unlock(&store->queue_lock);
    run_by_mailbox(store, &job, &store->follow_mailbox);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static int64_t file_size(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 ? found.st_size : 0;
}

static int64_t wal_size(const char *database)
{
    struct base_arena arena;
    base_arena_init(&arena, 256);
    const char *path = base_arena_printf(&arena, "%s-wal", database);
    int64_t size = path ? file_size(path) : 0;
    base_arena_free(&arena);
    return size;
}

enum handoff_code handoff_store_measure(struct handoff_db *db, int64_t *used, int64_t *written,
                                        struct handoff_error *error)
{
    int64_t named = 0;
    enum handoff_code code = handoff_retention_bytes(db, used, error);
    if (code == HANDOFF_OK)
        code = handoff_body_files_bytes(db, &named, written, error);
    *used += named;
    return code;
}

int64_t handoff_store_bytes(const struct handoff_store *store)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    return atomic_load_explicit(&store->bytes, memory_order_relaxed);
}

enum handoff_code handoff_store_measure_kept(struct handoff_store *store,
                                             struct handoff_error *error)
{
    struct handoff_retained kept;
    struct handoff_retained_oldest oldest;
    enum handoff_code code = handoff_retained_read(&store->writer, &kept, error);
    if (code == HANDOFF_OK)
        code =
            handoff_retained_find_oldest(&store->writer, &oldest, &store->oldest_key_from, error);
    if (code != HANDOFF_OK)
        return code;
    atomic_store_explicit(&store->kept_bodies, kept.bodies, memory_order_relaxed);
    atomic_store_explicit(&store->kept_rows, kept.rows, memory_order_relaxed);
    atomic_store_explicit(&store->oldest_body_ms, oldest.body_ms, memory_order_relaxed);
    atomic_store_explicit(&store->oldest_key_ms, oldest.key_ms, memory_order_relaxed);
    atomic_store_explicit(&store->oldest_row_ms, oldest.row_ms, memory_order_relaxed);
    return HANDOFF_OK;
}

/* Retention, which removes the oldest first, has removed all that finished before it. By the wall
   clock that is earlier where the clock of retention is ahead. Where it is behind, what finished
   before the wall clock was set forward has the same time by both. */
static int64_t kept_from_ms(const struct handoff_store *store,
                            const struct handoff_store_kept *kept)
{
    const int64_t removed_ms =
        atomic_load_explicit(&store->removed_through_ms, memory_order_relaxed);
    const int64_t from_ms = kept->oldest_row_ms > 0 ? kept->oldest_row_ms : removed_ms + 1;
    return kept->ahead_ms > 0 ? from_ms - kept->ahead_ms : from_ms;
}

void handoff_store_kept(const struct handoff_store *store, struct handoff_store_kept *kept)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    *kept = (struct handoff_store_kept){
        .body_bytes = atomic_load_explicit(&store->kept_bodies, memory_order_relaxed),
        .row_bytes = atomic_load_explicit(&store->kept_rows, memory_order_relaxed),
        .oldest_body_ms = atomic_load_explicit(&store->oldest_body_ms, memory_order_relaxed),
        .oldest_key_ms = atomic_load_explicit(&store->oldest_key_ms, memory_order_relaxed),
        .oldest_row_ms = atomic_load_explicit(&store->oldest_row_ms, memory_order_relaxed),
        .ahead_ms = atomic_load_explicit(&store->retention_ahead_ms, memory_order_relaxed),
        .bodies_for_size = atomic_load_explicit(&store->bodies_removed, memory_order_relaxed),
        .rows_for_age = atomic_load_explicit(&store->removed_for_age, memory_order_relaxed),
        .rows_for_size = atomic_load_explicit(&store->removed_for_size, memory_order_relaxed),
        .orphans = atomic_load_explicit(&store->orphans, memory_order_relaxed),
        .orphans_bytes = atomic_load_explicit(&store->orphans_bytes, memory_order_relaxed)};
    kept->kept_from_ms = kept_from_ms(store, kept);
}

void handoff_store_disk(const struct handoff_store *store, struct handoff_store_disk *disk)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    disk->free_bytes = atomic_load_explicit(&store->disk_free_bytes, memory_order_relaxed);
    disk->bytes = atomic_load_explicit(&store->disk_bytes, memory_order_relaxed);
}

enum handoff_code handoff_store_failing(const struct handoff_store *store)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    return (enum handoff_code)atomic_load_explicit(&store->failing, memory_order_relaxed);
}

const char *handoff_store_displaced_file(const struct handoff_store *store)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    return atomic_load_explicit(&store->displaced, memory_order_acquire);
}

void handoff_store_stats(struct handoff_store *store, struct handoff_store_stats *stats)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    struct handoff_store_kept kept;
    memset(stats, 0, sizeof *stats);
    stats->commits = atomic_load_explicit(&store->commits, memory_order_relaxed);
    stats->commits_failed = atomic_load_explicit(&store->commits_failed, memory_order_relaxed);
    stats->jobs = atomic_load_explicit(&store->jobs, memory_order_relaxed);
    stats->jobs_failed = atomic_load_explicit(&store->jobs_failed, memory_order_relaxed);
    stats->waiting = atomic_load_explicit(&store->waiting, memory_order_relaxed);
    stats->checkpoints = atomic_load_explicit(&store->checkpoints, memory_order_relaxed);
    stats->checkpoints_failed =
        atomic_load_explicit(&store->checkpoints_failed, memory_order_relaxed);
    handoff_store_kept(store, &kept);
    stats->removed = kept.rows_for_age + kept.rows_for_size;
    stats->file_bytes = file_size(store->data_dir.database) + wal_size(store->data_dir.database);
    struct handoff_db *db = handoff_store_reader(store, NULL);
    if (!db)
        return;
    int64_t written;
    if (handoff_store_measure(db, &stats->bytes, &written, NULL) == HANDOFF_OK)
        stats->file_bytes += written;
    handoff_store_reader_done(store, db);
}
