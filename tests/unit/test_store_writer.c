/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer: groups share a commit, a completion comes after its fsync, one bad job does not fail
 * its neighbours, a failing disk fails jobs and never loses an acknowledged one.
 */
#include "tests/support/unit.h"

#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "client/store/sqlite/database.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/temp_store.h"

static struct handoff_error error;
static struct base_uuid_source ids;

static struct handoff_store *open_with(const struct handoff_store_options *options)
{
    struct handoff_store *store;
    if (handoff_store_open(&store, options, &error) != HANDOFF_OK)
        fail_msg("%s: %s", error.message, error.seen);
    return store;
}

/* With many checkpoints, which sync when they like. */
static struct handoff_store *open_store(const char *path, enum handoff_durability durability)
{
    return open_with(&(struct handoff_store_options){
        .path = path, .vfs = "fault", .durability = durability, .checkpoint_pages = 50});
}

/* For tests that count syncs. */
static struct handoff_store *open_without_checkpoints(const char *path,
                                                      enum handoff_durability durability)
{
    return open_with(&(struct handoff_store_options){
        .path = path, .vfs = "fault", .durability = durability, .checkpoint_pages = INT_MAX});
}

static bool has(struct handoff_store *store, const struct base_uuid *id)
{
    struct base_arena arena = {0};
    struct handoff_stored_envelope envelope;
    enum handoff_code code = handoff_store_get_envelope(store, id, &arena, &envelope, &error);
    base_arena_free(&arena);
    assert_true(code == HANDOFF_OK || code == HANDOFF_ERR_NOT_FOUND);
    return code == HANDOFF_OK;
}

/* ---- a job that holds the writer, so that a group can gather behind it ------------------------
 */

struct gate {
    struct handoff_store_job job;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool entered, open;
};

static enum handoff_code run_gate(struct handoff_store_job *job, struct handoff_db *db,
                                  struct handoff_error *failure)
{
    struct gate *gate = (struct gate *)(void *)job;
    (void)db;
    pthread_mutex_lock(&gate->lock);
    gate->entered = true;
    pthread_cond_broadcast(&gate->moved);
    while (!gate->open)
        pthread_cond_wait(&gate->moved, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return handoff_error_clear(failure);
}

static int done_count;

static void count_done(struct handoff_store_job *job)
{
    (void)job;
    done_count++;
}

static void hold_writer(struct handoff_store *store, struct gate *gate,
                        struct base_mailbox *mailbox)
{
    *gate = (struct gate){.job = {.run = run_gate, .mailbox = mailbox, .done = count_done},
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .moved = PTHREAD_COND_INITIALIZER};
    handoff_store_submit(store, &gate->job);
    pthread_mutex_lock(&gate->lock);
    while (!gate->entered)
        pthread_cond_wait(&gate->moved, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void release_writer(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

static void wait_done(struct base_mailbox *mailbox, int count)
{
    while (done_count < count)
        base_mailbox_wait(mailbox, -1);
}

/* ---- jobs that go wrong -----------------------------------------------------------------------
 */

/* Changes rows first and fails then: the group has to be repeated. */
struct bad {
    struct handoff_store_put_envelope put;
    int runs;
};

static enum handoff_code run_bad(struct handoff_store_job *job, struct handoff_db *db,
                                 struct handoff_error *failure)
{
    ((struct bad *)(void *)job)->runs++;
    enum handoff_code code =
        handoff_db_exec(db, "INSERT INTO envelope_state (seq) VALUES (1000000)", failure);
    BASE_CHECK(code == HANDOFF_OK);
    return handoff_db_exec(db, "INSERT INTO envelope_state (seq) VALUES (1000000)", failure);
}

enum { GROUP = 20 };

/* Submits GROUP puts with one bad job in the middle behind a held writer, and waits for all. */
static void run_group(struct handoff_store *store, struct base_mailbox *mailbox,
                      struct handoff_store_put_envelope *puts, struct bad *bad)
{
    struct gate gate;
    done_count = 0;
    hold_writer(store, &gate, mailbox);
    for (int i = 0; i < GROUP; i++) {
        temp_envelope(&puts[i], &ids, "task", 500);
        puts[i].job.mailbox = mailbox;
        puts[i].job.done = count_done;
        if (i == GROUP / 2 && bad) {
            *bad =
                (struct bad){.put.job = {.run = run_bad, .mailbox = mailbox, .done = count_done}};
            handoff_store_submit(store, &bad->put.job);
        }
        handoff_store_put_envelope(store, &puts[i]);
    }
    release_writer(&gate);
    wait_done(mailbox, GROUP + 1 + (bad != NULL));
}

static void free_group(struct handoff_store_put_envelope *puts)
{
    for (int i = 0; i < GROUP; i++)
        temp_envelope_free(&puts[i]);
}

static void test_a_group_is_one_commit_and_one_sync(void **state)
{
    char *directory = temp_directory();
    struct base_mailbox mailbox;
    struct handoff_store_put_envelope puts[GROUP];
    struct handoff_store_stats before, after;
    (void)state;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    struct handoff_store *store = open_without_checkpoints(directory, HANDOFF_DURABILITY_FULL);
    handoff_store_stats(store, &before);
    long syncs = atomic_load(&fault.syncs);
    run_group(store, &mailbox, puts, NULL);
    handoff_store_stats(store, &after);
    assert_int_equal(after.commits - before.commits, 2); /* the gate's, and the group's */
    assert_int_equal(after.jobs - before.jobs, GROUP + 1);
    assert_int_equal(after.waiting, 0);
    /* the gate wrote nothing; a fresh WAL syncs its header once more */
    assert_in_range(atomic_load(&fault.syncs) - syncs, 1, 2);
    for (int i = 0; i < GROUP; i++)
        assert_true(has(store, &puts[i].id));
    free_group(puts);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    temp_remove(directory);
}

/* What a loop puts into a batch is one commit, although the writer is idle all the time. */
static void test_a_batch_is_one_commit(void **state)
{
    char *directory = temp_directory();
    struct base_mailbox mailbox;
    struct handoff_store_batch batch = {0};
    struct handoff_store_put_envelope puts[GROUP];
    struct handoff_store_stats before, after;
    (void)state;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_FULL);
    handoff_store_stats(store, &before);
    done_count = 0;
    handoff_store_submit_batch(store, &batch); /* an empty one is nothing */
    for (int i = 0; i < GROUP; i++) {
        temp_envelope(&puts[i], &ids, "task", 500);
        puts[i].job.mailbox = &mailbox;
        puts[i].job.done = count_done;
        puts[i].job.batch = &batch;
        handoff_store_put_envelope(store, &puts[i]);
    }
    handoff_store_submit_batch(store, &batch);
    assert_null(batch.first);
    wait_done(&mailbox, GROUP);
    handoff_store_stats(store, &after);
    assert_int_equal(after.commits - before.commits, 1);
    for (int i = 0; i < GROUP; i++)
        assert_true(has(store, &puts[i].id));
    free_group(puts);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    temp_remove(directory);
}

static void test_a_bad_job_fails_alone(void **state)
{
    char *directory = temp_directory();
    struct base_mailbox mailbox;
    struct handoff_store_put_envelope puts[GROUP];
    struct bad bad;
    (void)state;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_FULL);
    run_group(store, &mailbox, puts, &bad);
    assert_int_equal(bad.put.job.error.code, HANDOFF_ERR_CONFLICT);
    assert_int_equal(bad.runs, 2);
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(puts[i].job.error.code, HANDOFF_OK);
        assert_true(has(store, &puts[i].id));
    }
    struct handoff_db *db = handoff_store_reader(store, &error);
    int64_t left;
    assert_int_equal(handoff_db_number(db,
                                       "SELECT count(*) FROM envelope_state WHERE seq = 1000000",
                                       &left, &error),
                     HANDOFF_OK);
    assert_int_equal(left, 0); /* nor did its first half stay behind */
    handoff_store_reader_done(store, db);
    free_group(puts);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    temp_remove(directory);
}

/* Puts three as one unit in the middle of a group; `bad`, if any, is the last but one change. */
static void run_unit_in_group(struct handoff_store *store, struct base_mailbox *mailbox,
                              struct handoff_store_put_envelope *puts, struct bad *bad)
{
    enum { FIRST = 7, LAST = 9 };
    struct gate gate;
    struct handoff_store_unit unit = {0};
    done_count = 0;
    hold_writer(store, &gate, mailbox);
    for (int i = 0; i < GROUP; i++) {
        temp_envelope(&puts[i], &ids, "task", 500);
        puts[i].job.mailbox = mailbox;
        puts[i].job.done = count_done;
        puts[i].job.unit = i >= FIRST && i <= LAST ? &unit : NULL;
        if (i == LAST && bad) {
            *bad =
                (struct bad){.put.job = {.run = run_bad, .mailbox = mailbox, .done = count_done}};
            bad->put.job.unit = &unit;
            handoff_store_submit(store, &bad->put.job);
        }
        handoff_store_put_envelope(store, &puts[i]);
        if (i == LAST)
            handoff_store_submit_unit(store, &unit, NULL);
    }
    release_writer(&gate);
    wait_done(mailbox, GROUP + 1 + (bad != NULL));
    for (int i = 0; i < GROUP; i++) {
        const bool failed = bad && i >= FIRST && i <= LAST;
        assert_int_equal(puts[i].job.error.code, failed ? HANDOFF_ERR_CONFLICT : HANDOFF_OK);
        assert_int_equal(has(store, &puts[i].id), !failed);
    }
}

static void test_a_unit_that_is_not_submitted_waits_for_nothing(void **state)
{
    char *directory = temp_directory();
    struct base_mailbox mailbox;
    struct handoff_store_unit unit = {0};
    struct handoff_store_put_envelope put;
    struct handoff_store_stats stats;
    (void)state;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_FULL);
    temp_envelope(&put, &ids, "task", 500);
    put.job.mailbox = &mailbox;
    put.job.done = count_done;
    put.job.unit = &unit;
    handoff_store_put_envelope(store, &put);
    handoff_store_stats(store, &stats);
    assert_int_equal(stats.waiting, 0);
    assert_false(has(store, &put.id));
    temp_envelope_free(&put);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    temp_remove(directory);
}

static void test_a_unit_is_stored_whole_or_not_at_all(void **state)
{
    char *directory = temp_directory();
    struct base_mailbox mailbox;
    struct handoff_store_put_envelope puts[GROUP];
    struct bad bad;
    struct handoff_store_stats before, after;
    (void)state;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_FULL);
    handoff_store_stats(store, &before);
    run_unit_in_group(store, &mailbox, puts, NULL);
    free_group(puts);
    run_unit_in_group(store, &mailbox, puts, &bad);
    free_group(puts);
    handoff_store_stats(store, &after);
    assert_int_equal(after.jobs - before.jobs, 2 * (GROUP + 1) + 1);
    assert_int_equal(after.jobs_failed - before.jobs_failed, 4);
    assert_int_equal(after.waiting, 0);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    temp_remove(directory);
}

/* durability full syncs every commit, none only checkpoints */
static void test_durability_decides_on_syncs(void **state)
{
    (void)state;
    for (int full = 0; full <= 1; full++) {
        char *directory = temp_directory();
        struct handoff_store *store = open_without_checkpoints(
            directory, full ? HANDOFF_DURABILITY_FULL : HANDOFF_DURABILITY_NONE);
        for (int i = 0; i < 5; i++) {
            struct handoff_store_put_envelope put;
            temp_envelope(&put, &ids, "task", 100);
            long syncs = atomic_load(&fault.syncs);
            assert_int_equal(temp_put(store, &put), HANDOFF_OK);
            if (full)
                assert_true(atomic_load(&fault.syncs) > syncs);
            else if (i > 0) /* the first writes the WAL's header */
                assert_int_equal(atomic_load(&fault.syncs), syncs);
            temp_envelope_free(&put);
        }
        handoff_store_close(&store);
        temp_remove(directory);
    }
}

/* The WAL is copied beside the writer, and all the same begun anew: it does not grow with what was
   written. */
static void test_the_wal_stays_bounded(void **state)
{
    enum { PAGES = 50, BODIES = 1000 };
    char *directory = temp_directory(), path[512];
    struct handoff_store_put_envelope put;
    struct handoff_store_stats stats;
    struct base_uuid first = {{0}}, last;
    struct stat wal;
    (void)state;
    struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_FULL);
    for (int i = 0; i < BODIES; i++) {
        temp_envelope(&put, &ids, "task", 8000);
        assert_int_equal(temp_put(store, &put), HANDOFF_OK);
        last = put.id;
        first = i == 0 ? put.id : first;
        temp_envelope_free(&put);
    }
    handoff_store_stats(store, &stats);
    assert_true(stats.checkpoints >= 2);
    assert_int_equal(stats.checkpoints_failed, 0);
    assert_true(has(store, &first));
    assert_true(has(store, &last));
    snprintf(path, sizeof path, "%s/handoff.db-wal", directory);
    assert_int_equal(stat(path, &wal), 0);
    assert_true(wal.st_size < 8 * PAGES * 4120); /* of 8 MB that went through it */
    handoff_store_close(&store);
    temp_remove(directory);
}

/* ---- a failing disk ---------------------------------------------------------------------------
 */

static void assert_sound(const char *directory)
{
    char path[512];
    sqlite3 *db;
    sqlite3_stmt *check;
    snprintf(path, sizeof path, "%s/handoff.db", directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &check, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(check), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(check, 0), "ok");
    sqlite3_finalize(check);
    sqlite3_close(db);
}

enum { PUTS = 24 }; /* of 8 KiB: several checkpoints at 50 pages each */

/* Puts while the n-th disk operation fails; what was acknowledged must be there after a reopening.
   Returns whether the disk failed at all. */
static bool put_through_failure(int kinds, long n, bool lasting, int result, enum handoff_code code)
{
    char *directory = temp_directory();
    struct handoff_store_put_envelope puts[PUTS];
    struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_FULL);
    int refused = 0;
    fault_at(kinds, n, lasting, result);
    for (int i = 0; i < PUTS; i++) {
        temp_envelope(&puts[i], &ids, "task", 8000);
        if (temp_put(store, &puts[i]) == HANDOFF_OK)
            continue;
        assert_int_equal(puts[i].job.error.code, code);
        assert_true(strlen(puts[i].job.error.message) > 20);
        refused++;
    }
    long failures = atomic_load(&fault.failures);
    if (!lasting) /* one failure refuses one put, and the next works again */
        assert_true(refused <= failures);
    handoff_store_close(&store);
    fault_lift();
    store = open_store(directory, HANDOFF_DURABILITY_FULL);
    for (int i = 0; i < PUTS; i++) {
        if (puts[i].job.error.code == HANDOFF_OK)
            assert_true(has(store, &puts[i].id));
        else /* not acknowledged: it can be sent again, whether it left a trace or not */
            assert_int_equal(temp_put(store, &puts[i]), HANDOFF_OK);
        temp_envelope_free(&puts[i]);
    }
    handoff_store_close(&store);
    assert_sound(directory);
    temp_remove(directory);
    return failures > 0;
}

static void fail_every_nth(int kinds, int result, enum handoff_code code, long step)
{
    for (int lasting = 0; lasting <= 1; lasting++) {
        long n = 1;
        while (put_through_failure(kinds, n, lasting, result, code))
            n += n < 25 ? 1 : step;
        assert_true(n > 24);
    }
}

static void test_every_nth_sync_fails(void **state)
{
    (void)state;
    fail_every_nth(FAULT_SYNC, SQLITE_IOERR_FSYNC, HANDOFF_ERR_STORE_IO, 1);
}

static void test_every_nth_write_fails(void **state)
{
    (void)state;
    fail_every_nth(FAULT_WRITE, SQLITE_IOERR_WRITE, HANDOFF_ERR_STORE_IO, 17);
}

static void test_every_nth_write_finds_a_full_disk(void **state)
{
    (void)state;
    fail_every_nth(FAULT_WRITE, SQLITE_FULL, HANDOFF_ERR_STORE_FULL, 17);
}

static struct base_uuid put_small(struct handoff_store *store)
{
    struct handoff_store_put_envelope put;
    temp_envelope(&put, &ids, "task", 1000);
    assert_int_equal(temp_put(store, &put), HANDOFF_OK);
    struct base_uuid id = put.id;
    temp_envelope_free(&put);
    return id;
}

/* No commit syncs here, so nobody but a checkpoint finds out; and then nothing is copied any more.
   The first checkpoint must not come before the fault: it would let the next commit begin the WAL
   anew, which syncs its header. So what starts one is more than the tables of a new store. */
static void test_a_failed_sync_of_a_checkpoint_is_told_once(void **state)
{
    enum { MANY = 1000 };
    char *directory = temp_directory();
    struct handoff_store_stats stats;
    struct base_uuid last;
    int left = MANY;
    (void)state;
    struct handoff_store *store =
        open_with(&(struct handoff_store_options){.path = directory,
                                                  .vfs = "fault",
                                                  .durability = HANDOFF_DURABILITY_NONE,
                                                  .checkpoint_pages = 1000});
    put_small(store); /* the first writes the WAL's header */
    fault_at(FAULT_SYNC, 1, true, SQLITE_IOERR_FSYNC);
    do {
        last = put_small(store);
        handoff_store_stats(store, &stats);
    } while (stats.commits_failed == 0 && --left > 0);
    assert_int_equal(stats.commits_failed, 1);
    for (int i = 0; i < MANY; i++)
        last = put_small(store);
    handoff_store_stats(store, &stats);
    assert_int_equal(stats.commits_failed, 1);
    assert_int_equal(stats.jobs_failed, 0);
    handoff_store_close(&store);
    fault_lift();
    store = open_store(directory, HANDOFF_DURABILITY_NONE);
    assert_true(has(store, &last));
    handoff_store_close(&store);
    assert_sound(directory);
    temp_remove(directory);
}

/* A group on a disk that takes no more: all are told, and when there is room again all goes on. */
static void test_a_full_disk_fails_the_group_and_recovers(void **state)
{
    char *directory = temp_directory();
    struct base_mailbox mailbox;
    struct handoff_store_put_envelope before, puts[GROUP];
    (void)state;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_FULL);
    temp_envelope(&before, &ids, "task", 100);
    assert_int_equal(temp_put(store, &before), HANDOFF_OK);
    fault_at(FAULT_WRITE, 1, true, SQLITE_FULL);
    run_group(store, &mailbox, puts, NULL);
    fault_lift();
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(puts[i].job.error.code, HANDOFF_ERR_STORE_FULL);
        assert_non_null(strstr(puts[i].job.error.message, "free space"));
        assert_false(has(store, &puts[i].id));
        assert_int_equal(temp_put(store, &puts[i]), HANDOFF_OK);
    }
    assert_true(has(store, &before.id));
    temp_envelope_free(&before);
    free_group(puts);
    handoff_store_close(&store);
    base_mailbox_free(&mailbox);
    temp_remove(directory);
}

static atomic_uint turned_bad, turned_good, probed;

static void count_turns(void *observer, const struct handoff_store_commit *commit)
{
    (void)observer;
    atomic_fetch_add(&turned_bad, commit->turned && commit->code == HANDOFF_ERR_STORE_FULL);
    atomic_fetch_add(&turned_good, commit->turned && commit->code == HANDOFF_OK);
    atomic_fetch_add(&probed, commit->probe && commit->jobs == 0);
}

/* A sidecar that is not ready is sent nothing, so no job shows that the disk has room again. */
static void test_a_store_that_fails_finds_out_by_itself_when_it_no_longer_does(void **state)
{
    char *directory = temp_directory();
    struct handoff_store_stats stats;
    struct handoff_store_put_envelope put;
    (void)state;
    struct handoff_store *store = open_with(&(struct handoff_store_options){
        .path = directory, .vfs = "fault", .on_commit = count_turns});
    put_small(store);
    assert_int_equal(handoff_store_failing(store), HANDOFF_OK);
    fault_at(FAULT_WRITE, 1, true, SQLITE_FULL);
    temp_envelope(&put, &ids, "task", 1000);
    assert_int_equal(temp_put(store, &put), HANDOFF_ERR_STORE_FULL);
    assert_int_equal(handoff_store_failing(store), HANDOFF_ERR_STORE_FULL);
    while (atomic_load(&probed) == 0)
        sched_yield();
    assert_int_equal(handoff_store_failing(store), HANDOFF_ERR_STORE_FULL);
    handoff_store_stats(store, &stats);
    assert_true(stats.commits_failed >= 2);
    fault_lift();
    while (handoff_store_failing(store) != HANDOFF_OK)
        sched_yield();
    assert_int_equal(temp_put(store, &put), HANDOFF_OK);
    handoff_store_close(&store);
    assert_int_equal(atomic_load(&turned_bad), 1);
    assert_int_equal(atomic_load(&turned_good), 1);
    temp_envelope_free(&put);
    assert_sound(directory);
    temp_remove(directory);
}

/* ---- SQLite's own allocations ------------------------------------------------------------------
 */

static sqlite3_mem_methods real_memory;
static atomic_long memory_left; /* allocations until the failure; < 0: never */
static atomic_bool memory_struck;

static bool memory_strikes(void)
{
    if (atomic_load(&memory_left) < 0 || atomic_fetch_sub(&memory_left, 1) != 0)
        return false;
    atomic_store(&memory_struck, true);
    return true;
}

static void *failing_malloc(int size)
{
    return memory_strikes() ? NULL : real_memory.xMalloc(size);
}

static void *failing_realloc(void *pointer, int size)
{
    return memory_strikes() ? NULL : real_memory.xRealloc(pointer, size);
}

static void install_failing_memory(void)
{
    sqlite3_mem_methods failing;
    atomic_store(&memory_left, -1);
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory);
    failing = real_memory;
    failing.xMalloc = failing_malloc;
    failing.xRealloc = failing_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
}

/* The n-th allocation inside SQLite fails while it puts, for every n: that put is refused or not,
   the following works, nothing acknowledged is lost. */
static void test_every_allocation_failure_while_putting(void **state)
{
    (void)state;
    char *directory = temp_directory(); /* one for all: to make a store takes most of the time */
    for (long n = 0, misses = 0; misses < 3; n++) {
        struct handoff_store_put_envelope puts[3];
        struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_NONE);
        atomic_store(&memory_struck, false);
        atomic_store(&memory_left, n);
        for (int i = 0; i < 3; i++) {
            temp_envelope(&puts[i], &ids, "task", 8000);
            if (i == 2) /* the last one after the trouble */
                atomic_store(&memory_left, -1);
            enum handoff_code code = temp_put(store, &puts[i]);
            assert_true(code == HANDOFF_OK || (i < 2 && code == HANDOFF_ERR_OUT_OF_MEMORY));
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(has(store, &puts[i].id), puts[i].job.error.code == HANDOFF_OK);
            temp_envelope_free(&puts[i]);
        }
        misses += !atomic_load(&memory_struck);
        handoff_store_close(&store);
    }
    temp_remove(directory);
}

/* ---- many threads ------------------------------------------------------------------------------
 */

enum { LOOPS = 3, EACH = 1500, AT_ONCE = 50 };

struct loop {
    pthread_t thread;
    struct handoff_store *store;
    struct base_mailbox mailbox;
    struct base_uuid written[EACH];
    int submitted, completed;
};

struct loop_put {
    struct handoff_store_put_envelope put;
    struct loop *loop;
};

static void submit_next(struct loop_put *put);

/* On the loop's own thread; what was acknowledged must be there for any reader. */
static void loop_put_done(struct handoff_store_job *job)
{
    struct loop_put *put = (struct loop_put *)(void *)job;
    BASE_CHECK(pthread_equal(put->loop->thread, pthread_self()));
    BASE_CHECK(job->error.code == HANDOFF_OK);
    put->loop->completed++;
    if (put->loop->completed % 16 == 0) {
        struct base_arena arena = {0};
        struct handoff_stored_envelope found;
        enum handoff_code code =
            handoff_store_get_envelope(put->loop->store, &put->put.id, &arena, &found, NULL);
        BASE_CHECK(code == HANDOFF_OK);
        BASE_CHECK(base_span_equal(found.body, put->put.body));
        base_arena_free(&arena);
    }
    temp_envelope_free(&put->put);
    submit_next(put);
}

static void submit_next(struct loop_put *put)
{
    struct loop *loop = put->loop;
    if (loop->submitted == EACH)
        return;
    temp_envelope(&put->put, &ids, "task", 300);
    put->put.job.mailbox = &loop->mailbox;
    put->put.job.done = loop_put_done;
    loop->written[loop->submitted++] = put->put.id;
    handoff_store_put_envelope(loop->store, &put->put);
}

static void *run_loop(void *argument)
{
    struct loop *loop = argument;
    struct loop_put puts[AT_ONCE];
    loop->thread = pthread_self();
    for (int i = 0; i < AT_ONCE; i++) {
        puts[i].loop = loop;
        submit_next(&puts[i]);
    }
    while (loop->completed < EACH)
        base_mailbox_wait(&loop->mailbox, -1);
    return NULL;
}

static atomic_uint largest_group, observed_jobs;

static void observe(void *observer, const struct handoff_store_commit *commit)
{
    BASE_CHECK(observer == &largest_group && commit->duration_ns > 0 && commit->code == HANDOFF_OK);
    atomic_fetch_add(&observed_jobs, commit->jobs);
    if (commit->jobs > atomic_load(&largest_group))
        atomic_store(&largest_group, commit->jobs);
}

static void test_many_loops_share_commits(void **state)
{
    char *directory = temp_directory();
    static struct loop loops[LOOPS];
    struct handoff_store *store;
    struct handoff_store_stats stats;
    struct handoff_store_options options = {.path = directory,
                                            .on_commit = observe,
                                            .observer = &largest_group,
                                            .group_max = 64,
                                            .checkpoint_pages = 500}; /* some, or none yet */
    pthread_t threads[LOOPS];
    (void)state;
    assert_int_equal(handoff_store_open(&store, &options, &error), HANDOFF_OK);
    for (int i = 0; i < LOOPS; i++) {
        memset(&loops[i], 0, sizeof loops[i]);
        loops[i].store = store;
        assert_int_equal(base_mailbox_init(&loops[i].mailbox, &error), HANDOFF_OK);
        assert_int_equal(pthread_create(&threads[i], NULL, run_loop, &loops[i]), 0);
    }
    for (int i = 0; i < LOOPS; i++)
        pthread_join(threads[i], NULL);
    handoff_store_stats(store, &stats);
    assert_int_equal(stats.jobs, LOOPS * EACH);
    assert_int_equal(atomic_load(&observed_jobs), LOOPS * EACH);
    assert_true(stats.commits < LOOPS * EACH / 2);
    assert_in_range(atomic_load(&largest_group), 2, 64);
    assert_int_equal(stats.commits_failed + stats.jobs_failed + stats.checkpoints_failed, 0);
    assert_true(stats.bytes > LOOPS * EACH * 300);
    assert_true(stats.file_bytes >= stats.bytes);
    for (int i = 0; i < LOOPS; i++) {
        for (int j = 0; j < EACH; j++)
            assert_true(has(store, &loops[i].written[j]));
        base_mailbox_free(&loops[i].mailbox);
    }
    handoff_store_close(&store);
    assert_sound(directory);
    temp_remove(directory);
}

/* Closing commits what was submitted; the completions wait in the mailbox. */
static void test_close_drains(void **state)
{
    char *directory = temp_directory();
    struct base_mailbox mailbox;
    struct handoff_store_put_envelope puts[GROUP];
    (void)state;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    struct handoff_store *store = open_store(directory, HANDOFF_DURABILITY_FULL);
    done_count = 0;
    for (int i = 0; i < GROUP; i++) {
        temp_envelope(&puts[i], &ids, "task", 500);
        puts[i].job.mailbox = &mailbox;
        puts[i].job.done = count_done;
        handoff_store_put_envelope(store, &puts[i]);
    }
    handoff_store_close(&store);
    assert_int_equal(done_count, 0);
    base_mailbox_run(&mailbox);
    assert_int_equal(done_count, GROUP);
    store = open_store(directory, HANDOFF_DURABILITY_FULL);
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(puts[i].job.error.code, HANDOFF_OK);
        assert_true(has(store, &puts[i].id));
    }
    free_group(puts);
    handoff_store_close(&store);
    handoff_store_close(&store);
    handoff_store_close(NULL);
    base_mailbox_free(&mailbox);
    temp_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_group_is_one_commit_and_one_sync),
        cmocka_unit_test(test_a_batch_is_one_commit),
        cmocka_unit_test(test_a_bad_job_fails_alone),
        cmocka_unit_test(test_a_unit_is_stored_whole_or_not_at_all),
        cmocka_unit_test(test_a_unit_that_is_not_submitted_waits_for_nothing),
        cmocka_unit_test(test_durability_decides_on_syncs),
        cmocka_unit_test(test_the_wal_stays_bounded),
        cmocka_unit_test(test_every_nth_sync_fails),
        cmocka_unit_test(test_a_failed_sync_of_a_checkpoint_is_told_once),
        cmocka_unit_test(test_every_nth_write_fails),
        cmocka_unit_test(test_every_nth_write_finds_a_full_disk),
        cmocka_unit_test(test_a_full_disk_fails_the_group_and_recovers),
        cmocka_unit_test(test_a_store_that_fails_finds_out_by_itself_when_it_no_longer_does),
        cmocka_unit_test(test_every_allocation_failure_while_putting),
        cmocka_unit_test(test_many_loops_share_commits),
        cmocka_unit_test(test_close_drains),
    };
    install_failing_memory();
    fault_vfs_register();
    base_uuid_source_init(&ids, NULL, NULL);
    return RUN_TESTS(tests);
}
