/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is finished goes by age, whatever happens to the system clock: set forward by a year, in a
 * wrong year from the start, or after a stop of months. A real store, and a clock that is moved by
 * hand.
 */
#include "client/store/store.h"

#include "client/store/sqlite/retention_clock.h"
#include "lib/base/arena.h"
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define YEAR   (365 * DAY)

enum { WAIT_MS = 10000 };

static struct base_uuid_source ids;

static struct fixture {
    char *directory;
    struct base_manual_clock clock;
    struct handoff_store *store;
    struct base_arena arena;
    struct handoff_error error;
} fixture;

static void open_store(void)
{
    const struct handoff_store_options options = {.path = fixture.directory,
                                                  .clock = &fixture.clock.clock,
                                                  .retention_age_ms = 30 * DAY,
                                                  .retention_every_ms = 1};
    assert_int_equal(handoff_store_open(&fixture.store, &options, &fixture.error), HANDOFF_OK);
}

static int set_up(void **state)
{
    (void)state;
    fixture.directory = temp_directory();
    base_manual_clock_init(&fixture.clock, 56 * YEAR);
    base_arena_init(&fixture.arena, 0);
    open_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    handoff_store_close(&fixture.store);
    base_arena_free(&fixture.arena);
    temp_remove(fixture.directory);
    return 0;
}

/* Both clocks. */
static void pass(int64_t ms)
{
    base_manual_clock_advance(&fixture.clock, ms);
}

/* The wall clock alone. */
static void set_forward(int64_t ms)
{
    atomic_fetch_add(&fixture.clock.wall_ms, ms);
}

static struct base_uuid finish_one(void)
{
    struct handoff_store_put_envelope put;
    temp_envelope(&put, &ids, "task", 10);
    put.created_ms = base_wall_ms(&fixture.clock.clock);
    put.finished = true;
    put.job.run = NULL;
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    put.job.mailbox = &mailbox;
    put.job.done = temp_nothing;
    handoff_store_put_envelope(fixture.store, &put);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(put.job.error.code, HANDOFF_OK);
    temp_envelope_free(&put);
    return put.id;
}

static bool is_kept(struct base_uuid id)
{
    struct handoff_stored_envelope found;
    const enum handoff_code code =
        handoff_store_get_envelope(fixture.store, &id, &fixture.arena, &found, &fixture.error);
    assert_true(code == HANDOFF_OK || code == HANDOFF_ERR_NOT_FOUND);
    return code == HANDOFF_OK;
}

static void wait_until_gone(struct base_uuid id)
{
    const int64_t end_ms = base_monotonic_ms(&base_clock_system) + WAIT_MS;
    while (is_kept(id))
        assert_true(base_monotonic_ms(&base_clock_system) < end_ms);
}

static void restart(void)
{
    handoff_store_close(&fixture.store);
    open_store();
}

static void test_it_goes_at_its_age(void **state)
{
    (void)state;
    const struct base_uuid old = finish_one();
    pass(DAY);
    const struct base_uuid younger = finish_one();
    pass(29 * DAY + SECOND);
    wait_until_gone(old);
    assert_true(is_kept(younger));
}

/* The sweep that removes what is due has seen the jump. */
static void test_a_clock_set_forward_removes_nothing_before_its_time(void **state)
{
    (void)state;
    const struct base_uuid due = finish_one();
    pass(30 * DAY - MINUTE);
    const struct base_uuid young = finish_one();
    set_forward(YEAR);
    pass(2 * MINUTE);
    wait_until_gone(due);
    assert_true(is_kept(young));
}

static void test_a_clock_that_is_corrected_within_an_hour_costs_a_day(void **state)
{
    (void)state;
    const struct base_uuid due = finish_one();
    pass(2 * DAY);
    const struct base_uuid young = finish_one();
    set_forward(YEAR);
    pass(HOUR);
    finish_one(); /* so it was seen */
    set_forward(-YEAR);
    pass(27 * DAY + 3 * HOUR); /* with the day that it cost, 30 */
    wait_until_gone(due);
    assert_true(is_kept(young));
    pass(2 * DAY);
    wait_until_gone(young);
}

static void test_a_restart_in_a_wrong_year_removes_nothing_before_its_time(void **state)
{
    (void)state;
    const struct base_uuid due = finish_one();
    pass(30 * DAY - MINUTE);
    const struct base_uuid young = finish_one();
    set_forward(YEAR);
    restart();
    const struct base_uuid newer = finish_one();
    restart();
    pass(2 * MINUTE + HOUR / 2);
    wait_until_gone(due);
    assert_true(is_kept(young));
    assert_true(is_kept(newer));
}

/* Which is a time in which nothing could be read or repeated: it passes at a day an hour. */
static void test_a_long_stop_counts_little_by_little(void **state)
{
    (void)state;
    const struct base_uuid due = finish_one();
    pass(20 * DAY);
    const struct base_uuid young = finish_one();
    pass(SECOND);
    finish_one();
    handoff_store_close(&fixture.store);
    set_forward(60 * DAY);
    open_store();
    pass(11 * HOUR);
    wait_until_gone(due);
    assert_true(is_kept(young));
    pass(20 * HOUR);
    wait_until_gone(young);
}

/* A host without a battery starts in 1970 and asks NTP later. */
static void test_what_finishes_in_a_wrong_year_keeps_its_age(void **state)
{
    (void)state;
    const struct base_uuid before = finish_one();
    pass(HOUR);
    handoff_store_close(&fixture.store);
    set_forward(-56 * YEAR);
    open_store();
    pass(MINUTE);
    const struct base_uuid meanwhile = finish_one();
    set_forward(56 * YEAR);
    const struct base_uuid after = finish_one();
    set_forward(20 * YEAR);
    const struct base_uuid ahead = finish_one();
    set_forward(-20 * YEAR);
    pass(30 * DAY - HOUR); /* the others finished an hour later than it */
    wait_until_gone(before);
    assert_true(is_kept(meanwhile) && is_kept(after) && is_kept(ahead));
    pass(HOUR + MINUTE);
    wait_until_gone(meanwhile);
    wait_until_gone(after);
    wait_until_gone(ahead);
}

static struct handoff_store_kept kept_now(void)
{
    struct handoff_store_kept kept;
    restart(); /* measures */
    handoff_store_kept(fixture.store, &kept);
    return kept;
}

/* Who remembers when something finished, by the wall clock, forgets what the store has removed. */
static void test_what_is_there_is_kept_from_its_wall_time(void **state)
{
    (void)state;
    set_forward(YEAR);
    pass(HOUR);
    const struct base_uuid due = finish_one();
    set_forward(-YEAR); /* now retention is a day ahead */
    pass(30 * DAY + MINUTE);
    wait_until_gone(due);
    const int64_t finished_ms = base_wall_ms(&fixture.clock.clock);
    finish_one();
    pass(HOUR);
    const struct handoff_store_kept kept = kept_now();
    assert_true(kept.ahead_ms > 23 * HOUR);
    assert_true(kept.kept_from_ms <= finished_ms);
    assert_int_equal(base_wall_ms(&fixture.clock.clock) + kept.ahead_ms - kept.oldest_row_ms, HOUR);
}

static void test_a_clock_set_forward_makes_nothing_older_than_it_is(void **state)
{
    (void)state;
    const int64_t finished_ms = base_wall_ms(&fixture.clock.clock);
    finish_one();
    set_forward(YEAR);
    pass(MINUTE);
    const struct handoff_store_kept kept = kept_now();
    assert_true(kept.ahead_ms < 0);
    assert_true(kept.kept_from_ms <= finished_ms);
    const int64_t age_ms = base_wall_ms(&fixture.clock.clock) + kept.ahead_ms - kept.oldest_row_ms;
    assert_true(age_ms >= MINUTE && age_ms <= 25 * MINUTE);
}

#define SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    base_uuid_source_init(&ids, NULL, NULL);
    const struct CMUnitTest tests[] = {
        SET(test_it_goes_at_its_age),
        SET(test_a_clock_set_forward_removes_nothing_before_its_time),
        SET(test_a_clock_that_is_corrected_within_an_hour_costs_a_day),
        SET(test_a_restart_in_a_wrong_year_removes_nothing_before_its_time),
        SET(test_a_long_stop_counts_little_by_little),
        SET(test_what_finishes_in_a_wrong_year_keeps_its_age),
        SET(test_what_is_there_is_kept_from_its_wall_time),
        SET(test_a_clock_set_forward_makes_nothing_older_than_it_is),
    };
    return RUN_TESTS(tests);
}
