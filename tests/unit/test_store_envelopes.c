/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes in the store: byte for byte, a changed byte is noticed, retention takes the finished.
 */
#include "tests/support/unit.h"

#include <sqlite3.h>
#include <stdbool.h>

#include "client/store/sqlite/database.h"
#include "client/store/sqlite/migrate.h"
#include "client/store/sqlite/retention.h"
#include "tests/support/temp_store.h"

static struct handoff_error error;
static struct base_uuid_source ids;

struct fixture {
    char *directory;
    struct handoff_store *store;
    struct base_arena arena;
};

static void reopen(struct fixture *fixture)
{
    struct handoff_store_options options = {.path = fixture->directory};
    if (handoff_store_open(&fixture->store, &options, &error) != HANDOFF_OK)
        fail_msg("%s: %s", error.message, error.seen);
}

static void begin(struct fixture *fixture)
{
    *fixture = (struct fixture){.directory = temp_directory()};
    reopen(fixture);
}

static void end(struct fixture *fixture)
{
    handoff_store_close(&fixture->store);
    base_arena_free(&fixture->arena);
    temp_remove(fixture->directory);
}

static enum handoff_code get(struct fixture *fixture, const struct base_uuid *id,
                             struct handoff_stored_envelope *found)
{
    return handoff_store_get_envelope(fixture->store, id, &fixture->arena, found, &error);
}

static void test_comes_back_byte_for_byte(void **state)
{
    static const size_t sizes[] = {10, 4000, 8192, 5000000};
    struct fixture fixture;
    (void)state;
    begin(&fixture);
    for (size_t i = 0; i < 4; i++) {
        struct handoff_store_put_envelope put;
        struct handoff_stored_envelope found;
        temp_envelope(&put, &ids, "task-1", sizes[i]);
        assert_int_equal(temp_put(fixture.store, &put), HANDOFF_OK);
        assert_int_equal(get(&fixture, &put.id, &found), HANDOFF_OK);
        assert_true(base_span_equal(found.body, put.body));
        assert_true(base_span_equal(found.task_id, put.task_id));
        assert_memory_equal(found.id.bytes, put.id.bytes, 16);
        assert_memory_equal(found.digest, put.digest, 32);
        assert_int_equal(found.created_ms, put.created_ms);
        assert_int_equal(found.finished_ms, 0);
        temp_envelope_free(&put);
    }
    end(&fixture);
}

static void test_not_found(void **state)
{
    struct fixture fixture;
    struct handoff_stored_envelope found;
    struct base_uuid id = base_uuid_make(&ids);
    char text[BASE_UUID_TEXT];
    (void)state;
    begin(&fixture);
    assert_int_equal(get(&fixture, &id, &found), HANDOFF_ERR_NOT_FOUND);
    base_uuid_format(&id, text);
    assert_string_equal(error.seen, text);
    assert_int_equal(handoff_store_get_envelope(fixture.store, &id, &fixture.arena, &found, NULL),
                     HANDOFF_ERR_NOT_FOUND);
    end(&fixture);
}

static void test_again_is_harmless_and_another_is_a_conflict(void **state)
{
    struct fixture fixture;
    struct handoff_store_put_envelope put, other;
    struct handoff_stored_envelope found;
    (void)state;
    begin(&fixture);
    temp_envelope(&put, &ids, "task", 100);
    temp_envelope(&other, &ids, "task", 101);
    other.id = put.id;
    assert_int_equal(temp_put(fixture.store, &put), HANDOFF_OK);
    assert_int_equal(temp_put(fixture.store, &put), HANDOFF_OK);
    assert_int_equal(temp_put(fixture.store, &other), HANDOFF_ERR_CONFLICT);
    assert_int_equal(get(&fixture, &put.id, &found), HANDOFF_OK);
    assert_true(base_span_equal(found.body, put.body));
    temp_envelope_free(&put);
    temp_envelope_free(&other);
    end(&fixture);
}

/* One bit of any byte of the body, and every column that the check depends on. */
static void test_a_changed_byte_is_noticed(void **state)
{
    struct fixture fixture;
    struct handoff_store_put_envelope put;
    struct handoff_stored_envelope found;
    char path[512];
    sqlite3 *db;
    sqlite3_blob *blob;
    (void)state;
    begin(&fixture);
    temp_envelope(&put, &ids, "task", 50);
    assert_int_equal(temp_put(fixture.store, &put), HANDOFF_OK);
    snprintf(path, sizeof path, "%s/handoff.db", fixture.directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (int at = 0; at < (int)put.body.size; at++) {
        /* the cut's quotes and name are told apart by the JSON reader; its digits are ours */
        bool in_frame = at >= (int)put.cut_at && at < (int)put.cut_at + 18;
        if (in_frame || at == (int)(put.cut_at + put.cut_size) - 1)
            continue;
        char wrong = (char)(put.body.data[at] ^ 1);
        assert_int_equal(sqlite3_blob_open(db, "main", "envelopes", "body", 1, 1, &blob),
                         SQLITE_OK);
        assert_int_equal(sqlite3_blob_write(blob, &wrong, 1, at), SQLITE_OK);
        sqlite3_blob_close(blob);
        if (get(&fixture, &put.id, &found) != HANDOFF_ERR_STORE_CORRUPT)
            fail_msg("byte %d was changed and not noticed", at);
        assert_int_equal(sqlite3_blob_open(db, "main", "envelopes", "body", 1, 1, &blob),
                         SQLITE_OK);
        assert_int_equal(sqlite3_blob_write(blob, put.body.data + at, 1, at), SQLITE_OK);
        sqlite3_blob_close(blob);
    }
    assert_int_equal(get(&fixture, &put.id, &found), HANDOFF_OK);
    static const char *const wrongs[] = {
        "UPDATE envelopes SET digest = x'00'", "UPDATE envelopes SET cut_at = -1",
        "UPDATE envelopes SET cut_at = 9999999",
        "UPDATE envelopes SET cut_size = 9223372036854775807", "UPDATE envelopes SET body = x''"};
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        char text[200];
        snprintf(text, sizeof text, "SAVEPOINT s; %s; RELEASE s", wrongs[i]);
        assert_int_equal(
            sqlite3_exec(db, "CREATE TEMP TABLE keep AS SELECT * FROM envelopes", 0, 0, 0),
            SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, text, 0, 0, 0), SQLITE_OK);
        assert_int_equal(get(&fixture, &put.id, &found), HANDOFF_ERR_STORE_CORRUPT);
        assert_int_equal(sqlite3_exec(db,
                                      "DELETE FROM envelopes; INSERT INTO envelopes SELECT * FROM"
                                      " keep; DROP TABLE keep",
                                      0, 0, 0),
                         SQLITE_OK);
    }
    assert_int_equal(get(&fixture, &put.id, &found), HANDOFF_OK);
    sqlite3_close(db);
    temp_envelope_free(&put);
    end(&fixture);
}

static enum handoff_code finish(struct fixture *fixture, const struct base_uuid *id, int64_t ms)
{
    struct handoff_store_finish_envelope job = {.id = *id, .finished_ms = ms};
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    job.job.mailbox = &mailbox;
    job.job.done = temp_nothing;
    handoff_store_finish_envelope(fixture->store, &job);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    return job.job.error.code;
}

static void test_finish(void **state)
{
    struct fixture fixture;
    struct handoff_store_put_envelope put;
    struct handoff_stored_envelope found;
    (void)state;
    begin(&fixture);
    temp_envelope(&put, &ids, "task", 10);
    assert_int_equal(finish(&fixture, &put.id, 5), HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(temp_put(fixture.store, &put), HANDOFF_OK);
    assert_int_equal(finish(&fixture, &put.id, 5), HANDOFF_OK);
    assert_int_equal(finish(&fixture, &put.id, 7), HANDOFF_OK);
    assert_int_equal(get(&fixture, &put.id, &found), HANDOFF_OK);
    assert_int_equal(found.finished_ms, 7);
    temp_envelope_free(&put);
    end(&fixture);
}

/* ---- retention, on a connection of our own ------------------------------------------------------
 */

enum { ROWS = 200 };

/* ROWS envelopes of 8 KiB; those with an odd number are finished, number i at time 1000 + i. */
static void fill(struct fixture *fixture, struct base_uuid made[ROWS])
{
    for (int i = 0; i < ROWS; i++) {
        struct handoff_store_put_envelope put;
        temp_envelope(&put, &ids, "task", 8000);
        made[i] = put.id;
        assert_int_equal(temp_put(fixture->store, &put), HANDOFF_OK);
        temp_envelope_free(&put);
        if (i % 2)
            assert_int_equal(finish(fixture, &made[i], 1000 + i), HANDOFF_OK);
    }
    handoff_store_close(&fixture->store);
}

static int retain_all(struct fixture *fixture, struct handoff_retention limits, int64_t now_ms)
{
    char path[512];
    struct handoff_db db;
    struct handoff_retention_removed removed;
    int total = 0;
    snprintf(path, sizeof path, "%s/handoff.db", fixture->directory);
    assert_int_equal(handoff_db_open(&db, path, HANDOFF_DB_WRITE, NULL, &error), HANDOFF_OK);
    do {
        assert_int_equal(handoff_retention_step(&db, limits, now_ms, &removed, &error), HANDOFF_OK);
        assert_in_range(removed.envelopes, 0, 64);
        total += removed.envelopes;
    } while (removed.envelopes > 0);
    handoff_db_close(&db);
    return total;
}

static void test_retention_by_age(void **state)
{
    struct fixture fixture;
    struct base_uuid made[ROWS];
    struct handoff_stored_envelope found;
    (void)state;
    begin(&fixture);
    fill(&fixture, made);
    assert_int_equal(retain_all(&fixture, (struct handoff_retention){0}, 1 << 30), 0);
    assert_int_equal(retain_all(&fixture, (struct handoff_retention){.age_ms = 500}, 1500), 0);
    /* older than 500 ms at 1650: finished before 1150, numbers 1, 3 ... 149 */
    assert_int_equal(retain_all(&fixture, (struct handoff_retention){.age_ms = 500}, 1650), 75);
    reopen(&fixture);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(get(&fixture, &made[i], &found),
                         i % 2 && i < 150 ? HANDOFF_ERR_NOT_FOUND : HANDOFF_OK);
    end(&fixture);
}

/* The writer does it by itself when it is quiet. Waits for the count, up to the test's time limit.
 */
static void test_the_writer_retains(void **state)
{
    struct fixture fixture;
    struct base_uuid made[ROWS];
    struct handoff_store_stats stats;
    struct base_manual_clock manual;
    (void)state;
    begin(&fixture);
    fill(&fixture, made);
    base_manual_clock_init(&manual, 1000 + ROWS);
    struct handoff_store_options options = {.path = fixture.directory,
                                            .retention_age_ms = 500,
                                            .retention_every_ms = 1,
                                            .clock = &manual.clock};
    assert_int_equal(handoff_store_open(&fixture.store, &options, &error), HANDOFF_OK);
    base_manual_clock_advance(&manual, 500);
    do {
        handoff_store_stats(fixture.store, &stats);
    } while (stats.removed < ROWS / 2);
    assert_int_equal(stats.removed, ROWS / 2);
    end(&fixture);
}

enum { LOAD_GROUPS = 10, LOAD_GROUP = 256 };

/* A load that is never quiet: with every commit, the next group is there already. */
static struct {
    struct handoff_store *store;
    struct base_mailbox mailbox;
    struct handoff_store_put_envelope puts[LOAD_GROUPS][LOAD_GROUP];
    int begun, done;
    struct handoff_store_stats stats; /* when the last group was committed */
} load;

static void count_put(struct handoff_store_job *job)
{
    assert_int_equal(job->error.code, HANDOFF_OK);
    load.done++;
}

static void begin_group(void *observer, const struct handoff_store_commit *commit)
{
    struct handoff_store_batch batch = {0};
    (void)observer;
    (void)commit;
    if (load.begun == LOAD_GROUPS) {
        handoff_store_stats(load.store, &load.stats);
        return;
    }
    for (int i = 0; i < LOAD_GROUP; i++) {
        struct handoff_store_put_envelope *put = &load.puts[load.begun][i];
        put->job.mailbox = &load.mailbox;
        put->job.done = count_put;
        put->job.batch = &batch;
        put->finished = true;
        handoff_store_put_envelope(load.store, put);
    }
    load.begun++;
    handoff_store_submit_batch(load.store, &batch);
}

static void test_retention_keeps_up_with_a_load(void **state)
{
    struct fixture fixture = {.directory = temp_directory()};
    struct handoff_store_options options = {.path = fixture.directory,
                                            .retention_rows_bytes = 1,
                                            .retention_every_ms = 1,
                                            .on_commit = begin_group};
    (void)state;
    for (int i = 0; i < LOAD_GROUPS * LOAD_GROUP; i++)
        temp_envelope(&load.puts[i / LOAD_GROUP][i % LOAD_GROUP], &ids, "task", 500);
    assert_int_equal(base_mailbox_init(&load.mailbox, &error), HANDOFF_OK);
    assert_int_equal(handoff_store_open(&load.store, &options, &error), HANDOFF_OK);
    begin_group(NULL, NULL);
    while (load.done < LOAD_GROUPS * LOAD_GROUP)
        base_mailbox_wait(&load.mailbox, -1);
    fixture.store = load.store;
    assert_true(load.stats.removed >= LOAD_GROUPS * LOAD_GROUP / 2);
    for (int i = 0; i < LOAD_GROUPS * LOAD_GROUP; i++)
        temp_envelope_free(&load.puts[i / LOAD_GROUP][i % LOAD_GROUP]);
    base_mailbox_free(&load.mailbox);
    end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back_byte_for_byte),
        cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_again_is_harmless_and_another_is_a_conflict),
        cmocka_unit_test(test_a_changed_byte_is_noticed),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_retention_by_age),
        cmocka_unit_test(test_the_writer_retains),
        cmocka_unit_test(test_retention_keeps_up_with_a_load),
    };
    base_uuid_source_init(&ids, NULL, NULL);
    return RUN_TESTS(tests);
}
