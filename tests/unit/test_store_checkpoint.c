/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that copies the WAL beside the writer: it never begins where nothing is left to copy,
 * since that is when the writer may begin the WAL anew, and SQLite before 3.51.3 loses commits when
 * both begin at once (https://sqlite.org/wal.html, "The WAL-Reset Bug").
 */
#include "tests/support/unit.h"

#include <sys/stat.h>

#include "client/store/sqlite/checkpoint.h"
#include "client/store/sqlite/database.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/temp_store.h"

static struct handoff_error error;

struct fixture {
    char *directory, path[512];
    struct handoff_db writer;
    struct handoff_checkpoint checkpoint;
    int pages; /* in the WAL after the last commit */
};

static struct fixture fixture;

static int count_pages(void *context, sqlite3 *sqlite, const char *database, int pages)
{
    (void)context;
    (void)sqlite;
    (void)database;
    fixture.pages = pages;
    return SQLITE_OK;
}

static void write_rows(const char *sql)
{
    if (handoff_db_exec(&fixture.writer, sql, &error) != HANDOFF_OK)
        fail_msg("%s", error.seen);
}

static int begin(void **state)
{
    (void)state;
    fixture = (struct fixture){.directory = temp_directory()};
    snprintf(fixture.path, sizeof fixture.path, "%s/some.db", fixture.directory);
    assert_int_equal(
        handoff_db_open(&fixture.writer, fixture.path, HANDOFF_DB_WRITE, "fault", &error),
        HANDOFF_OK);
    write_rows("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
    sqlite3_wal_hook(fixture.writer.sqlite, count_pages, NULL);
    write_rows("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))");
    handoff_checkpoint_init(&fixture.checkpoint, fixture.path, "fault");
    atomic_store(&fault.copies, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    handoff_checkpoint_stop(&fixture.checkpoint);
    handoff_db_close(&fixture.writer);
    temp_remove(fixture.directory);
    return 0;
}

/* By what it tells of the pages in the WAL; and the writer has to find nothing left. */
static long copies_for(int pages)
{
    int in_wal = 0, copied = 0;
    atomic_store(&fault.copies, 0);
    assert_true(handoff_checkpoint_prepared(&fixture.checkpoint, pages, 0, true));
    long copies = atomic_load(&fault.copies);
    assert_int_equal(sqlite3_wal_checkpoint_v2(fixture.writer.sqlite, NULL,
                                               SQLITE_CHECKPOINT_PASSIVE, &in_wal, &copied),
                     SQLITE_OK);
    assert_int_equal(copied, in_wal);
    return copies;
}

static void test_copies_once_where_nothing_came(void **state)
{
    (void)state;
    assert_true(fixture.pages > 20);
    assert_int_equal(copies_for(fixture.pages), 1);
    write_rows("INSERT INTO t VALUES (1)"); /* it begins the WAL anew */
    assert_true(fixture.pages < 20);
    assert_int_equal(copies_for(fixture.pages), 1);
}

static void test_copies_again_what_came(void **state)
{
    (void)state;
    assert_int_equal(copies_for(fixture.pages + 1), 2);
}

/* A copy that failed says nothing about the WAL. */
static void test_a_failure_is_not_repeated(void **state)
{
    int in_wal = 0, copied = 0;
    (void)state;
    fault_at(FAULT_WRITE, 1, true, SQLITE_IOERR_WRITE);
    assert_true(handoff_checkpoint_prepared(&fixture.checkpoint, fixture.pages + 1, 0, true));
    assert_true(atomic_load(&fault.failures) > 0);
    assert_int_equal(atomic_load(&fault.copies), 1);
    fault_lift();
    assert_int_equal(sqlite3_wal_checkpoint_v2(fixture.writer.sqlite, NULL,
                                               SQLITE_CHECKPOINT_PASSIVE, &in_wal, &copied),
                     SQLITE_OK);
    assert_int_equal(copied, in_wal);
}

/* What was copied before is not on the disk for sure, and would not be copied again. */
static void test_a_failed_sync_ends_all_copying(void **state)
{
    struct stat found;
    char wal[540];
    (void)state;
    snprintf(wal, sizeof wal, "%s-wal", fixture.path);
    fault_at(FAULT_SYNC, 2, false, SQLITE_IOERR_FSYNC); /* the first is the WAL's */
    assert_false(handoff_checkpoint_prepared(&fixture.checkpoint, fixture.pages, 0, true));
    assert_int_equal(atomic_load(&fault.failures), 1);
    write_rows("INSERT INTO t VALUES (1)");
    atomic_store(&fault.copies, 0);
    assert_false(handoff_checkpoint_prepared(&fixture.checkpoint, fixture.pages, 0, true));
    handoff_checkpoint_before_close(&fixture.checkpoint, &fixture.writer);
    handoff_db_close(&fixture.writer);
    assert_int_equal(atomic_load(&fault.copies), 0);
    assert_int_equal(stat(wal, &found), 0);
    assert_true(found.st_size > 100000);
}

/* The writer's own copy tells, too. */
static void test_a_failed_sync_of_the_writer_does_so_too(void **state)
{
    (void)state;
    fault_at(FAULT_SYNC, 1, false, SQLITE_IOERR_FSYNC);
    assert_int_equal(handoff_checkpoint_copy(&fixture.checkpoint, &fixture.writer, NULL),
                     SQLITE_IOERR_FSYNC);
    atomic_store(&fault.copies, 0);
    assert_false(handoff_checkpoint_prepared(&fixture.checkpoint, fixture.pages, 0, true));
    assert_int_equal(atomic_load(&fault.copies), 0);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_copies_once_where_nothing_came),
        EACH(test_copies_again_what_came),
        EACH(test_a_failure_is_not_repeated),
        EACH(test_a_failed_sync_ends_all_copying),
        EACH(test_a_failed_sync_of_the_writer_does_so_too),
    };
    fault_vfs_register();
    return RUN_TESTS(tests);
}
