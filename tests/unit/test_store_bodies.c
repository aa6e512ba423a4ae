/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies beside the database: what goes there comes back byte for byte, is counted, goes with its
 * envelope, and a disk or a hand that spoils the file is noticed.
 */
#include "tests/support/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/store/sqlite/body_files.h"
#include "client/store/sqlite/body_log.h"
#include "client/store/sqlite/retention.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/temp_store.h"

enum { GROUP = 8 }; /* enough to share a sync */

static struct handoff_error error;
static struct base_uuid_source ids;

struct fixture {
    char *directory, database[512], first_file[512];
    struct handoff_store_options options;
    struct handoff_store *store;
    struct base_mailbox mailbox;
    struct base_arena arena;
    int done;
};

static struct fixture fixture;

static void reopen(void)
{
    handoff_store_close(&fixture.store);
    if (handoff_store_open(&fixture.store, &fixture.options, &error) != HANDOFF_OK)
        fail_msg("%s: %s", error.message, error.seen);
}

static int begin(void **state)
{
    (void)state;
    fixture = (struct fixture){.directory = temp_directory()};
    snprintf(fixture.database, sizeof fixture.database, "%s/handoff.db", fixture.directory);
    snprintf(fixture.first_file, sizeof fixture.first_file, "%.400s-bodies-1", fixture.database);
    fixture.options = (struct handoff_store_options){
        .path = fixture.directory, .vfs = "fault", .retention_every_ms = 1 << 30};
    assert_int_equal(base_mailbox_init(&fixture.mailbox, &error), HANDOFF_OK);
    reopen();
    return 0;
}

static int end(void **state)
{
    (void)state;
    fault_lift();
    handoff_store_close(&fixture.store);
    base_mailbox_free(&fixture.mailbox);
    base_arena_free(&fixture.arena);
    temp_remove(fixture.directory);
    return 0;
}

static void count_done(struct handoff_store_job *job)
{
    (void)job;
    fixture.done++;
}

/* All in one commit. */
static void put_together(struct handoff_store_put_envelope *puts, int count)
{
    struct handoff_store_batch batch = {0};
    fixture.done = 0;
    for (int i = 0; i < count; i++) {
        puts[i].job.mailbox = &fixture.mailbox;
        puts[i].job.done = count_done;
        puts[i].job.batch = &batch;
        handoff_store_put_envelope(fixture.store, &puts[i]);
    }
    handoff_store_submit_batch(fixture.store, &batch);
    while (fixture.done < count)
        base_mailbox_wait(&fixture.mailbox, -1);
}

static void make(struct handoff_store_put_envelope *puts, int count, size_t size)
{
    for (int i = 0; i < count; i++)
        temp_envelope(&puts[i], &ids, "task", size + (size_t)i);
}

static void release(struct handoff_store_put_envelope *puts, int count)
{
    for (int i = 0; i < count; i++)
        temp_envelope_free(&puts[i]);
}

static enum handoff_code get(const struct base_uuid *id, struct handoff_stored_envelope *found)
{
    return handoff_store_get_envelope(fixture.store, id, &fixture.arena, found, &error);
}

static void assert_stored(const struct handoff_store_put_envelope *puts, int count)
{
    struct handoff_stored_envelope found;
    for (int i = 0; i < count; i++) {
        assert_int_equal(puts[i].job.error.code, HANDOFF_OK);
        assert_int_equal(get(&puts[i].id, &found), HANDOFF_OK);
        assert_true(base_span_equal(found.body, puts[i].body));
    }
}

static int64_t ask(const char *sql)
{
    int64_t number;
    struct handoff_db *db = handoff_store_reader(fixture.store, &error);
    assert_non_null(db);
    assert_int_equal(handoff_db_number(db, sql, &number, &error), HANDOFF_OK);
    handoff_store_reader_done(fixture.store, db);
    return number;
}

/* How many bodies are in files; the table of files has to say the same. */
static int64_t outside(void)
{
    int64_t count =
        ask("SELECT count(*) FROM envelopes WHERE typeof(body) = 'text' AND body <> ''");
    assert_int_equal(ask("SELECT coalesce(sum(envelopes), 0) FROM body_files"), count);
    assert_int_equal(ask("SELECT coalesce(sum(bytes), 0) FROM body_files"),
                     ask("SELECT coalesce(sum(substr(body, instr(substr(body, 3), ':') + 3)), 0)"
                         " FROM envelopes WHERE typeof(body) = 'text' AND body <> ''"));
    return count;
}

static void finish(const struct base_uuid *id, int64_t finished_ms)
{
    struct handoff_store_finish_envelope job = {.id = *id, .finished_ms = finished_ms};
    handoff_store_finish_envelope(
        fixture.store,
        (job.job.mailbox = &fixture.mailbox, job.job.done = count_done, fixture.done = 0, &job));
    while (fixture.done < 1)
        base_mailbox_wait(&fixture.mailbox, -1);
    assert_int_equal(job.job.error.code, HANDOFF_OK);
}

static bool exists(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0;
}

/* ---- where a body goes ------------------------------------------------------------------------
 */

static void test_places(void **state)
{
    static const char *const bad[] = {"",
                                      "1",
                                      "1:2",
                                      "1:2:",
                                      ":2:3",
                                      "1::3",
                                      "0:2:3",
                                      "-1:2:3",
                                      "1:2:3 ",
                                      "1:2:3x",
                                      "1:2:3:",
                                      "a:2:3",
                                      "1:2:2147483648",
                                      "9223372036854775808:0:1"};
    struct handoff_body_place place = {3, 1048576, 9216};
    char text[HANDOFF_BODY_PLACE_TEXT];
    (void)state;
    assert_int_equal(handoff_body_place_format(&place, text), 14);
    assert_string_equal(text, "3:1048576:9216");
    memset(&place, 0, sizeof place);
    assert_true(handoff_body_place_parse(base_span_text(text), &place));
    assert_int_equal(place.file, 3);
    assert_int_equal(place.at, 1048576);
    assert_int_equal(place.size, 9216);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(handoff_body_place_parse(base_span_text(bad[i]), &place));
}

static void test_a_group_shares_a_file(void **state)
{
    struct handoff_store_put_envelope puts[GROUP], alone, small[GROUP];
    (void)state;
    make(puts, GROUP, 9000);
    make(&alone, 1, 9000);
    make(small, GROUP, 500);
    assert_false(exists(fixture.first_file));
    put_together(&alone, 1); /* a file would cost it a sync more */
    put_together(small, GROUP);
    assert_int_equal(outside(), 0);
    assert_false(exists(fixture.first_file));
    put_together(puts, GROUP);
    assert_int_equal(outside(), GROUP);
    assert_true(exists(fixture.first_file));
    assert_stored(puts, GROUP);
    assert_stored(&alone, 1);
    assert_stored(small, GROUP);
    release(puts, GROUP);
    release(&alone, 1);
    release(small, GROUP);
}

static void test_without_syncs_one_is_enough(void **state)
{
    struct handoff_store_put_envelope put;
    (void)state;
    fixture.options.durability = HANDOFF_DURABILITY_NONE;
    reopen();
    make(&put, 1, 9000);
    put_together(&put, 1);
    assert_int_equal(outside(), 1);
    assert_stored(&put, 1);
    release(&put, 1);
}

/* More than is gathered for a file: the rest goes into rows. */
static void test_large_ones(void **state)
{
    struct handoff_store_put_envelope puts[GROUP];
    (void)state;
    make(puts, GROUP, 1000000);
    put_together(puts, GROUP);
    assert_int_equal(outside(), 4);
    assert_stored(puts, GROUP);
    release(puts, GROUP);
}

static void test_the_same_again_is_not_counted_twice(void **state)
{
    struct handoff_store_put_envelope puts[GROUP];
    (void)state;
    make(puts, GROUP, 3000);
    put_together(puts, GROUP);
    put_together(puts, GROUP);
    assert_int_equal(outside(), GROUP);
    assert_stored(puts, GROUP);
    release(puts, GROUP);
}

static void test_goes_on_behind_the_last_after_a_reopening(void **state)
{
    struct handoff_store_put_envelope puts[3][GROUP];
    (void)state;
    for (int i = 0; i < 3; i++) {
        make(puts[i], GROUP, 3000);
        put_together(puts[i], GROUP);
        reopen();
    }
    assert_int_equal(ask("SELECT max(file) FROM body_files"), 1);
    for (int i = 0; i < 3; i++) {
        assert_stored(puts[i], GROUP);
        release(puts[i], GROUP);
    }
}

static void assert_mode(const char *path, mode_t mode)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, mode);
}

/* As the WAL is. */
static void test_is_as_readable_as_the_database(void **state)
{
    struct handoff_store_put_envelope puts[GROUP];
    (void)state;
    mode_t mask = umask(0);
    assert_int_equal(chmod(fixture.database, 0640), 0);
    make(puts, GROUP, 3000);
    put_together(puts, GROUP);
    umask(mask);
    assert_mode(fixture.first_file, 0640);
    assert_stored(puts, GROUP);
    release(puts, GROUP);
}

/* The files are where the database is, as its WAL, and not where a link to it is. */
static void test_follows_a_link_to_the_database(void **state)
{
    struct handoff_store_put_envelope puts[GROUP];
    struct handoff_store_report report;
    char folder[540], moved[600], file[620];
    (void)state;
    snprintf(folder, sizeof folder, "%s/disk", fixture.directory);
    snprintf(moved, sizeof moved, "%s/handoff.db", folder);
    snprintf(file, sizeof file, "%s-bodies-1", moved);
    handoff_store_close(&fixture.store);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(rename(fixture.database, moved), 0);
    assert_int_equal(symlink(moved, fixture.database), 0);
    reopen();
    make(puts, GROUP, 3000);
    put_together(puts, GROUP);
    assert_stored(puts, GROUP);
    assert_true(exists(file));
    assert_int_equal(handoff_store_check(folder, &report, &error), HANDOFF_OK);
    assert_int_equal(report.envelopes, GROUP);
    assert_int_equal(report.problems, 0);
    release(puts, GROUP);
}

/* ---- a failing disk ---------------------------------------------------------------------------
 */

/* The file cannot be written or synced: the bodies go into their rows, and nobody is refused. */
static void test_a_file_that_fails_refuses_nobody(void **state)
{
    static const int kinds[] = {FAULT_WRITE, FAULT_SYNC};
    static const int results[] = {SQLITE_FULL, SQLITE_IOERR_WRITE};
    struct handoff_store_put_envelope puts[GROUP];
    (void)state;
    for (int i = 0; i < 4; i++) {
        make(puts, GROUP, 3000);
        int64_t before = outside();
        fault_at(kinds[i / 2], 1, false, results[i % 2]); /* the first of a group is the file's */
        put_together(puts, GROUP);
        assert_int_equal(atomic_load(&fault.failures), 1);
        assert_int_equal(outside(), before);
        assert_stored(puts, GROUP);
        put_together(puts, 1);
        release(puts, GROUP);
        make(puts, GROUP, 3000); /* and the next group takes the file again */
        put_together(puts, GROUP);
        assert_int_equal(outside(), before + GROUP);
        assert_stored(puts, GROUP);
        release(puts, GROUP);
    }
}

/* The commit fails after the bodies were written: all are refused, and what comes then does not lie
   where they lay. */
static void test_a_failed_commit_leaves_nothing(void **state)
{
    struct handoff_store_put_envelope puts[GROUP], next[GROUP];
    struct handoff_stored_envelope found;
    struct stat before, after;
    (void)state;
    make(puts, GROUP, 3000);
    make(next, GROUP, 3000);
    put_together(next, 4);
    assert_int_equal(stat(fixture.first_file, &before), 0);
    fault_at(FAULT_SYNC, 2, false, SQLITE_IOERR_FSYNC); /* the second is the WAL's */
    put_together(puts, GROUP);
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(puts[i].job.error.code, HANDOFF_ERR_STORE_IO);
        assert_int_equal(get(&puts[i].id, &found), HANDOFF_ERR_NOT_FOUND);
    }
    assert_int_equal(outside(), 4);
    put_together(next + 4, 4);
    assert_int_equal(stat(fixture.first_file, &after), 0);
    assert_true(after.st_size > before.st_size + GROUP * 3000 + 4 * 3000);
    assert_int_equal(outside(), 8);
    assert_stored(next, GROUP);
    release(puts, GROUP);
    release(next, GROUP);
}

/* It exists, and may only be read: the group is not tried with it and then repeated. */
static void test_a_file_that_may_only_be_read_is_left_alone(void **state)
{
    struct handoff_store_put_envelope puts[2][GROUP];
    (void)state;
    make(puts[0], GROUP, 3000);
    make(puts[1], GROUP, 3000);
    put_together(puts[0], GROUP);
    reopen();
    atomic_store(&fault.read_only, true);
    atomic_store(&fault.syncs, 0);
    put_together(puts[1], GROUP);
    assert_in_range(atomic_load(&fault.syncs), 1, 2);
    assert_int_equal(outside(), GROUP);
    for (int i = 0; i < 2; i++) {
        assert_stored(puts[i], GROUP);
        release(puts[i], GROUP);
    }
}

/* That a file cannot be opened now is not to be taken for damage: nothing is lost. */
static void test_no_descriptor_is_no_damage(void **state)
{
    struct handoff_store_put_envelope puts[GROUP];
    struct handoff_stored_envelope found;
    struct rlimit before, none;
    (void)state;
    make(puts, GROUP, 3000);
    put_together(puts, GROUP);
    reopen();
    assert_int_equal(outside(), GROUP); /* a reader is there, which has not opened the file */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(close(next), 0);
    none = (struct rlimit){(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum handoff_code code = get(&puts[0].id, &found);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(code, HANDOFF_ERR_STORE_IO);
    assert_stored(puts, GROUP);
    release(puts, GROUP);
}

/* Gives the byte that was there. */
static int spoil(char byte, int64_t at)
{
    FILE *file = fopen(fixture.first_file, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    int before = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte, file), EOF);
    fclose(file);
    return before;
}

static void test_a_spoiled_file_is_noticed(void **state)
{
    struct handoff_store_put_envelope puts[GROUP];
    struct handoff_stored_envelope found;
    struct handoff_store_report report;
    (void)state;
    make(puts, GROUP, 3000);
    put_together(puts, GROUP);
    assert_int_equal(handoff_store_check(fixture.directory, &report, &error), HANDOFF_OK);
    assert_int_equal(report.problems, 0);
    assert_int_equal(report.envelopes, GROUP);
    spoil('?', 2500);
    assert_int_equal(get(&puts[0].id, &found), HANDOFF_ERR_STORE_CORRUPT);
    assert_stored(puts + 1, GROUP - 1);
    assert_int_equal(handoff_store_check(fixture.directory, &report, &error), HANDOFF_OK);
    assert_int_equal(report.problems, 1);
    assert_int_equal(truncate(fixture.first_file, 4000), 0);
    assert_int_equal(get(&puts[GROUP - 1].id, &found), HANDOFF_ERR_STORE_CORRUPT);
    assert_int_equal(unlink(fixture.first_file), 0);
    reopen();
    assert_int_equal(get(&puts[1].id, &found), HANDOFF_ERR_STORE_CORRUPT);
    assert_non_null(strstr(error.seen, "handoff.db-bodies-1"));
    assert_int_equal(handoff_store_check(fixture.directory, &report, &error), HANDOFF_OK);
    assert_int_equal(report.problems, GROUP);
    release(puts, GROUP);
}

/* ---- files come and go ------------------------------------------------------------------------
 */

enum { FILES = 4 };

static struct handoff_store_put_envelope many[FILES][GROUP];

/* GROUP envelopes in each file, made at time 1 and not finished. */
static void fill_files(void)
{
    fixture.options.body_file_bytes = GROUP * 3000;
    reopen();
    for (int i = 0; i < FILES; i++) {
        make(many[i], GROUP, 3000);
        put_together(many[i], GROUP);
    }
    assert_int_equal(ask("SELECT count(*) FROM body_files"), FILES);
    assert_int_equal(outside(), FILES * GROUP);
}

/* All that retention and tidying do, as the writer would, with the store closed. */
static void retain(void)
{
    struct handoff_db db;
    const struct handoff_retention limits = {.age_ms = 10};
    struct handoff_damaged_files damaged = {0};
    struct handoff_retention_removed removed;
    bool more;
    handoff_store_close(&fixture.store);
    assert_int_equal(handoff_db_open(&db, fixture.database, HANDOFF_DB_WRITE, NULL, &error),
                     HANDOFF_OK);
    do {
        assert_int_equal(handoff_retention_step(&db, limits, 1000, &removed, &error), HANDOFF_OK);
        assert_int_equal(handoff_body_files_tidy(&db, &damaged, &more, &error), HANDOFF_OK);
    } while (removed.envelopes > 0 || more);
    handoff_damaged_files_free(&damaged);
    handoff_db_close(&db);
    reopen();
}

static bool file_exists(int number)
{
    char path[540];
    snprintf(path, sizeof path, "%s-bodies-%d", fixture.database, number);
    return exists(path);
}

/* How many descriptors of this process are of files that were removed. */
static int removed_and_open(void)
{
    int count = 0;
    char target[600];
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        ssize_t size = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        count += strstr(target, "-bodies-") && strstr(target, " (deleted)");
    }
    closedir(folder);
    return count;
}

static void release_files(void)
{
    for (int i = 0; i < FILES; i++)
        release(many[i], GROUP);
}

static void test_a_file_goes_with_its_last_envelope(void **state)
{
    struct handoff_stored_envelope found;
    (void)state;
    fill_files();
    for (int i = 0; i < GROUP; i++)
        finish(&many[0][i].id, 10);
    retain();
    assert_false(file_exists(1));
    assert_true(file_exists(2));
    assert_int_equal(outside(), (FILES - 1) * GROUP);
    assert_int_equal(get(&many[0][0].id, &found), HANDOFF_ERR_NOT_FOUND);
    for (int i = 1; i < FILES; i++)
        assert_stored(many[i], GROUP);
    for (int i = 0; i < GROUP; i++)
        finish(&many[FILES - 1][i].id, 10);
    retain();
    assert_true(file_exists(FILES)); /* the newest stays: it is written to */
    release_files();
}

/* A removed file that somebody still held open would keep its space. */
static void test_a_removed_file_is_gone(void **state)
{
    struct handoff_store_stats stats;
    /* static: the store reads it, and is closed after the test */
    static struct base_manual_clock clock;
    (void)state;
    base_manual_clock_init(&clock, 1000);
    fixture.options.clock = &clock.clock;
    fixture.options.retention_age_ms = 500;
    fixture.options.retention_every_ms = 1;
    fill_files();
    assert_stored(many[0], GROUP);
    assert_stored(many[1], GROUP / 4); /* its reader holds the second file, if any */
    for (int i = 0; i < GROUP; i++)
        finish(&many[0][i].id, 1000);
    for (int i = 1; i < GROUP; i++)
        finish(&many[1][i].id, 1000);
    for (int i = 0; i < GROUP / 2 + 1; i++)
        finish(&many[2][i].id, 1000);
    base_manual_clock_advance(&clock, 1000);
    do
        handoff_store_stats(fixture.store, &stats);
    while (file_exists(1) || file_exists(2));
    assert_int_equal(removed_and_open(), 0);
    assert_stored(&many[1][0], 1); /* a straggler, in its row now */
    release_files();
}

static void test_stragglers_do_not_keep_a_file(void **state)
{
    (void)state;
    fill_files();
    for (int i = 1; i < GROUP; i++)
        finish(&many[0][i].id, 10);
    retain();
    assert_true(file_exists(1)); /* its neighbour is full: the last one may go soon */
    for (int i = 0; i < GROUP / 2 + 1; i++)
        finish(&many[1][i].id, 10);
    retain();
    assert_false(file_exists(1));
    assert_true(file_exists(2));
    assert_stored(&many[0][0], 1);
    assert_int_equal(outside(), (FILES - 1) * GROUP - GROUP / 2 - 1);
    release_files();
}

/* Its neighbour is gone: what kept that from being seen half empty is no reason to keep it. */
static void test_stragglers_outlive_their_neighbour(void **state)
{
    (void)state;
    fill_files();
    for (int i = 1; i < GROUP; i++)
        finish(&many[0][i].id, 10);
    for (int i = 0; i < GROUP; i++)
        finish(&many[1][i].id, 10);
    retain();
    assert_false(file_exists(1));
    assert_false(file_exists(2));
    assert_true(file_exists(3));
    assert_stored(&many[0][0], 1);
    assert_int_equal(outside(), 2 * GROUP);
    release_files();
}

/* What is damaged is not moved: the file may be put right, or back, while a row would be wrong for
   ever. And it keeps nothing else from being tidied. */
static void test_damage_is_left_where_it_is(void **state)
{
    struct handoff_stored_envelope found;
    (void)state;
    fill_files();
    for (int i = 2; i < GROUP; i++)
        finish(&many[0][i].id, 10);
    for (int i = 1; i < GROUP; i++)
        finish(&many[1][i].id, 10);
    for (int i = 0; i < GROUP; i++)
        finish(&many[2][i].id, 10);
    int before = spoil('?', 2500);
    retain();
    assert_true(file_exists(1));
    assert_false(file_exists(2));
    assert_false(file_exists(3));
    assert_stored(&many[0][1], 1);
    assert_stored(&many[1][0], 1);
    assert_int_equal(get(&many[0][0].id, &found), HANDOFF_ERR_STORE_CORRUPT);
    assert_int_equal(outside(), 1 + GROUP);
    spoil((char)before, 2500);
    assert_stored(many[0], 1);
    retain();
    assert_false(file_exists(1));
    assert_stored(many[0], 1);
    release_files();
}

static void by_hand(const char *sql)
{
    struct handoff_db db;
    handoff_store_close(&fixture.store);
    assert_int_equal(handoff_db_open(&db, fixture.database, HANDOFF_DB_WRITE, NULL, &error),
                     HANDOFF_OK);
    assert_int_equal(handoff_db_exec(&db, sql, &error), HANDOFF_OK);
    handoff_db_close(&db);
    reopen();
}

/* Whatever brought them about: a file that is named stays, and one that is not goes. */
static void test_wrong_counts_are_noticed_and_put_right(void **state)
{
    struct handoff_store_report report;
    (void)state;
    fill_files();
    by_hand("UPDATE body_files SET envelopes = 0, bytes = 0 WHERE file = 1;"
            "DELETE FROM envelopes WHERE seq IN (SELECT seq FROM envelopes, body_files"
            " WHERE file = 2 AND seq BETWEEN first_seq AND last_seq);"
            "DELETE FROM addressed WHERE seq NOT IN (SELECT seq FROM envelopes)");
    assert_int_equal(handoff_store_check(fixture.directory, &report, &error), HANDOFF_OK);
    assert_int_equal(report.problems, 1);
    assert_non_null(strstr(report.problem, "body_files"));
    for (int i = 0; i < GROUP / 2 + 1; i++)
        finish(&many[2][i].id, 10); /* what lags behind is looked at */
    retain();
    assert_false(file_exists(2));
    assert_stored(many[0], GROUP);
    assert_int_equal(outside(), 2 * GROUP - GROUP / 2 - 1);
    assert_int_equal(handoff_store_check(fixture.directory, &report, &error), HANDOFF_OK);
    assert_int_equal(report.problems, 0);
    release_files();
}

static atomic_uint failed_commits_told;

static void count_failed(void *unused, const struct handoff_store_commit *commit)
{
    (void)unused;
    atomic_fetch_add(&failed_commits_told, commit->code != HANDOFF_OK);
}

/* And goes when its last envelope does. */
static void test_an_unreadable_file_is_told_of_once(void **state)
{
    static struct base_manual_clock clock;
    struct handoff_store_stats stats;
    (void)state;
    base_manual_clock_init(&clock, 1000);
    fixture.options.clock = &clock.clock;
    atomic_store(&failed_commits_told, 0);
    fill_files();
    for (int i = 0; i < 2; i++)
        for (int k = 1; k < GROUP; k++)
            finish(&many[i][k].id, 1000);
    for (int i = 0; i < GROUP / 2 + 1; i++)
        finish(&many[2][i].id, 1000);
    assert_int_equal(unlink(fixture.first_file), 0);
    assert_int_equal(mkdir(fixture.first_file, 0700), 0); /* it opens, and cannot be read */
    fixture.options.on_commit = count_failed;
    fixture.options.retention_age_ms = 500;
    fixture.options.retention_every_ms = 1;
    reopen();
    base_manual_clock_advance(&clock, 1000);
    while (file_exists(2))
        sched_yield();
    assert_stored(&many[1][0], 1); /* in its row now */
    for (int i = GROUP / 2 + 1; i < GROUP; i++)
        finish(&many[2][i].id, 1000);
    while (file_exists(3)) /* and many looks later */
        sched_yield();
    handoff_store_stats(fixture.store, &stats);
    assert_int_equal(stats.commits_failed, 1);
    assert_int_equal(atomic_load(&failed_commits_told), 1);
    assert_int_equal(ask("SELECT count(*) FROM body_files WHERE file = 1"), 1);
    assert_int_equal(rmdir(fixture.first_file), 0);
    finish(&many[0][0].id, 1000);
    while (ask("SELECT count(*) FROM body_files WHERE file = 1") > 0)
        sched_yield();
    release_files();
}

static void test_several_unreadable_files_count_each(void **state)
{
    static struct base_manual_clock clock;
    struct handoff_store_stats stats;
    char second[600];
    (void)state;
    base_manual_clock_init(&clock, 1000);
    fixture.options.clock = &clock.clock;
    atomic_store(&failed_commits_told, 0);
    fill_files();
    for (int i = 0; i < 3; i++)
        for (int k = i < 2; k < GROUP; k++) /* a straggler in the first two */
            finish(&many[i][k].id, 1000);
    snprintf(second, sizeof second, "%s-bodies-2", fixture.database);
    assert_int_equal(truncate(fixture.first_file, 0), 0);
    assert_int_equal(truncate(second, 0), 0);
    fixture.options.on_commit = count_failed;
    fixture.options.retention_age_ms = 500;
    fixture.options.retention_every_ms = 1;
    reopen();
    base_manual_clock_advance(&clock, 1000);
    while (file_exists(3) || atomic_load(&failed_commits_told) < 2)
        sched_yield();
    for (int i = 0; i < GROUP; i++) /* and looks later */
        finish(&many[3][i].id, 3000);
    handoff_store_stats(fixture.store, &stats);
    assert_int_equal(stats.commits_failed, 2);
    assert_true(file_exists(1) && file_exists(2));
    handoff_store_close(&fixture.store); /* before the clock goes */
    release_files();
}

static void make_file(const char *format)
{
    char path[600];
    snprintf(path, sizeof path, format, fixture.database);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs("left behind", file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static bool was_kept(const char *format)
{
    char path[600];
    snprintf(path, sizeof path, format, fixture.database);
    return exists(path);
}

/* And nothing else that lies there. */
static void test_files_that_no_row_names_go_at_the_start(void **state)
{
    static const char *const kept[] = {"%s-bodies-", "%s-bodies-07", "%s-bodies-7x",
                                       "%s-bodies-99999999999999999999", "%s.old-bodies-7"};
    struct handoff_store_kept counted;
    (void)state;
    fill_files();
    handoff_store_close(&fixture.store);
    make_file("%s-bodies-7");
    make_file("%s-bodies-3000000000");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        make_file(kept[i]);
    reopen();
    assert_false(was_kept("%s-bodies-7"));
    assert_false(was_kept("%s-bodies-3000000000"));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_true(was_kept(kept[i]));
    handoff_store_kept(fixture.store, &counted);
    assert_int_equal(counted.orphans, 2);
    assert_int_equal(counted.orphans_bytes, 2 * strlen("left behind"));
    for (int i = 0; i < FILES; i++)
        assert_stored(many[i], GROUP);
    release_files();
}

/* In a process of its own, which is killed when the body is in its file and the row is not
   committed. */
static void write_a_body_and_die(void)
{
    struct handoff_db db;
    struct handoff_body_place place;
    struct handoff_body_log log = {.db = &db, .file_max = 1 << 20, .synced = true};
    char body[3000] = {0};
    if (handoff_db_open(&db, fixture.database, HANDOFF_DB_WRITE, NULL, &error) == HANDOFF_OK &&
        handoff_db_exec(&db, "BEGIN IMMEDIATE", &error) == HANDOFF_OK) {
        handoff_body_log_begin(&log);
        if (handoff_body_log_append(&log, base_span(body, sizeof body), &place)) {
            handoff_body_log_named(&log, &place, 1);
            if (handoff_body_log_flush(&log, &error) == HANDOFF_OK)
                kill(getpid(), SIGKILL);
        }
    }
    _exit(1);
}

static void test_a_kill_between_file_and_row(void **state)
{
    struct handoff_store_kept counted;
    int ended;
    (void)state;
    handoff_store_close(&fixture.store);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        write_a_body_and_die();
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    assert_true(file_exists(1));
    reopen();
    assert_false(file_exists(1));
    handoff_store_kept(fixture.store, &counted);
    assert_int_equal(counted.orphans, 1);
    fill_files(); /* its number is used again */
    for (int i = 0; i < FILES; i++)
        assert_stored(many[i], GROUP);
    release_files();
}

/* Without syncs, the rows that still name a file may be what a power failure brings back. So it
   goes only when what took it out of them is on the disk. */
static void test_a_file_goes_after_what_named_it(void **state)
{
    const struct handoff_retention limits = {.age_ms = 10};
    struct handoff_db db;
    struct handoff_damaged_files damaged = {0};
    struct handoff_retention_removed removed;
    bool more;
    (void)state;
    fill_files();
    for (int i = 0; i < GROUP; i++)
        finish(&many[0][i].id, 10);
    handoff_store_close(&fixture.store);
    assert_int_equal(handoff_db_open(&db, fixture.database, HANDOFF_DB_WRITE, "fault", &error),
                     HANDOFF_OK);
    assert_int_equal(handoff_db_exec(&db, "PRAGMA synchronous = NORMAL", &error), HANDOFF_OK);
    assert_int_equal(handoff_retention_step(&db, limits, 1000, &removed, &error), HANDOFF_OK);
    assert_int_equal(removed.envelopes, GROUP);
    fault_at(FAULT_SYNC, 1, false, SQLITE_IOERR_FSYNC);
    assert_int_equal(handoff_body_files_tidy(&db, &damaged, &more, &error), HANDOFF_ERR_STORE_IO);
    assert_true(file_exists(1));
    assert_int_equal(handoff_body_files_tidy(&db, &damaged, &more, &error), HANDOFF_OK);
    assert_false(file_exists(1));
    handoff_db_close(&db);
    release_files();
}

/* The bodies go, the oldest first, and their rows stay; so does what is not finished. */
static void test_retention_by_size_removes_their_bodies(void **state)
{
    struct handoff_retention_removed removed;
    struct handoff_stored_envelope found;
    struct handoff_store_report report;
    struct base_arena arena;
    struct handoff_db db;
    (void)state;
    fill_files();
    for (int i = 0; i < GROUP; i++)
        finish(&many[0][i].id, 10 + i);
    handoff_store_close(&fixture.store);
    assert_int_equal(handoff_db_open(&db, fixture.database, HANDOFF_DB_WRITE, NULL, &error),
                     HANDOFF_OK);
    struct handoff_retention limits = {.body_bytes = 0};
    for (int i = 0; i < GROUP; i++)
        limits.body_bytes += (int64_t)many[0][i].body.size;
    assert_int_equal(handoff_retention_step(&db, limits, 0, &removed, &error), HANDOFF_OK);
    assert_int_equal(removed.bodies, 0);
    limits.body_bytes -= (int64_t)many[0][0].body.size + 1;
    assert_int_equal(handoff_retention_step(&db, limits, 0, &removed, &error), HANDOFF_OK);
    assert_int_equal(removed.bodies, 2);
    assert_int_equal(removed.envelopes, 0);
    handoff_db_close(&db);
    reopen();
    assert_int_equal(outside(), FILES * GROUP - 2);
    assert_int_equal(handoff_store_check(fixture.directory, &report, &error), HANDOFF_OK);
    assert_int_equal(report.problems, 0);
    base_arena_init(&arena, 0);
    for (int i = 0; i < GROUP; i++)
        assert_int_equal(
            handoff_store_get_envelope(fixture.store, &many[0][i].id, &arena, &found, &error),
            i < 2 ? HANDOFF_ERR_ENVELOPE_REMOVED : HANDOFF_OK);
    base_arena_free(&arena);
    release_files();
}

/* A backup is one file, which has everything. */
static void test_a_backup_has_the_bodies(void **state)
{
    char copy[600], other[540];
    (void)state;
    fill_files();
    snprintf(other, sizeof other, "%s/restored", fixture.directory);
    snprintf(copy, sizeof copy, "%s/handoff.db", other);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(handoff_store_backup(fixture.directory, copy, &error), HANDOFF_OK);
    fixture.options.path = other;
    reopen();
    assert_int_equal(outside(), 0);
    for (int i = 0; i < FILES; i++)
        assert_stored(many[i], GROUP);
    release_files();
}

/* The system's files, as a backup uses them; before the first body is read, something happens. */
static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    void (*happens)(void);
} racing;

static int racing_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                       int *out_flags)
{
    void (*happens)(void) = racing.happens;
    (void)vfs;
    if (happens && name && strstr(name, "-bodies-")) {
        racing.happens = NULL;
        happens();
    }
    return racing.real->xOpen(racing.real, name, file, flags, out_flags);
}

static enum handoff_code back_up_while(void (*happens)(void), const char *copy)
{
    racing.real = sqlite3_vfs_find(NULL);
    racing.vfs = *racing.real;
    racing.vfs.zName = "racing";
    racing.vfs.pNext = NULL;
    racing.vfs.xOpen = racing_open;
    racing.happens = happens;
    sqlite3_vfs_register(&racing.vfs, 1);
    enum handoff_code code = handoff_store_backup(fixture.directory, copy, &error);
    sqlite3_vfs_register(racing.real, 1);
    sqlite3_vfs_unregister(&racing.vfs);
    assert_null(racing.happens);
    return code;
}

/* All that the copy has goes, with its files, and others come, which have the same numbers. */
static void replace_all(void)
{
    static struct handoff_store_put_envelope others[GROUP];
    char wal[640];
    snprintf(wal, sizeof wal, "%s/restored/handoff.db.partial-%ld-wal", fixture.directory,
             (long)getpid());
    assert_false(exists(wal)); /* or all bodies would be written twice */
    retain();
    make(others, GROUP, 3000);
    put_together(others, GROUP);
    retain();
    for (int i = 1; i <= FILES; i++)
        assert_false(file_exists(i));
    assert_int_equal(ask("SELECT max(seq) FROM envelopes"), GROUP);
    release(others, GROUP);
}

static void index_tasks(void)
{
    struct handoff_db db;
    handoff_store_close(&fixture.store);
    assert_int_equal(handoff_db_open(&db, fixture.database, HANDOFF_DB_WRITE, NULL, &error),
                     HANDOFF_OK);
    assert_int_equal(handoff_db_exec(&db,
                                     "INSERT INTO task_index SELECT task_id, seq FROM envelopes;"
                                     "UPDATE task_indexed SET through ="
                                     " (SELECT max(seq) FROM envelopes)",
                                     &error),
                     HANDOFF_OK);
    handoff_db_close(&db);
    reopen();
}

static void test_a_backup_beside_retention(void **state)
{
    char copy[600], other[540];
    struct handoff_store_put_envelope put;
    struct handoff_store_report report;
    (void)state;
    fill_files();
    for (int i = 0; i < FILES * GROUP; i++)
        finish(&many[i / GROUP][i % GROUP].id, 10);
    index_tasks();
    snprintf(other, sizeof other, "%s/restored", fixture.directory);
    snprintf(copy, sizeof copy, "%s/handoff.db", other);
    assert_int_equal(mkdir(other, 0700), 0);
    if (back_up_while(replace_all, copy) != HANDOFF_OK)
        fail_msg("%s: %s", error.message, error.seen);
    assert_int_equal(handoff_store_check(copy, &report, &error), HANDOFF_OK);
    assert_int_equal(report.problems, 0);
    assert_int_equal(report.envelopes, 0);
    fixture.options.path = other;
    reopen();
    make(&put, 1, 3000);
    put_together(&put, 1);
    assert_stored(&put, 1);
    assert_int_equal(ask("SELECT count(*) FROM task_envelopes WHERE task_id = 'task'"), 1);
    release(&put, 1);
    release_files();
}

/* A backup of what is spoiled says so, as the check does. */
static void test_a_backup_misses_no_file(void **state)
{
    char copy[540];
    (void)state;
    fill_files();
    snprintf(copy, sizeof copy, "%s/copy.db", fixture.directory);
    assert_int_equal(unlink(fixture.first_file), 0);
    assert_int_equal(handoff_store_backup(fixture.directory, copy, &error),
                     HANDOFF_ERR_STORE_CORRUPT);
    assert_false(exists(copy));
    release_files();
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        EACH(test_a_group_shares_a_file),
        EACH(test_without_syncs_one_is_enough),
        EACH(test_large_ones),
        EACH(test_the_same_again_is_not_counted_twice),
        EACH(test_goes_on_behind_the_last_after_a_reopening),
        EACH(test_is_as_readable_as_the_database),
        EACH(test_follows_a_link_to_the_database),
        EACH(test_a_file_that_fails_refuses_nobody),
        EACH(test_a_failed_commit_leaves_nothing),
        EACH(test_a_file_that_may_only_be_read_is_left_alone),
        EACH(test_no_descriptor_is_no_damage),
        EACH(test_a_spoiled_file_is_noticed),
        EACH(test_a_file_goes_with_its_last_envelope),
        EACH(test_a_removed_file_is_gone),
        EACH(test_stragglers_do_not_keep_a_file),
        EACH(test_stragglers_outlive_their_neighbour),
        EACH(test_damage_is_left_where_it_is),
        EACH(test_an_unreadable_file_is_told_of_once),
        EACH(test_several_unreadable_files_count_each),
        EACH(test_files_that_no_row_names_go_at_the_start),
        EACH(test_a_kill_between_file_and_row),
        EACH(test_wrong_counts_are_noticed_and_put_right),
        EACH(test_a_file_goes_after_what_named_it),
        EACH(test_retention_by_size_removes_their_bodies),
        EACH(test_a_backup_has_the_bodies),
        EACH(test_a_backup_beside_retention),
        EACH(test_a_backup_misses_no_file),
    };
    base_uuid_source_init(&ids, NULL, NULL);
    fault_vfs_register();
    return RUN_TESTS(tests);
}
