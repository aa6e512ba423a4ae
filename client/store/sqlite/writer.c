/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer thread: takes all jobs that wait, runs them in one transaction, commits, posts the
 * completions. While the disk works on one commit, the jobs of the next group gather; so the group
 * grows by itself with the load. A single caller is never made to wait for company. Lazy jobs are,
 * for a millisecond at most, so that a sender's next handoff does not stand in line behind the
 * record of its last one. And where many callers share the syncs, the next group gathers for a
 * moment after each commit: what the agents and senders who were just told do next comes into it,
 * and not into the one after it.
 *
 * What is said of a job holds for a unit of several: it is one entry of the queue, found by its
 * first job, and its jobs run in one transaction and fail together.
 *
 * One bad job must not fail its neighbours. A savepoint per job would copy every page it touches,
 * for a case that hardly occurs; so a group is run without, and when a job fails after it changed
 * something, the transaction is rolled back and the group is run again one job at a time, each in
 * its own transaction. A job that fails before it changed anything (the usual refusal) costs
 * nothing. The same is done when a group meets a full disk, because a smaller job may still fit,
 * and when its bodies cannot be written beside the database, because they can go into their rows;
 * any other failure of the commit fails the group, because it says nothing about single jobs.
 *
 * Between groups, never within a commit that a caller waits for: checkpoints (the WAL is copied
 * into the database and reused), the index and the set of tasks, and steps of retention: one once
 * per retention period or when many handoffs came, and while they find something, more in quiet
 * moments, or under load as handoffs come.
 *
 * Before and after each group, and now and then while it is quiet, it looks whether the store's
 * files are still on the path (displaced.h). Before: what is opened by its name must be ours.
 * After: what was committed to files that are gone is not told. Once they are not there, no job is
 * run any more, and only opening the store anew changes that: another process may have used the
 * path.
 *
 * Where a write failed for the disk's sake, one is tried every second, whether or not a job comes:
 * a sidecar that is not sent any more for being not ready has to find out by itself.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "client/store/sqlite/body_files.h"
#include "client/store/sqlite/decision_rows.h"
#include "client/store/sqlite/migrate.h"
#include "client/store/sqlite/retention.h"
#include "client/store/sqlite/shelves.h"
#include "client/store/sqlite/store_internal.h"
#include "client/store/sqlite/task_index.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

/* Longer than a sender beside us takes from an answer to its next request; shorter than anybody
   would take for a write that was forgotten. */
enum { HOLD_NS = 1000000 };

/* After a commit that so many callers shared, the next group gathers for a share of what that
   commit took, two milliseconds at most. */
enum { GATHER_FROM = 3, GATHER_SHARE = 4, GATHER_MAX_NS = 2000000 };

/* So soon after a write, and no more often, its size is known to a scrape. */
#define MEASURE_EVERY_NS INT64_C(1000000000)

/* So often it looks for all of its files. */
#define LOOK_EVERY_NS INT64_C(250000000)

/* So often it asks how much room its file system has. */
#define DISK_EVERY_NS INT64_C(1000000000)

/* So often it is tried whether writes still fail. */
#define PROBE_EVERY_NS INT64_C(1000000000)

/* A full disk has room again from here on: less is gone with the next handoff. */
#define ROOM_BYTES (INT64_C(1) << 20)

/* So many bodies make a sync of their file worth its while. */
enum { SHARED_SYNC = 2 };

/* Under load, one step of retention for so many envelopes, which is less than it removes: what is
   kept does not grow, however long the load lasts. */
enum { CAME_FOR_A_STEP = 48 };

/* A group ends with the job that brings it here: what memories say is indexed by its commit, which
   takes some 50 ms for so many bytes. */
enum { GROUP_BYTES = 1024 * 1024 };

/* And a look for so many, whether or not the last one found anything: so it is no matter of time
   how far a budget is exceeded. */
enum { CAME_FOR_A_LOOK = 256 };

/* How far the clock of retention passes between two writes of it, and before the last one. */
enum { CLOCK_SAVED_MS = 3600000, CLOCK_SAVED_AT_END_MS = 60000 };

/* How large the WAL file may stay after a checkpoint: four times the size that starts one. */
#define WAL_FILE_LIMIT "67108864"

/* So many times the size that starts a checkpoint, the WAL takes no more until it was made. */
enum { FAR_TOO_LONG = 4 };

/* ---- the connection ------------------------------------------------------------------------ */

static int count_wal_pages(void *context, sqlite3 *sqlite, const char *database, int pages)
{
    struct handoff_store *store = context;
    (void)sqlite;
    (void)database;
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    store->wal_pages = pages;
    return SQLITE_OK;
}

/* synchronous FULL: the WAL is synced by every commit, before it is acknowledged. NORMAL: only by
   checkpoints, which keeps the database consistent but may lose the last commits when the power
   goes. wal_autocheckpoint 0: our own hook decides, outside of commits. */
enum handoff_code handoff_store_writer_prepare(struct handoff_store *store,
                                               struct handoff_error *error)
{
    struct handoff_db *db = &store->writer;
    enum handoff_code code =
        handoff_db_exec(db,
                        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;"
                        "PRAGMA journal_size_limit = " WAL_FILE_LIMIT,
                        error);
    if (code == HANDOFF_OK)
        code = handoff_db_exec(db,
                               store->options.durability == HANDOFF_DURABILITY_FULL
                                   ? "PRAGMA synchronous = FULL"
                                   : "PRAGMA synchronous = NORMAL",
                               error);
    if (code == HANDOFF_OK)
        sqlite3_wal_hook(db->sqlite, count_wal_pages, store);
    return code;
}

/* ---- the queue ----------------------------------------------------------------------------- */

/* A job is found from its mail, which is its first member. */
static struct handoff_store_job *job_of(struct base_mail *mail)
{
    return (struct handoff_store_job *)(void *)mail;
}

static void deliver_completion(struct base_mail *mail)
{
    struct handoff_store_job *job = job_of(mail);
    job->done(job);
}

static void enqueue(struct handoff_store *store, const struct handoff_store_batch *batch)
{
    pthread_mutex_lock(&store->queue_lock);
    BASE_CHECK(!store->stopping);
    *store->last = batch->first;
    store->last = batch->last;
    store->awaited += batch->awaited;
    bool wake = store->writer_waits || (store->writer_holds && batch->awaited > 0);
    if (wake)
        store->writer_waits = store->writer_holds = false;
    pthread_mutex_unlock(&store->queue_lock);
    if (wake)
        pthread_cond_signal(&store->queue_filled);
}

static bool is_unit_lazy(const struct handoff_store_job *unit)
{
    while (unit && unit->lazy)
        unit = unit->with;
    return !unit;
}

static unsigned count_unit_bodies(const struct handoff_store_job *unit)
{
    unsigned count = 0;
    for (; unit; unit = unit->with)
        count += unit->brings_body;
    return count;
}

static unsigned count_unit(const struct handoff_store_job *unit)
{
    unsigned count = 0;
    for (; unit; unit = unit->with)
        count++;
    return count;
}

/* What joined a unit counts only now: a unit may also be dropped. */
static void enqueue_unit(struct handoff_store *store, struct handoff_store_job *job,
                         struct handoff_store_batch *batch)
{
    const bool lazy = is_unit_lazy(job);
    atomic_fetch_add_explicit(&store->waiting, count_unit(job), memory_order_relaxed);
    job->lazy = lazy; /* from now on, of all of it */
    if (!batch) {
        const struct handoff_store_batch alone = {&job->mail, &job->mail.next, !lazy};
        enqueue(store, &alone);
        return;
    }
    if (!batch->first)
        batch->last = &batch->first;
    *batch->last = &job->mail;
    batch->last = &job->mail.next;
    batch->awaited += !lazy;
}

static void join_unit(struct handoff_store_unit *unit, struct handoff_store_job *job)
{
    if (!unit->first)
        unit->last = &unit->first;
    *unit->last = job;
    unit->last = &job->with;
}

void handoff_store_submit(struct handoff_store *store, struct handoff_store_job *job)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    BASE_CHECK(job->run && job->mailbox && job->done);
    job->mail.next = NULL;
    job->mail.deliver = deliver_completion;
    job->with = NULL;
    if (job->unit)
        join_unit(job->unit, job);
    else
        enqueue_unit(store, job, job->batch);
}

static enum handoff_code run_end_of_unit(struct handoff_store_job *job, struct handoff_db *db,
                                         struct handoff_error *error)
{
    (void)job;
    (void)db;
    (void)error;
    return HANDOFF_OK;
}

void handoff_store_end_unit(struct handoff_store *store, struct handoff_store_job *job)
{
    BASE_CHECK(job->unit != NULL);
    job->run = run_end_of_unit;
    handoff_store_submit(store, job);
}

void handoff_store_submit_unit(struct handoff_store *store, struct handoff_store_unit *unit,
                               struct handoff_store_batch *batch)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    BASE_CHECK(unit->first);
    enqueue_unit(store, unit->first, batch);
    *unit = (struct handoff_store_unit){0};
}

void handoff_store_submit_batch(struct handoff_store *store, struct handoff_store_batch *batch)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    if (batch->first)
        enqueue(store, batch);
    *batch = (struct handoff_store_batch){0};
}

static struct timespec at_ns(int64_t monotonic_ns)
{
    return (struct timespec){.tv_sec = (time_t)(monotonic_ns / 1000000000),
                             .tv_nsec = (long)(monotonic_ns % 1000000000)};
}

static int64_t sooner_of(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* Waits for jobs, but only until something else is due. The real monotonic clock, not the injected
   one: a condition variable cannot wait for the latter. */
static void wait_for_jobs(struct handoff_store *store)
{
    int64_t due_ns = sooner_of(store->files_due_ns, store->retention_due_ns);
    if (store->unmeasured)
        due_ns = sooner_of(due_ns, store->measure_due_ns);
    struct timespec until = at_ns(due_ns);
    while (!store->oldest && !store->stopping && !store->retention_more && !store->tasks_more) {
        store->writer_waits = true;
        if (pthread_cond_timedwait(&store->queue_filled, &store->queue_lock, &until) == ETIMEDOUT)
            break;
    }
    store->writer_waits = false;
}

/* Where only lazy jobs wait shortly after a commit that was awaited, its sender's next request is
   likely on its way: they share its commit instead of making it wait for theirs. */
static void hold_lazy_jobs(struct handoff_store *store)
{
    struct timespec until = at_ns(store->hold_until_ns);
    while (store->oldest && store->awaited == 0 && !store->stopping) {
        store->writer_holds = true;
        if (pthread_cond_timedwait(&store->queue_filled, &store->queue_lock, &until) == ETIMEDOUT)
            break;
    }
    store->writer_holds = false;
}

/* The real monotonic clock. What is not synced is quicker written than gathered. */
static void set_gathering(struct handoff_store *store, int64_t commit_ns)
{
    const int64_t share_ns = commit_ns / GATHER_SHARE;
    store->gather_until_ns = 0;
    if (store->group_awaited >= GATHER_FROM && store->options.durability == HANDOFF_DURABILITY_FULL)
        store->gather_until_ns = base_monotonic_ns(&base_clock_system) +
                                 (share_ns < GATHER_MAX_NS ? share_ns : GATHER_MAX_NS);
}

static void gather(const struct handoff_store *store)
{
    const struct timespec until = at_ns(store->gather_until_ns);
    if (store->gather_until_ns > 0)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Detaches up to group_max jobs, oldest first, and not many more than GROUP_BYTES. NULL: it is
 * quiet; *stopping then says whether for ever. */
static struct base_mail *take_group(struct handoff_store *store, bool *stopping)
{
    pthread_mutex_lock(&store->queue_lock);
    wait_for_jobs(store);
    hold_lazy_jobs(store);
    struct base_mail *group = store->oldest, **last = &group;
    store->group_awaited = store->group_bodies = 0;
    for (size_t count = 0, bytes = 0;
         *last && count < store->options.group_max && bytes < GROUP_BYTES; count++) {
        bytes += job_of(*last)->bytes;
        store->group_awaited += !job_of(*last)->lazy;
        store->group_bodies += count_unit_bodies(job_of(*last));
        last = &(*last)->next;
    }
    store->awaited -= store->group_awaited;
    store->oldest = *last;
    *last = NULL;
    if (!store->oldest)
        store->last = &store->oldest;
    *stopping = store->stopping;
    store->writer.follower = store->follower;
    pthread_mutex_unlock(&store->queue_lock);
    return group;
}

/* ---- one transaction ----------------------------------------------------------------------- */

static enum handoff_code begin_transaction(struct handoff_db *db, struct handoff_error *error)
{
    sqlite3_stmt *statement = handoff_db_statement(db, "BEGIN IMMEDIATE", error);
    db->published = (struct handoff_db_published){0};
    if (db->follower)
        db->follower->begun(db->follower->context);
    return statement ? handoff_db_do(db, statement, error) : handoff_db_failure(db, NULL);
}

/* The bodies first: on the disk before the rows that name them. */
static enum handoff_code flush_bodies(struct handoff_db *db, struct handoff_error *error)
{
    enum handoff_code code = handoff_body_log_flush(db->body_log, error);
    if (code != HANDOFF_OK)
        handoff_db_roll_back(db);
    return code;
}

static enum handoff_code commit_transaction(struct handoff_db *db, struct handoff_error *error)
{
    sqlite3_stmt *statement = handoff_db_statement(db, "COMMIT", error);
    enum handoff_code code =
        statement ? handoff_db_do(db, statement, error) : handoff_db_failure(db, NULL);
    if (code != HANDOFF_OK)
        handoff_db_roll_back(db);
    else if (db->follower)
        db->follower->committed(db->follower->context);
    return code;
}

static void set_unit_error(struct handoff_store_job *unit, const struct handoff_error *error)
{
    const struct handoff_error copy = *error; /* it may be that of one of them */
    for (; unit; unit = unit->with)
        unit->error = copy;
}

static void fail_all(struct base_mail *group, const struct handoff_error *error)
{
    for (struct base_mail *mail = group; mail; mail = mail->next)
        set_unit_error(job_of(mail), error);
}

/* As far as they succeed; their error is that of the first that fails. */
static enum handoff_code run_each_change(struct handoff_db *db, struct handoff_store_job *unit)
{
    for (struct handoff_store_job *job = unit; job; job = job->with) {
        handoff_error_clear(&job->error);
        enum handoff_code code = job->run(job, db, &job->error);
        BASE_CHECK(code == job->error.code);
        if (code == HANDOFF_OK)
            continue;
        set_unit_error(unit, &job->error);
        return code;
    }
    return HANDOFF_OK;
}

/* true: the transaction is as if the job had never run, or the job did its work. */
static bool run_store_job(struct handoff_db *db, struct handoff_store_job *job)
{
    sqlite3_int64 changes = sqlite3_total_changes64(db->sqlite);
    enum handoff_code code = run_each_change(db, job);
    if (sqlite3_get_autocommit(db->sqlite))
        return false;
    return code == HANDOFF_OK || sqlite3_total_changes64(db->sqlite) == changes;
}

/* What became of a group that was run in one transaction. */
enum group_outcome {
    GROUP_SETTLED,  /* every job has its verdict */
    GROUP_ONE_LEFT, /* rolled back: to be run again one by one */
};

static enum group_outcome run_together(struct handoff_db *db, struct base_mail *group,
                                       struct handoff_error *error)
{
    if (begin_transaction(db, error) != HANDOFF_OK) {
        fail_all(group, error);
        return GROUP_SETTLED;
    }
    for (struct base_mail *mail = group; mail; mail = mail->next) {
        if (!run_store_job(db, job_of(mail))) {
            handoff_db_roll_back(db);
            return GROUP_ONE_LEFT;
        }
    }
    if (flush_bodies(db, error) != HANDOFF_OK)
        return GROUP_ONE_LEFT; /* with the bodies in their rows */
    if (commit_transaction(db, error) == HANDOFF_OK)
        return GROUP_SETTLED;
    if (error->code == HANDOFF_ERR_STORE_FULL && group->next)
        return GROUP_ONE_LEFT;
    fail_all(group, error);
    return GROUP_SETTLED;
}

static void run_alone(struct handoff_db *db, struct handoff_store_job *job,
                      struct handoff_error *error)
{
    struct handoff_error failure;
    if (begin_transaction(db, &failure) != HANDOFF_OK) {
        set_unit_error(job, &failure);
        *error = failure;
        return;
    }
    run_store_job(db, job);
    if (sqlite3_get_autocommit(db->sqlite) && job->error.code == HANDOFF_OK) {
        handoff_error_set(&failure, HANDOFF_ERR_INTERNAL, "the transaction ended unexpectedly",
                          NULL, NULL);
        set_unit_error(job, &failure);
    }
    if (job->error.code != HANDOFF_OK) {
        handoff_db_roll_back(db);
    } else if (commit_transaction(db, &failure) != HANDOFF_OK) {
        set_unit_error(job, &failure);
        *error = failure;
    }
}

/* A body in a file is written once instead of twice, but the file has a separate sync: worth it
   where a few share it, or where nothing is synced. */
static bool bodies_go_outside(const struct handoff_store *store)
{
    return store->group_bodies >= SHARED_SYNC ||
           store->options.durability == HANDOFF_DURABILITY_NONE;
}

static void settle_group(struct handoff_store *store, struct base_mail *group,
                         struct handoff_error *error)
{
    if (bodies_go_outside(store))
        handoff_body_log_begin(&store->body_log);
    enum group_outcome outcome = run_together(&store->writer, group, error);
    handoff_body_log_end(&store->body_log);
    if (outcome == GROUP_SETTLED)
        return;
    handoff_error_clear(error);
    for (struct base_mail *mail = group; mail; mail = mail->next)
        run_alone(&store->writer, job_of(mail), error);
}

/* ---- the files are not there any more -------------------------------------------------------- */

/* From now on it does nothing by itself either. */
static void note_displaced(struct handoff_store *store, const char *file)
{
    store->files_due_ns = store->retention_due_ns = INT64_MAX;
    store->unmeasured = store->retention_more = store->tasks_more = false;
    atomic_store_explicit(&store->displaced, file, memory_order_release);
    if (store->options.on_displaced)
        store->options.on_displaced(store->options.observer, file);
}

/* Those that a commit depends on each time, the others now and then. */
static bool is_displaced(struct handoff_store *store)
{
    if (handoff_store_displaced_file(store))
        return true;
    const int64_t now_ns = base_monotonic_ns(&base_clock_system);
    const bool all = now_ns >= store->files_due_ns;
    const char *file = handoff_store_files_displaced(&store->files, all ? HANDOFF_STORE_FILES
                                                                        : HANDOFF_STORE_DATA_FILES);
    if (all)
        store->files_due_ns = now_ns + LOOK_EVERY_NS;
    if (file)
        note_displaced(store, file);
    return file != NULL;
}

static void fail_displaced(struct handoff_store *store, struct base_mail *group,
                           struct handoff_error *error)
{
    handoff_store_displaced(handoff_store_displaced_file(store), error);
    fail_all(group, error);
}

/* ---- after the commit ---------------------------------------------------------------------- */

static unsigned count_group(struct handoff_store *store, struct base_mail *group)
{
    unsigned count = 0, failed = 0;
    for (struct base_mail *mail = group; mail; mail = mail->next) {
        for (struct handoff_store_job *job = job_of(mail); job; job = job->with, count++)
            failed += job->error.code != HANDOFF_OK;
    }
    atomic_fetch_add_explicit(&store->jobs, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->jobs_failed, failed, memory_order_relaxed);
    atomic_fetch_sub_explicit(&store->waiting, count, memory_order_relaxed);
    return count;
}

static void post_completions(struct base_mail *group)
{
    while (group) {
        struct base_mail *next = group->next; /* the mailbox uses the link for itself */
        for (struct handoff_store_job *job = job_of(group), *with; job; job = with) {
            with = job->with; /* whoever is told may free it */
            base_mailbox_post(job->mailbox, &job->mail);
        }
        group = next;
    }
}

/* No fault of a job: others fail as well, or soon will. */
static bool is_of_the_disk(enum handoff_code code)
{
    return code == HANDOFF_ERR_STORE_FULL || code == HANDOFF_ERR_STORE_IO ||
           code == HANDOFF_ERR_STORE_READ_ONLY;
}

/* Of a commit, or of a job that met the disk's error before it. */
static enum handoff_code why_it_failed(struct base_mail *group, const struct handoff_error *error)
{
    enum handoff_code code = error->code;
    for (struct base_mail *mail = group; mail && code == HANDOFF_OK; mail = mail->next) {
        if (is_of_the_disk(job_of(mail)->error.code))
            code = job_of(mail)->error.code;
    }
    return code;
}

/* Whether that is news. */
static bool note_health(struct handoff_store *store, enum handoff_code code)
{
    const enum handoff_code before = handoff_store_failing(store);
    atomic_store_explicit(&store->failing, (int)code, memory_order_relaxed);
    store->probe_due_ns = base_monotonic_ns(&base_clock_system) + PROBE_EVERY_NS;
    return (code == HANDOFF_OK) != (before == HANDOFF_OK);
}

static void tell_commit(struct handoff_store *store, const struct handoff_store_commit *done)
{
    atomic_fetch_add_explicit(&store->commits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->commits_failed, done->code != HANDOFF_OK,
                              memory_order_relaxed);
    if (store->options.on_commit)
        store->options.on_commit(store->options.observer, done);
}

static void pass_retention_time(struct handoff_store *store)
{
    handoff_retention_clock_move(&store->retention_clock, store->options.clock);
    atomic_store_explicit(&store->retention_ahead_ms, store->retention_clock.ahead_ms,
                          memory_order_relaxed);
}

static void commit_group(struct handoff_store *store, struct base_mail *group)
{
    struct handoff_error error;
    const struct base_clock *clock = store->options.clock;
    const sqlite3_int64 changes = sqlite3_total_changes64(store->writer.sqlite);
    int64_t begun = base_monotonic_ns(clock);
    handoff_error_clear(&error);
    pass_retention_time(store);
    if (!is_displaced(store))
        settle_group(store, group, &error);
    bool displaced = is_displaced(store);
    if (displaced)
        fail_displaced(store, group, &error);
    store->unmeasured = !displaced;
    store->unindexed += store->group_bodies;
    store->unretained += store->group_bodies;
    struct handoff_store_commit done = {.duration_ns = base_monotonic_ns(clock) - begun,
                                        .jobs = count_group(store, group),
                                        .code = why_it_failed(group, &error)};
    /* a group that changed nothing wrote nothing */
    if (done.code != HANDOFF_OK || sqlite3_total_changes64(store->writer.sqlite) != changes)
        done.turned = note_health(store, done.code);
    tell_commit(store, &done);
    if (done.code == HANDOFF_ERR_STORE_FULL)
        store->wal_pages =
            INT_MAX; /* a checkpoint may make room: the WAL is used again from its start */
    post_completions(group);
    set_gathering(store, done.duration_ns);
    if (store->group_awaited)
        store->hold_until_ns = base_monotonic_ns(&base_clock_system) + HOLD_NS;
}

/* Once all is copied, the next commit begins the WAL anew. A failure loses nothing: the pages stay
   in the WAL. */
static void checkpoint(struct handoff_store *store)
{
    handoff_body_log_sync(&store->body_log);
    int result = handoff_checkpoint_copy(&store->checkpoint, &store->writer, NULL);
    store->wal_pages = 0; /* the hook tells again with the next commit */
    atomic_fetch_add_explicit(&store->checkpoints, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->checkpoints_failed, result != SQLITE_OK,
                              memory_order_relaxed);
}

static void tell_shortage(const struct handoff_store *store, enum handoff_shortage resource,
                          const char *hindered)
{
    if (store->options.on_shortage)
        store->options.on_shortage(store->options.observer, resource, hindered);
}

/* Something failed that no job waits for. */
static void tell_failure(struct handoff_store *store)
{
    const struct handoff_store_commit failed = {.code = HANDOFF_ERR_STORE_IO};
    atomic_fetch_add_explicit(&store->commits_failed, 1, memory_order_relaxed);
    if (store->options.on_commit)
        store->options.on_commit(store->options.observer, &failed);
}

void handoff_store_tell_failure(struct handoff_store *store, enum handoff_code code,
                                const char *hindered)
{
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    if (code == HANDOFF_ERR_STORE_FULL)
        tell_shortage(store, HANDOFF_SHORTAGE_DISK, hindered);
    else if (code == HANDOFF_ERR_OUT_OF_MEMORY)
        tell_shortage(store, HANDOFF_SHORTAGE_MEMORY, hindered);
    else
        tell_failure(store);
}

/* Told as a commit that failed, once: by then the WAL grows until the next start. */
static void look_for_failed_sync(struct handoff_store *store)
{
    if (store->told_of_sync || !handoff_checkpoint_sync_failed(&store->checkpoint))
        return;
    store->told_of_sync = true;
    tell_failure(store);
}

/* The writer then copies everything itself, and whoever waits for a commit waits for that. */
static void tell_lack_of_thread(struct handoff_store *store)
{
    tell_shortage(store, HANDOFF_SHORTAGE_THREADS, "starting the store's checkpoint thread");
}

/* When the thread has copied most of it; where room is what is needed, that is waited for. */
static bool checkpoint_is_due(struct handoff_store *store)
{
    const struct handoff_body_log *log = &store->body_log;
    unsigned pages = (unsigned)store->wal_pages, limit = store->options.checkpoint_pages;
    if (pages < limit)
        return false;
    const bool prepared =
        handoff_checkpoint_prepared(&store->checkpoint, store->wal_pages,
                                    log->synced ? 0 : log->number, pages / FAR_TOO_LONG >= limit);
    if (!store->checkpoint.started)
        tell_lack_of_thread(store);
    return prepared;
}

/* What it could not do for want of a file is told as a commit that failed; once for each file,
   though it is tried again, since the file may come back. */
static enum handoff_code tidy_bodies(struct handoff_store *store, bool *more)
{
    const size_t known = store->damaged_files.count;
    enum handoff_code code =
        handoff_body_files_tidy(&store->writer, &store->damaged_files, more, NULL);
    for (size_t i = known; i < store->damaged_files.count; i++)
        tell_failure(store);
    return code;
}

static void count_removed(struct handoff_store *store,
                          const struct handoff_retention_removed *removed)
{
    const int for_age = removed->envelopes - removed->for_size;
    atomic_fetch_add_explicit(&store->removed_for_age, (unsigned)for_age, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->removed_for_size, (unsigned)removed->for_size,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&store->bodies_removed, (unsigned)removed->bodies,
                              memory_order_relaxed);
    if (removed->through_ms > 0)
        atomic_store_explicit(&store->removed_through_ms, removed->through_ms,
                              memory_order_relaxed);
}

/* They are marked with the wall clock, so neither clock alone ages them. A failure is the next
   commit's too, and told there. */
static void retain_decisions(struct handoff_store *store)
{
    const int64_t age_ms = store->options.retention_decisions_ms;
    const int64_t wall_ms = base_wall_ms(store->options.clock);
    const int64_t now_ms =
        wall_ms < store->retention_clock.now_ms ? wall_ms : store->retention_clock.now_ms;
    (void)!handoff_decisions_retain(&store->writer, age_ms > 0 ? now_ms - age_ms : INT64_MIN, NULL);
}

/* What is not saved makes things younger, by an hour at most: it is caught up within minutes. */
static void move_retention_clock(struct handoff_store *store, int64_t save_after_ms)
{
    pass_retention_time(store);
    (void)!handoff_retention_clock_save(&store->retention_clock, &store->writer, save_after_ms,
                                        NULL);
}

/* true: there may be more to let go. */
static bool retain_shelves(struct handoff_store *store)
{
    struct handoff_shelves_step step = {.options = &store->options,
                                        .now_ms = store->retention_clock.now_ms};
    return handoff_shelves_step(&store->writer, &step, NULL) == HANDOFF_OK && step.let_go > 0;
}

static void retain(struct handoff_store *store, int64_t now_ns)
{
    move_retention_clock(store, CLOCK_SAVED_MS);
    const bool let_go = retain_shelves(store);
    struct handoff_retention limits = {.age_ms = store->options.retention_age_ms,
                                       .body_bytes = store->options.retention_bytes,
                                       .row_bytes = store->options.retention_rows_bytes};
    struct handoff_retention_removed removed;
    enum handoff_code code = handoff_retention_step(&store->writer, limits,
                                                    store->retention_clock.now_ms, &removed, NULL);
    count_removed(store, &removed);
    bool more = false;
    if (code == HANDOFF_OK)
        code = tidy_bodies(store, &more);
    retain_decisions(store);
    (void)!handoff_shelves_tell_unread(&store->writer, &store->options, NULL);
    store->retention_more =
        code == HANDOFF_OK && (removed.envelopes + removed.bodies > 0 || more || let_go);
    store->unmeasured |= store->retention_more;
    store->unretained -= store->unretained < CAME_FOR_A_STEP ? store->unretained : CAME_FOR_A_STEP;
    if (!store->retention_more)
        store->unretained = 0;
    store->retention_due_ns = now_ns + store->options.retention_every_ms * 1000000;
}

/* Asked only when there may be a batch. A failure is the next commit's too, and told there. */
static void index_tasks(struct handoff_store *store)
{
    if (store->unindexed < HANDOFF_TASK_INDEX_BATCH)
        return;
    store->unindexed = 0;
    (void)!handoff_task_index_step(&store->writer, NULL);
}

/* Where it cannot be read, what was known stays. */
static void measure_size(struct handoff_store *store, int64_t now_ns)
{
    int64_t used, written;
    store->measure_due_ns = now_ns + MEASURE_EVERY_NS;
    store->unmeasured = false;
    if (handoff_store_measure(&store->writer, &used, &written, NULL) == HANDOFF_OK)
        atomic_store_explicit(&store->bytes, used, memory_order_relaxed);
    (void)!handoff_store_measure_kept(store, NULL);
}

/* What others left free and we may use. */
static void measure_disk(struct handoff_store *store, int64_t now_ns)
{
    struct statvfs found;
    store->disk_due_ns = now_ns + DISK_EVERY_NS;
    if (statvfs(store->data_dir.database, &found) != 0)
        return;
    const int64_t unit = (int64_t)found.f_frsize;
    atomic_store_explicit(&store->disk_free_bytes, (int64_t)found.f_bavail * unit,
                          memory_order_relaxed);
    atomic_store_explicit(&store->disk_bytes, (int64_t)found.f_blocks * unit, memory_order_relaxed);
}

/* Writes what is there already, as any commit does. */
static enum handoff_code write_something(struct handoff_db *db)
{
    char mark[64];
    sqlite3_snprintf(sizeof mark, mark, "PRAGMA application_id = %d", HANDOFF_STORE_APPLICATION_ID);
    enum handoff_code code = begin_transaction(db, NULL);
    if (code == HANDOFF_OK)
        code = handoff_db_exec(db, mark, NULL);
    if (code == HANDOFF_OK)
        return commit_transaction(db, NULL);
    handoff_db_roll_back(db);
    return code;
}

/* Where a few pages still fit, the next handoff may not. */
static void probe(struct handoff_store *store, int64_t now_ns)
{
    struct handoff_store_commit done = {.code = handoff_store_failing(store), .probe = true};
    const int64_t begun = base_monotonic_ns(store->options.clock);
    measure_disk(store, now_ns);
    if (done.code != HANDOFF_ERR_STORE_FULL ||
        atomic_load_explicit(&store->disk_free_bytes, memory_order_relaxed) >= ROOM_BYTES)
        done.code = write_something(&store->writer);
    done.duration_ns = base_monotonic_ns(store->options.clock) - begun;
    done.turned = note_health(store, done.code);
    tell_commit(store, &done);
}

static void tidy(struct handoff_store *store, bool quiet)
{
    index_tasks(store);
    store->tasks_more = handoff_known_tasks_step(&store->known_tasks, &store->writer);
    if (checkpoint_is_due(store))
        checkpoint(store);
    look_for_failed_sync(store);
    int64_t now = base_monotonic_ns(&base_clock_system);
    if (now >= store->retention_due_ns || (quiet && store->retention_more) ||
        store->unretained >= CAME_FOR_A_LOOK)
        retain(store, now);
    while (store->retention_more && store->unretained >= CAME_FOR_A_STEP)
        retain(store, now);
    if (store->unmeasured && now >= store->measure_due_ns)
        measure_size(store, now);
    if (now >= store->disk_due_ns)
        measure_disk(store, now);
    if (now >= store->probe_due_ns && handoff_store_failing(store) != HANDOFF_OK)
        probe(store, now);
}

static void *end_writer(struct handoff_store *store)
{
    if (!handoff_store_displaced_file(store))
        move_retention_clock(store, CLOCK_SAVED_AT_END_MS);
    return NULL;
}

void *handoff_store_writer_main(void *argument)
{
    struct handoff_store *store = argument;
    BASE_CHECK_MAGIC(store, HANDOFF_STORE_MAGIC);
    for (bool stopping = false;;) {
        gather(store);
        struct base_mail *group = take_group(store, &stopping);
        if (group)
            commit_group(store, group);
        else if (stopping)
            return end_writer(store);
        bool displaced = group ? handoff_store_displaced_file(store) != NULL : is_displaced(store);
        if (!displaced)
            tidy(store, !group);
    }
}
