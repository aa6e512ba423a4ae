/* SPDX-License-Identifier: Apache-2.0 */
/* wraps: fsync */
/* Opening a store: what is wrong with it must come back as an error that says what to do. */
#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/store/sqlite/data_dir.h"
#include "client/store/sqlite/migrate.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/temp_store.h"

static struct handoff_error error;

static enum handoff_code try_open(const char *path, struct handoff_store **store)
{
    struct handoff_store_options options = {.path = path, .vfs = "fault"};
    memset(&error, 0, sizeof error);
    return handoff_store_open(store, &options, &error);
}

/* Opening must fail with this code, and the text must contain the advice. */
static void refuses(const char *path, enum handoff_code code, const char *advice)
{
    struct handoff_store *store;
    char text[512];
    assert_int_equal(try_open(path, &store), code);
    assert_null(store);
    assert_int_equal(error.code, code);
    handoff_error_text(&error, text, sizeof text);
    if (!strstr(text, advice))
        fail_msg("no \"%s\" in: %s", advice, text);
}

static void opens(const char *path)
{
    struct handoff_store *store;
    if (try_open(path, &store) != HANDOFF_OK) {
        char text[512];
        handoff_error_text(&error, text, sizeof text);
        fail_msg("%s", text);
    }
    handoff_store_close(&store);
    assert_null(store);
}

static char *in(const char *directory, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_file(const char *path, const void *data, size_t size, off_t at)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, size, at), size);
    close(fd);
}

static void sql(const char *path, const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_makes_the_folder_and_opens_again(void **state)
{
    char *directory = temp_directory(), path[512];
    struct stat found;
    (void)state;
    snprintf(path, sizeof path, "%s/a/b/c/", directory);
    opens(path);
    opens(path);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0700);
    refuses("", HANDOFF_ERR_STORE_READ_ONLY, "storage.path");
    temp_remove(directory);
}

static int syncs;
static bool syncs_fail;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
    syncs++;
    errno = EIO;
    return syncs_fail ? -1 : __real_fsync(fd);
}

/* Each folder that was made is synced in the one that holds it, or a power failure could take all
   that is synced below. */
static void test_a_folder_that_was_made_is_on_the_disk(void **state)
{
    char *directory = temp_directory(), path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/a/b", directory);
    syncs = 0;
    opens(path);
    assert_int_equal(syncs, 2);
    opens(path);
    assert_int_equal(syncs, 2);
    snprintf(path, sizeof path, "%s/c", directory);
    syncs_fail = true;
    refuses(path, HANDOFF_ERR_STORE_IO, "cannot be used");
    syncs_fail = false;
    opens(path);
    temp_remove(directory);
}

static void test_one_process_at_a_time(void **state)
{
    char *directory = temp_directory(), pid[32];
    struct handoff_store *store;
    (void)state;
    assert_int_equal(try_open(directory, &store), HANDOFF_OK);
    refuses(directory, HANDOFF_ERR_STORE_LOCKED, "another process is using this store");
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    assert_non_null(strstr(error.seen, pid));
    handoff_store_close(&store);
    opens(directory);
    temp_remove(directory);
}

static void test_newer_version(void **state)
{
    char *directory = temp_directory();
    (void)state;
    opens(directory);
    sql(in(directory, HANDOFF_STORE_FILE), "PRAGMA user_version = 9999");
    refuses(directory, HANDOFF_ERR_STORE_NEWER, "newer version");
    assert_non_null(strstr(error.seen, "9999"));
    temp_remove(directory);
}

static void test_not_our_database(void **state)
{
    char *directory = temp_directory();
    (void)state;
    sql(in(directory, HANDOFF_STORE_FILE), "CREATE TABLE birds (name)");
    refuses(directory, HANDOFF_ERR_STORE_FOREIGN, "another program");
    temp_remove(directory);
}

static void test_not_a_database(void **state)
{
    char *directory = temp_directory();
    (void)state;
    write_file(in(directory, HANDOFF_STORE_FILE), "hello", 5, 0);
    refuses(directory, HANDOFF_ERR_STORE_FOREIGN, "not a store");
    char text[8192];
    memset(text, 'x', sizeof text);
    write_file(in(directory, HANDOFF_STORE_FILE), text, sizeof text, 0);
    refuses(directory, HANDOFF_ERR_STORE_FOREIGN, "not a store");
    temp_remove(directory);
}

static void test_damaged_file(void **state)
{
    char *directory = temp_directory(), garbage[3000];
    (void)state;
    opens(directory);
    memset(garbage, 0xA5, sizeof garbage);
    write_file(in(directory, HANDOFF_STORE_FILE), garbage, sizeof garbage,
               100); /* the schema's page */
    refuses(directory, HANDOFF_ERR_STORE_CORRUPT, "restore a backup");
    temp_remove(directory);
}

static void test_cut_file(void **state)
{
    char *directory = temp_directory();
    (void)state;
    opens(directory);
    assert_int_equal(truncate(in(directory, HANDOFF_STORE_FILE), 5000), 0);
    refuses(directory, HANDOFF_ERR_STORE_CORRUPT, "restore a backup");
    temp_remove(directory);
}

static void test_an_empty_file_is_a_new_store(void **state)
{
    char *directory = temp_directory();
    (void)state;
    write_file(in(directory, HANDOFF_STORE_FILE), "", 0, 0);
    opens(directory);
    temp_remove(directory);
}

static void copy_file(const char *from, const char *to)
{
    char command[1200];
    snprintf(command, sizeof command, "cp %s %s", from, to);
    assert_int_equal(system(command), 0);
}

/* A process that is killed leaves its WAL. */
static void leave_a_wal(const char *directory)
{
    pid_t child = fork();
    if (child == 0) {
        struct handoff_store *store;
        struct handoff_store_put_envelope put;
        struct base_uuid_source ids;
        base_uuid_source_init(&ids, NULL, NULL);
        temp_envelope(&put, &ids, "task", 3000);
        bool left =
            try_open(directory, &store) == HANDOFF_OK && temp_put(store, &put) == HANDOFF_OK;
        _exit(left ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* SQLite would play it into the backup, which ruins that. */
static void test_a_backup_beside_the_wal_of_another(void **state)
{
    char *directory = temp_directory(), database[512], wal[512], copy[512];
    struct handoff_store_report report;
    (void)state;
    snprintf(database, sizeof database, "%s/" HANDOFF_STORE_FILE, directory);
    snprintf(wal, sizeof wal, "%s/" HANDOFF_STORE_FILE "-wal", directory);
    snprintf(copy, sizeof copy, "%s/copy.db", directory);
    leave_a_wal(directory);
    assert_int_equal(handoff_store_backup(directory, copy, &error), HANDOFF_OK);
    leave_a_wal(directory);
    copy_file(copy, database);
    refuses(directory, HANDOFF_ERR_STORE_FOREIGN, "handoff.db-wal");
    assert_int_equal(handoff_store_check(directory, &report, &error), HANDOFF_ERR_STORE_FOREIGN);
    assert_int_equal(truncate(database, 0), 0);
    refuses(directory, HANDOFF_ERR_STORE_FOREIGN, "handoff.db-wal");
    assert_int_equal(unlink(database), 0);
    refuses(directory, HANDOFF_ERR_STORE_FOREIGN, "handoff.db-wal");
    copy_file(copy, database);
    assert_int_equal(unlink(wal), 0);
    opens(directory);
    assert_int_equal(handoff_store_check(directory, &report, &error), HANDOFF_OK);
    assert_int_equal(report.envelopes, 1);
    assert_int_equal(report.problems, 0);
    temp_remove(directory);
}

static void test_path_is_a_file(void **state)
{
    char *directory = temp_directory();
    (void)state;
    write_file(in(directory, "file"), "x", 1, 0);
    refuses(in(directory, "file"), HANDOFF_ERR_STORE_READ_ONLY, "write access");
    temp_remove(directory);
}

/* Root may write everywhere, so a child that is nobody tries. */
static int as_nobody(void (*check)(const char *), const char *path)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(3);
        check(path);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void refuses_read_only(const char *path)
{
    struct handoff_store *store;
    if (try_open(path, &store) != HANDOFF_ERR_STORE_READ_ONLY ||
        !strstr(error.message, "write access"))
        _exit(1);
}

static void test_read_only_folder(void **state)
{
    char *directory = temp_directory(), path[512];
    (void)state;
    assert_int_equal(chmod(directory, 0555), 0);
    assert_int_equal(as_nobody(refuses_read_only, directory), 0);
    snprintf(path, sizeof path, "%s/below", directory);
    assert_int_equal(as_nobody(refuses_read_only, path), 0);
    assert_int_equal(chmod(directory, 0700), 0);
    opens(directory);
    chmod(directory, 0777);
    chmod(in(directory, "lock"), 0666);
    chmod(in(directory, HANDOFF_STORE_FILE), 0444);
    assert_int_equal(as_nobody(refuses_read_only, directory), 0);
    temp_remove(directory);
}

/* Whichever write, sync or truncation fails while a store is made: an error, and the next try
 * works. */
static void test_every_disk_failure_while_opening(void **state)
{
    static const struct {
        int result;
        enum handoff_code code;
    } kinds[] = {{SQLITE_FULL, HANDOFF_ERR_STORE_FULL}, {SQLITE_IOERR_FSYNC, HANDOFF_ERR_STORE_IO}};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        for (long n = 1;; n++) {
            char *directory = temp_directory();
            struct handoff_store *store;
            fault_at(FAULT_ANY, n, false, kinds[k].result);
            enum handoff_code code = try_open(directory, &store);
            fault_lift();
            bool reached = atomic_load(&fault.failures) > 0;
            if (code != HANDOFF_OK)
                assert_int_equal(code, kinds[k].code);
            handoff_store_close(&store);
            opens(directory);
            temp_remove(directory);
            if (!reached) {
                assert_true(n > 5);
                break;
            }
        }
    }
}

static void test_every_allocation_failure_while_opening(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        char *directory = temp_directory();
        struct handoff_store *store;
        failing_memory_at(n);
        enum handoff_code code = try_open(directory, &store);
        bool reached = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        assert_int_equal(code, reached ? HANDOFF_ERR_OUT_OF_MEMORY : HANDOFF_OK);
        handoff_store_close(&store);
        temp_remove(directory);
        if (!reached) {
            assert_true(n > 3);
            break;
        }
    }
}

/* A store of each earlier version is brought up, and a step that was done is not done again. */
static void test_migrates_from_every_version(void **state)
{
    (void)state;
    for (int from = 0; from <= handoff_migrate_newest(); from++) {
        char *directory = temp_directory();
        struct handoff_db db;
        int version;
        const char *path = in(directory, HANDOFF_STORE_FILE);
        assert_int_equal(handoff_db_open(&db, path, HANDOFF_DB_WRITE, NULL, &error), HANDOFF_OK);
        assert_int_equal(handoff_migrate(&db, from, &error), HANDOFF_OK);
        assert_int_equal(handoff_migrate_version(&db, &version, &error), HANDOFF_OK);
        assert_int_equal(version, from);
        handoff_db_close(&db);
        opens(directory);
        assert_int_equal(handoff_db_open(&db, path, HANDOFF_DB_READ, NULL, &error), HANDOFF_OK);
        assert_int_equal(handoff_migrate_version(&db, &version, &error), HANDOFF_OK);
        assert_int_equal(version, handoff_migrate_newest());
        handoff_db_close(&db);
        temp_remove(directory);
    }
}

/* ---- beside a store that is open --------------------------------------------------------------
 */

/* What a person's shell does in another process: opens, reads, closes. SQLite removes the WAL then,
   if nobody has the database open. */
static int visit(const char *path)
{
    sqlite3 *db;
    int result = sqlite3_open(path, &db);
    if (result == SQLITE_OK)
        result = sqlite3_exec(db, "SELECT count(*) FROM envelopes", NULL, NULL, NULL);
    sqlite3_close(db);
    return result;
}

static void have_a_visit(char *path)
{
    char name[] = "visitor", program[] = "/proc/self/exe";
    char *const arguments[] = {name, path, NULL};
    pid_t child;
    int status;
    assert_int_equal(posix_spawn(&child, program, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* POSIX drops all locks of a process on a file when it closes one of its descriptors: whoever looks
   into the file of an open store must not take its locks away. */
static void test_a_check_leaves_the_locks_of_an_open_store(void **state)
{
    char *directory = temp_directory(), path[512], copy[512];
    struct handoff_store *store;
    struct handoff_store_report report;
    struct handoff_store_put_envelope put;
    struct base_uuid_source ids;
    (void)state;
    base_uuid_source_init(&ids, NULL, NULL);
    snprintf(path, sizeof path, "%s/" HANDOFF_STORE_FILE, directory);
    snprintf(copy, sizeof copy, "%s/copy.db", directory);
    assert_int_equal(try_open(directory, &store), HANDOFF_OK);
    assert_int_equal(handoff_store_check(directory, &report, &error), HANDOFF_OK);
    assert_int_equal(handoff_store_backup(directory, copy, &error), HANDOFF_OK);
    have_a_visit(path);
    temp_envelope(&put, &ids, "task", 3000);
    assert_int_equal(temp_put(store, &put), HANDOFF_OK);
    assert_int_equal(handoff_store_check(directory, &report, &error), HANDOFF_OK);
    assert_int_equal(report.envelopes, 1); /* and not in a WAL that nobody finds any more */
    temp_envelope_free(&put);
    handoff_store_close(&store);
    temp_remove(directory);
}

int main(int argc, char *argv[])
{
    if (argc == 2)
        return visit(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_makes_the_folder_and_opens_again),
        cmocka_unit_test(test_a_folder_that_was_made_is_on_the_disk),
        cmocka_unit_test(test_one_process_at_a_time),
        cmocka_unit_test(test_newer_version),
        cmocka_unit_test(test_not_our_database),
        cmocka_unit_test(test_not_a_database),
        cmocka_unit_test(test_damaged_file),
        cmocka_unit_test(test_cut_file),
        cmocka_unit_test(test_an_empty_file_is_a_new_store),
        cmocka_unit_test(test_a_backup_beside_the_wal_of_another),
        cmocka_unit_test(test_path_is_a_file),
        cmocka_unit_test(test_read_only_folder),
        cmocka_unit_test(test_every_disk_failure_while_opening),
        cmocka_unit_test(test_every_allocation_failure_while_opening),
        cmocka_unit_test(test_migrates_from_every_version),
        cmocka_unit_test(test_a_check_leaves_the_locks_of_an_open_store),
    };
    fault_vfs_register();
    return RUN_TESTS(tests);
}
