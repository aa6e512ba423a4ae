/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention's two budgets: bodies go first and rows stay, what is not finished counts for nothing,
 * rows go by age and within their own budget, and the bytes that are counted are those on the disk.
 */
#include "client/store/sqlite/retention.h"

#include <stdio.h>

#include "client/store/handoffs.h"
#include "client/store/sqlite/delivery_rows.h"
#include "client/store/sqlite/migrate.h"
#include "client/store/sqlite/retained_size.h"
#include "client/store/sqlite/shelves.h"
#include "lib/base/arena.h"
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

static struct base_uuid_source ids;

static struct fixture {
    char *directory;
    char database[512];
    struct base_manual_clock clock; /* shortly after all that finishes */
    struct handoff_store *store;    /* NULL while `db` is open */
    struct handoff_db db;
    struct base_arena arena;
    struct handoff_error error;
} fixture;

static void open_store(void)
{
    /* no step of its own: the tests make them */
    const struct handoff_store_options options = {
        .path = fixture.directory, .clock = &fixture.clock.clock, .retention_every_ms = 1 << 30};
    assert_int_equal(handoff_store_open(&fixture.store, &options, &fixture.error), HANDOFF_OK);
}

static void open_database(void)
{
    handoff_store_close(&fixture.store);
    assert_int_equal(
        handoff_db_open(&fixture.db, fixture.database, HANDOFF_DB_WRITE, NULL, &fixture.error),
        HANDOFF_OK);
}

static int set_up(void **state)
{
    (void)state;
    fixture.directory = temp_directory();
    snprintf(fixture.database, sizeof fixture.database, "%s/handoff.db", fixture.directory);
    base_arena_init(&fixture.arena, 0);
    base_manual_clock_init(&fixture.clock, 2000);
    open_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    handoff_db_close(&fixture.db);
    handoff_store_close(&fixture.store);
    base_arena_free(&fixture.arena);
    temp_remove(fixture.directory);
    return 0;
}

static int64_t ask(const char *sql)
{
    int64_t number;
    struct handoff_db own, *db = fixture.db.sqlite ? &fixture.db : &own;
    if (db == &own)
        assert_int_equal(
            handoff_db_open(&own, fixture.database, HANDOFF_DB_READ, NULL, &fixture.error),
            HANDOFF_OK);
    assert_int_equal(handoff_db_number(db, sql, &number, &fixture.error), HANDOFF_OK);
    if (db == &own)
        handoff_db_close(&own);
    return number;
}

/* ---- handoffs -------------------------------------------------------------------------------- */

struct made {
    struct base_uuid id;
    int64_t seq, body_bytes, row_bytes;
};

static struct made accept(const char *task, const char *key, size_t filling)
{
    static const char excerpt[] =
        "\"envelope_version\":\"2.0\",\"token_count\":812,\"memory_refs\":[],\"missing\":[],"
        "\"completeness\":{\"requested\":0,\"included\":0,\"ratio\":1}";
    struct handoff_store_accept accept = {0};
    temp_envelope(&accept.put, &ids, task, filling);
    accept.put.inheritance = base_span_text("{\"hop\":{\"count\":1,\"max\":10,\"path\":[]},"
                                            "\"intent\":\"Plan the retries\"}");
    accept.source = base_span_text("analyst");
    accept.asked_target = accept.standing.target = base_span_text("coder");
    accept.excerpt = base_span_text(excerpt);
    accept.standing.state = HANDOFF_STATE_READY;
    accept.idempotency_key = base_span_text(key);
    accept.put.job.run = NULL;
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    accept.put.job.mailbox = &mailbox;
    accept.put.job.done = temp_nothing;
    handoff_store_accept(fixture.store, &accept);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(accept.put.job.error.code, HANDOFF_OK);
    const struct made made = {.id = accept.put.id,
                              .seq = accept.seq,
                              .body_bytes = (int64_t)accept.put.body.size,
                              .row_bytes = handoff_retained_envelope_row(&accept.put) +
                                           handoff_retained_handoff_row(&accept)};
    temp_envelope_free(&accept.put);
    return made;
}

static int64_t settle(const struct made *made, enum handoff_state state, int64_t at_ms)
{
    const struct handoff_attempt_record record = {.attempt = {.number = 1,
                                                              .target = base_span_text("coder"),
                                                              .error = base_span_text(""),
                                                              .peer = base_span_text("1.2.3.4:5")}};
    struct handoff_store_move move = {.seq = made->seq,
                                      .standing = {.state = (int)state,
                                                   .target = base_span_text("coder"),
                                                   .attempts = 1,
                                                   .settled_ms = at_ms},
                                      .attempts = &record,
                                      .nattempts = 1,
                                      .over = state == HANDOFF_STATE_ACKNOWLEDGED};
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    move.job.mailbox = &mailbox;
    move.job.done = temp_nothing;
    handoff_store_move(fixture.store, &move);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(move.job.error.code, HANDOFF_OK);
    return handoff_retained_attempt_row(&record.attempt);
}

/* The number-th, acknowledged at 1000 + number. */
static struct made finished(int number, size_t filling)
{
    char task[32], key[32];
    snprintf(task, sizeof task, "task-%08x-%d", (unsigned)number * 2654435761u, number);
    snprintf(key, sizeof key, "key-%08x-%d", (unsigned)number * 2246822519u, number);
    struct made made = accept(task, key, filling);
    made.row_bytes += settle(&made, HANDOFF_STATE_ACKNOWLEDGED, 1000 + number);
    return made;
}

static struct handoff_retention_removed step(struct handoff_retention limits, int64_t now_ms)
{
    struct handoff_retention_removed removed;
    assert_int_equal(handoff_retention_step(&fixture.db, limits, now_ms, &removed, &fixture.error),
                     HANDOFF_OK);
    return removed;
}

static struct handoff_retained kept(void)
{
    struct handoff_retained counted;
    assert_int_equal(handoff_retained_read(&fixture.db, &counted, &fixture.error), HANDOFF_OK);
    return counted;
}

/* What a check says of it, and of what is counted. */
static void assert_sound(void)
{
    struct handoff_store_report report;
    assert_int_equal(handoff_store_check(fixture.directory, &report, &fixture.error), HANDOFF_OK);
    assert_string_equal(report.problem, "");
}

static void reopen_store(void)
{
    handoff_db_close(&fixture.db);
    open_store();
}

static enum handoff_code get(const struct made *made, struct handoff_stored_envelope *found)
{
    return handoff_store_get_envelope(fixture.store, &made->id, &fixture.arena, found,
                                      &fixture.error);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

enum { MADE = 20 };

/* The row answers, the key leads to it, and what a child inherits is there. */
static void assert_only_the_body_is_gone(const struct made *made, int number)
{
    struct handoff_stored_envelope found;
    struct handoff_stored stored;
    struct base_uuid id;
    uint8_t digest[BASE_SHA256_BYTES];
    char key[32];
    snprintf(key, sizeof key, "key-%08x-%d", (unsigned)number * 2246822519u, number);
    assert_int_equal(get(made, &found), HANDOFF_ERR_ENVELOPE_REMOVED);
    assert_non_null(strstr(fixture.error.message, "storage.retention.size"));
    assert_non_null(memmem(found.inheritance.data, found.inheritance.size, "Plan the retries", 16));
    assert_int_equal(handoff_store_get_handoff(fixture.store, &made->id, &fixture.arena, &stored,
                                               &fixture.error),
                     HANDOFF_OK);
    assert_non_null(stored.excerpt.data);
    assert_int_equal(handoff_store_find_key(fixture.store, base_span_text("analyst"),
                                            base_span_text(key), &id, digest, &fixture.error),
                     HANDOFF_OK);
    assert_memory_equal(&id, &made->id, sizeof id);
}

static void test_bodies_go_first_and_rows_stay(void **state)
{
    struct made made[MADE];
    struct handoff_stored_envelope found;
    (void)state;
    for (int i = 0; i < MADE; i++)
        made[i] = finished(i, 9000);
    open_database();
    const struct handoff_retention limits = {.body_bytes = 5 * made[0].body_bytes};
    const int64_t rows = kept().rows;
    assert_int_equal(step(limits, 2000).bodies, MADE - 5);
    assert_int_equal(step(limits, 2000).bodies, 0);
    assert_int_equal(kept().bodies, 5 * made[0].body_bytes);
    assert_int_equal(kept().rows, rows);
    assert_sound();
    reopen_store();
    for (int i = 0; i < MADE - 5; i++)
        assert_only_the_body_is_gone(&made[i], i);
    for (int i = MADE - 5; i < MADE; i++)
        assert_int_equal(get(&made[i], &found), HANDOFF_OK);
}

static void test_a_budget_that_is_just_met_removes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < MADE; i++)
        finished(i, 3000);
    open_database();
    const struct handoff_retained all = kept();
    struct handoff_retention limits = {.body_bytes = all.bodies, .row_bytes = all.rows};
    struct handoff_retention_removed removed = step(limits, 2000);
    assert_int_equal(removed.bodies + removed.envelopes, 0);
    limits.body_bytes--;
    removed = step(limits, 2000);
    assert_int_equal(removed.bodies, 1);
    assert_int_equal(removed.envelopes, 0);
    limits.row_bytes--;
    removed = step(limits, 2000);
    assert_int_equal(removed.bodies, 0);
    assert_int_equal(removed.envelopes, 1);
    assert_int_equal(removed.for_size, 1);
    assert_sound();
}

/* However much is parked, that is not what makes finished handoffs go. */
static void test_what_cannot_go_does_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < MADE; i++) {
        char key[32];
        snprintf(key, sizeof key, "parked-%d", i);
        struct made parked = accept("task", key, 100000);
        settle(&parked, HANDOFF_STATE_PARKED, 100 + i);
    }
    const struct made one = finished(0, 3000);
    open_database();
    assert_int_equal(kept().bodies, one.body_bytes);
    assert_int_equal(kept().rows, one.row_bytes);
    const struct handoff_retention limits = {
        .age_ms = 500, .body_bytes = one.body_bytes, .row_bytes = one.row_bytes};
    struct handoff_retention_removed removed = step(limits, 1500);
    assert_int_equal(removed.bodies + removed.envelopes, 0);
    removed = step(limits, 1501); /* but by its age */
    assert_int_equal(removed.envelopes, 1);
    assert_int_equal(removed.for_size, 0);
    assert_int_equal(kept().rows, 0);
    assert_int_equal(ask("SELECT count(*) FROM handoffs"), MADE);
    assert_int_equal(ask("SELECT count(*) FROM idempotency"), MADE);
    assert_sound();
}

/* SQLite frees a body in its row page by page, and whoever commits waits for it. */
static void test_large_bodies_go_a_few_at_a_time(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        finished(i, 400000);
    open_database();
    const struct handoff_retention limits = {.body_bytes = 1};
    assert_int_equal(step(limits, 2000).bodies, 2);
    assert_int_equal(step(limits, 2000).bodies, 2);
    struct handoff_retention_removed removed = step((struct handoff_retention){.age_ms = 1}, 9000);
    assert_int_equal(removed.envelopes, 4 + 2);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void test_rows_go_by_size_the_oldest_first(void **state)
{
    struct made made[MADE];
    struct handoff_stored stored;
    int64_t total = 0;
    (void)state;
    for (int i = 0; i < MADE; i++)
        total += (made[i] = finished(i, 2000)).row_bytes;
    open_database();
    assert_int_equal(kept().rows, total);
    step((struct handoff_retention){.body_bytes = made[0].body_bytes * (MADE - 3)}, 2000);
    const struct handoff_retention limits = {.row_bytes = total - made[0].row_bytes * 6};
    struct handoff_retention_removed removed = step(limits, 2000);
    assert_in_range(removed.envelopes, 6, 7);
    assert_int_equal(removed.for_size, removed.envelopes);
    assert_true(kept().rows <= limits.row_bytes);
    assert_sound();
    reopen_store();
    for (int i = 0; i < MADE; i++)
        assert_int_equal(handoff_store_get_handoff(fixture.store, &made[i].id, &fixture.arena,
                                                   &stored, &fixture.error),
                         i < removed.envelopes ? HANDOFF_ERR_NOT_FOUND : HANDOFF_OK);
}

/* ---- what is counted, against SQLite's own account ------------------------------------------- */

enum { MANY = 1500 };

static int64_t pages_of_rows(void)
{
    return ask("SELECT sum(pgsize) FROM dbstat WHERE aggregate = 1 AND name NOT LIKE 'memor%'"
               " AND name NOT LIKE 'sqlite_schema'");
}

static void test_rows_are_counted_as_they_lie_on_the_disk(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        finished(i, 500 + (size_t)(i % 40) * 300); /* leaves of pages are filled to every degree */
    open_database();
    if (ask("SELECT count(*) FROM pragma_compile_options"
            " WHERE compile_options = 'ENABLE_DBSTAT_VTAB'") == 0)
        skip();
    while (step((struct handoff_retention){.body_bytes = 1}, 3000).bodies > 0)
        ;
    assert_int_equal(kept().bodies, 0);
    const double counted = (double)kept().rows, real = (double)pages_of_rows();
    print_message("%.0f bytes of rows are counted as %.0f, %.0f each\n", real, counted,
                  counted / MANY);
    assert_true(counted > real * 0.75);
    assert_true(counted < real * 1.33);
}

/* ---- publications ---------------------------------------------------------------------------- */

static void run_sql(const char *sql)
{
    assert_int_equal(handoff_db_exec(&fixture.db, sql, &fixture.error), HANDOFF_OK);
}

static int count_hundred(void *count)
{
    ++*(int *)count;
    return 0;
}

/* Of instructions of SQLite. */
static int hundreds_to_note_unread(int64_t seq)
{
    int count = 0;
    sqlite3_progress_handler(fixture.db.sqlite, 100, count_hundred, &count);
    assert_int_equal(handoff_shelves_note_unread(&fixture.db, seq, &fixture.error), HANDOFF_OK);
    sqlite3_progress_handler(fixture.db.sqlite, 0, NULL, NULL);
    return count;
}

/* A step of retention is a transaction of 64 rows, and others wait for it. */
static void test_what_is_removed_is_looked_for_only_among_subscribers_of_its_channel(void **state)
{
    (void)state;
    const struct made handoff = finished(0, 100);
    open_database();
    run_sql("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
            " INSERT INTO subscriptions (channel, receiver, state, at, from_at, position)"
            " SELECT 'channel-' || i, 'agent', 3, 1, 0, 0 FROM n");
    (void)hundreds_to_note_unread(handoff.seq); /* it is prepared */
    assert_in_range(hundreds_to_note_unread(handoff.seq), 0, 2);
    run_sql("INSERT INTO publications (seq, channel, source, at, unfinished)"
            " SELECT max(seq), 'channel-7', 'analyst', 1, 0 FROM envelopes");
    assert_in_range(hundreds_to_note_unread(handoff.seq), 0, 2);
    assert_int_equal(ask("SELECT total(dropped) FROM subscriptions"), 1);
    assert_int_equal(ask("SELECT dropped FROM subscriptions WHERE channel = 'channel-7'"), 1);
}

static int64_t dropped_of(const char *receiver)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT dropped FROM subscriptions WHERE receiver = '%s'", receiver);
    return ask(sql);
}

/* What is published late of what was assembled before may appear behind the position; a last look
   goes back for it. What was there already was passed over. */
static void test_what_appeared_behind_the_position_is_counted(void **state)
{
    (void)state;
    const struct made early = finished(0, 100), late = finished(1, 100), next = finished(2, 100);
    open_database();
    run_sql("INSERT INTO publications (seq, channel, source, at, unfinished)"
            " SELECT seq, 'news', 'analyst', 10, 0 FROM envelopes");
    run_sql("INSERT INTO subscriptions (channel, receiver, state, at, from_at, position) SELECT"
            " 'news', 'reader', 3, 100, 0, max(seq) - 1 FROM envelopes");
    run_sql("UPDATE publications SET at = 200 WHERE seq = (SELECT max(seq) - 1 FROM envelopes)");
    (void)hundreds_to_note_unread(early.seq);
    assert_int_equal(dropped_of("reader"), 0);
    (void)hundreds_to_note_unread(late.seq);
    assert_int_equal(dropped_of("reader"), 1);
    (void)hundreds_to_note_unread(next.seq);
    assert_int_equal(dropped_of("reader"), 2);
}

/* A step that read it before would deliver what was counted as dropped. */
static void test_what_a_channel_let_go_is_not_delivered_late(void **state)
{
    (void)state;
    const struct made one = finished(0, 100);
    const struct handoff_store_accept accept = {
        .seq = one.seq, .publication = one.id, .asked_target = base_span_text("b"), .late = true};
    open_database();
    run_sql("INSERT INTO publications (seq, channel, source, at, unfinished, shelf)"
            " SELECT seq, 'news', 'analyst', 10, 0, -1 FROM envelopes");
    assert_int_equal(handoff_delivery_row_insert(&fixture.db, &accept, &fixture.error),
                     HANDOFF_ERR_ENVELOPE_REMOVED);
    run_sql("UPDATE publications SET shelf = 1000");
    assert_int_equal(handoff_delivery_row_insert(&fixture.db, &accept, &fixture.error), HANDOFF_OK);
    assert_int_equal(ask("SELECT unfinished FROM publications"), 1);
}

/* A backup removes from its copy what has gone from the store since the copy was begun. */
static void test_what_is_kept_and_removed_all_the_same_is_not_counted(void **state)
{
    int64_t wrong;
    (void)state;
    const struct made one = finished(0, 100), other = finished(1, 100);
    open_database();
    run_sql("INSERT INTO publications (seq, channel, source, at, unfinished, shelf, shelf_bytes)"
            " SELECT seq, 'news', 'analyst', 1, 0, 1000, 500 FROM envelopes");
    run_sql("INSERT INTO channel_shelves VALUES ('news', 2, 1000)");
    assert_int_equal(handoff_retention_remove(&fixture.db, one.seq, &fixture.error), HANDOFF_OK);
    assert_int_equal(handoff_shelves_count_wrong(&fixture.db, &wrong, &fixture.error), HANDOFF_OK);
    assert_int_equal(wrong, 0);
    assert_int_equal(ask("SELECT bytes FROM channel_shelves"), 500);
    assert_int_equal(handoff_retention_remove(&fixture.db, other.seq, &fixture.error), HANDOFF_OK);
    assert_int_equal(ask("SELECT count(*) FROM channel_shelves"), 0);
}

/* ---- older versions -------------------------------------------------------------------------- */

/* The columns that the older version has, of the rows that this one wrote. */
static void copy_table(const char *table)
{
    char sql[256];
    struct handoff_error error;
    sqlite3_stmt *columns = NULL;
    snprintf(sql, sizeof sql, "SELECT group_concat(name) FROM pragma_table_info('%s', 'main')",
             table);
    assert_int_equal(sqlite3_prepare_v2(fixture.db.sqlite, sql, -1, &columns, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(columns), SQLITE_ROW);
    const char *names = (const char *)sqlite3_column_text(columns, 0);
    assert_non_null(names);
    char *copy = sqlite3_mprintf("INSERT INTO main.%s (%s) SELECT %s FROM newer.%s", table, names,
                                 names, table);
    sqlite3_finalize(columns);
    assert_non_null(copy);
    assert_int_equal(handoff_db_exec(&fixture.db, copy, &error), HANDOFF_OK);
    assert_true(sqlite3_changes(fixture.db.sqlite) > 0);
    sqlite3_free(copy);
}

/* What the store has, as that version would have written it. */
static void make_older(int version)
{
    static const char *const tables[] = {"envelopes", "envelope_state", "handoffs", "attempts"};
    char newer[sizeof fixture.database + 8];
    open_database();
    handoff_db_close(&fixture.db);
    snprintf(newer, sizeof newer, "%s.newer", fixture.database);
    assert_int_equal(rename(fixture.database, newer), 0);
    assert_int_equal(
        handoff_db_open(&fixture.db, fixture.database, HANDOFF_DB_WRITE, NULL, &fixture.error),
        HANDOFF_OK);
    assert_int_equal(handoff_migrate(&fixture.db, version, &fixture.error), HANDOFF_OK);
    char *attach = sqlite3_mprintf("ATTACH %Q AS newer", newer);
    assert_non_null(attach);
    assert_int_equal(handoff_db_exec(&fixture.db, attach, &fixture.error), HANDOFF_OK);
    sqlite3_free(attach);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        copy_table(tables[i]);
    assert_int_equal(handoff_db_exec(&fixture.db, "DETACH newer", &fixture.error), HANDOFF_OK);
    assert_int_equal(remove(newer), 0);
}

/* Its rows are counted, its bodies go like others, and such a parent has nothing to inherit from.
 */
static void test_a_store_of_an_older_version(void **state)
{
    struct made made = finished(0, 4000);
    struct handoff_stored_envelope found;
    (void)state;
    make_older(HANDOFF_SCHEMA_KEPT - 1);
    reopen_store();
    open_database();
    assert_int_equal(kept().bodies, made.body_bytes);
    assert_true(kept().rows > 0);
    assert_sound();
    assert_int_equal(step((struct handoff_retention){.body_bytes = 1}, 2000).bodies, 1);
    reopen_store();
    assert_int_equal(get(&made, &found), HANDOFF_ERR_ENVELOPE_REMOVED);
    assert_null(found.inheritance.data);
    open_database();
    assert_int_equal(step((struct handoff_retention){.row_bytes = 1}, 2000).envelopes, 1);
    assert_int_equal(kept().rows, 0);
    assert_sound();
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_bodies_go_first_and_rows_stay),
        WITH_STORE(test_a_budget_that_is_just_met_removes_nothing),
        WITH_STORE(test_what_cannot_go_does_not_count),
        WITH_STORE(test_large_bodies_go_a_few_at_a_time),
        WITH_STORE(test_rows_go_by_size_the_oldest_first),
        WITH_STORE(test_rows_are_counted_as_they_lie_on_the_disk),
        WITH_STORE(test_what_is_removed_is_looked_for_only_among_subscribers_of_its_channel),
        WITH_STORE(test_what_appeared_behind_the_position_is_counted),
        WITH_STORE(test_what_a_channel_let_go_is_not_delivered_late),
        WITH_STORE(test_what_is_kept_and_removed_all_the_same_is_not_counted),
        WITH_STORE(test_a_store_of_an_older_version),
    };
    base_uuid_source_init(&ids, NULL, NULL);
    return RUN_TESTS(tests);
}
