/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The power fails, at any moment of a store's life: whatever was acknowledged before is there, byte
 * for byte, and what is there is whole. The store lives once, with everything that it does (groups
 * with bodies beside the database, files that come and go, checkpoints, retention); then it is
 * opened on what each of many moments could have left of it.
 *
 * HANDOFF_CUTS sets how many moments (120).
 */
#include "tests/support/unit.h"

#include <stdbool.h>

#include "client/store/sqlite/database.h"
#include "tests/support/power.h"
#include "tests/support/temp_store.h"

enum { GROUPS = 60, GROUP_MAX = 9, ENVELOPES = GROUPS * GROUP_MAX };

static struct handoff_error error;
static struct base_uuid_source ids;

/* What was done, and when it was acknowledged. */
static struct envelope {
    struct handoff_store_put_envelope put;
    struct handoff_store_finish_envelope finish;
    size_t acknowledged; /* after so many steps of the disk */
    bool finished;       /* was asked for: retention may have it from then on */
    size_t finished_at;
} envelopes[ENVELOPES];

static int envelope_count, waiting;

static void put_done(struct handoff_store_job *job)
{
    struct envelope *envelope = (struct envelope *)(void *)job;
    envelope->acknowledged = job->error.code == HANDOFF_OK ? power_now() : 0;
    waiting--;
}

static void finish_done(struct handoff_store_job *job)
{
    (void)job; /* where it failed, it may be over all the same */
    waiting--;
}

static void wait_all(struct base_mailbox *mailbox)
{
    while (waiting > 0)
        base_mailbox_wait(mailbox, -1);
}

static void put_group(struct handoff_store *store, struct base_mailbox *mailbox,
                      struct property *property)
{
    static const size_t sizes[] = {300, 2500, 9000, 9000, 30000};
    struct handoff_store_batch batch = {0};
    for (uint32_t left = 1 + property_below(property, GROUP_MAX); left > 0; left--, waiting++) {
        struct envelope *envelope = &envelopes[envelope_count++];
        temp_envelope(&envelope->put, &ids, "task", sizes[property_below(property, 5)]);
        envelope->put.job.mailbox = mailbox;
        envelope->put.job.done = put_done;
        envelope->put.job.batch = &batch;
        handoff_store_put_envelope(store, &envelope->put);
    }
    handoff_store_submit_batch(store, &batch);
    wait_all(mailbox);
}

/* Most of the older ones are over; some stay for ever, as what is parked does. */
static void finish_some(struct handoff_store *store, struct base_mailbox *mailbox,
                        struct property *property)
{
    for (int i = 0; i < envelope_count; i++) {
        struct envelope *envelope = &envelopes[i];
        if (i % 7 == 0 || envelope->finished || !envelope->acknowledged ||
            property_chance(property, 70))
            continue;
        envelope->finished = true;
        envelope->finished_at = power_now();
        envelope->finish =
            (struct handoff_store_finish_envelope){.id = envelope->put.id, .finished_ms = 1};
        envelope->finish.job.mailbox = mailbox;
        envelope->finish.job.done = finish_done;
        waiting++;
        handoff_store_finish_envelope(store, &envelope->finish);
    }
    wait_all(mailbox);
}

static struct handoff_store *open_at(const char *directory, enum handoff_durability durability,
                                     const char *vfs)
{
    struct handoff_store *store;
    const struct handoff_store_options options = {.path = directory,
                                                  .vfs = vfs,
                                                  .durability = durability,
                                                  .retention_age_ms = 1,
                                                  .retention_every_ms = 1,
                                                  .body_file_bytes = 60000,
                                                  .checkpoint_pages = 40};
    if (handoff_store_open(&store, &options, &error) != HANDOFF_OK)
        fail_msg("%s: %s", error.message, error.seen);
    return store;
}

/* One of the next things that are asked of the disk fails; it was not full, or broken, for long. */
static void spoil(struct property *property)
{
    static const int results[] = {SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC};
    fault_at(property_chance(property, 50) ? FAULT_SYNC : FAULT_ANY,
             1 + property_below(property, 30), false, results[property_below(property, 3)]);
}

static void live(const char *directory, enum handoff_durability durability, bool spoiled,
                 struct property *property)
{
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, &error), HANDOFF_OK);
    envelope_count = 0;
    memset(envelopes, 0, sizeof envelopes);
    power_begin();
    struct handoff_store *store = open_at(directory, durability, "fault");
    for (int i = 0; i < GROUPS; i++) {
        if (spoiled)
            spoil(property);
        put_group(store, &mailbox, property);
        if (i % 4 == 3)
            finish_some(store, &mailbox, property);
        if (i % 20 == 19) { /* a restart, too */
            fault_lift();
            handoff_store_close(&store);
            store = open_at(directory, durability, "fault");
        }
    }
    fault_lift();
    handoff_store_close(&store);
    power_end();
    base_mailbox_free(&mailbox);
}

/* ---- what is left --------------------------------------------------------------------------- */

static void check_envelope(struct handoff_store *store, const struct envelope *envelope,
                           size_t moment)
{
    struct base_arena arena = {0};
    struct handoff_stored_envelope found;
    enum handoff_code code =
        handoff_store_get_envelope(store, &envelope->put.id, &arena, &found, &error);
    bool acknowledged = envelope->acknowledged && envelope->acknowledged <= moment;
    bool may_be_gone = envelope->finished && envelope->finished_at <= moment;
    if (code != HANDOFF_OK && (code != HANDOFF_ERR_NOT_FOUND || (acknowledged && !may_be_gone)))
        fail_msg("after step %zu: %s %s", moment, error.message, error.seen);
    if (code == HANDOFF_OK)
        assert_true(base_span_equal(found.body, envelope->put.body));
    base_arena_free(&arena);
}

static int64_t ask(struct handoff_store *store, const char *sql)
{
    int64_t number;
    struct handoff_db *db = handoff_store_reader(store, &error);
    assert_non_null(db);
    assert_int_equal(handoff_db_number(db, sql, &number, &error), HANDOFF_OK);
    handoff_store_reader_done(store, db);
    return number;
}

static void check_left(const char *directory, size_t moment, bool all)
{
    struct handoff_store_report report;
    struct handoff_store_put_envelope put;
    struct handoff_store *store = open_at(directory, HANDOFF_DURABILITY_FULL, NULL);
    for (int i = 0; all && i < envelope_count; i++)
        check_envelope(store, &envelopes[i], moment);
    temp_envelope(&put, &ids, "task", 9000);
    assert_int_equal(temp_put(store, &put), HANDOFF_OK);
    temp_envelope_free(&put);
    assert_true(ask(store, "SELECT count(*) FROM envelopes") > 0);
    handoff_store_close(&store);
    assert_int_equal(handoff_store_check(directory, &report, &error), HANDOFF_OK);
    if (report.problems > 0 && (all || !strstr(report.problem, "does not match its digest")))
        fail_msg("after step %zu: %s", moment, report.problem);
}

/* Each of the first, when the store is made; then spread over its life, at random in each part. */
static size_t choose_moment(size_t i, size_t cuts, struct property *property)
{
    size_t part = power.count / cuts + 1, begins = power.count * i / cuts;
    size_t moment = begins + property_below(property, (uint32_t)part);
    moment = i < 20 && i < cuts / 2 ? i : moment < power.played ? power.played : moment;
    return moment > power.count ? power.count : moment;
}

static void cut_often(enum handoff_durability durability, bool spoiled, const char *name,
                      size_t cuts)
{
    struct property property = property_begin(name);
    char *directory = temp_directory();
    live(directory, durability, spoiled, &property);
    temp_remove(directory);
    for (size_t i = 0; i < cuts; i++) {
        size_t moment = choose_moment(i, cuts, &property);
        directory = temp_directory();
        power_cut(moment, directory, (enum power_luck)property_below(&property, POWER_LUCKS),
                  &property);
        check_left(directory, moment, durability == HANDOFF_DURABILITY_FULL);
        temp_remove(directory);
    }
    for (int i = 0; i < envelope_count; i++)
        temp_envelope_free(&envelopes[i].put);
    power_free();
}

static size_t cuts(size_t usual)
{
    const char *given = getenv("HANDOFF_CUTS");
    return given ? strtoul(given, NULL, 10) : usual;
}

static void test_nothing_acknowledged_is_lost(void **state)
{
    (void)state;
    cut_often(HANDOFF_DURABILITY_FULL, false, "full", cuts(120));
}

static void test_a_failing_disk_loses_nothing_either(void **state)
{
    (void)state;
    cut_often(HANDOFF_DURABILITY_FULL, true, "failing", cuts(120));
}

/* Without syncs the last are lost, but what is left is a store, and what is damaged is noticed. */
static void test_without_syncs_it_stays_a_store(void **state)
{
    (void)state;
    cut_often(HANDOFF_DURABILITY_NONE, false, "none", cuts(60));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_acknowledged_is_lost),
        cmocka_unit_test(test_a_failing_disk_loses_nothing_either),
        cmocka_unit_test(test_without_syncs_it_stays_a_store),
    };
    base_uuid_source_init(&ids, NULL, NULL);
    fault_vfs_register();
    return RUN_TESTS(tests);
}
