/* SPDX-License-Identifier: Apache-2.0 */
/* Which publications a subscriber that catches up has missed. */
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include "client/store/channels.h"
#include "client/store/subscriptions.h"
#include "lib/base/mailbox.h"

static struct handoff_store *store;
static struct base_uuid_source ids;
static char *directory;

static int open_fixture(void **state)
{
    (void)state;
    struct handoff_error error;
    directory = temp_directory();
    const struct handoff_store_options options = {.path = directory, .retention_every_ms = 1 << 30};
    base_uuid_source_init(&ids, &base_clock_system, &base_random_system);
    return handoff_store_open(&store, &options, &error) == HANDOFF_OK ? 0 : -1;
}

static int close_fixture(void **state)
{
    (void)state;
    handoff_store_close(&store);
    temp_remove(directory);
    return 0;
}

/* To nobody, at a time. */
static void publish(const char *channel, int64_t at_ms)
{
    struct handoff_store_publish publish = {
        .channel = base_span_text(channel), .source = base_span_text("researcher"), .at_ms = at_ms};
    temp_envelope(&publish.put, &ids, "task-1", 100);
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    publish.put.job.mailbox = &mailbox;
    publish.put.job.done = temp_nothing;
    handoff_store_publish(store, &publish);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(publish.put.job.error.code, HANDOFF_OK);
    temp_envelope_free(&publish.put);
}

static struct handoff_store_subscribe put_row(struct handoff_store_subscribe put)
{
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    put.job.mailbox = &mailbox;
    put.job.done = temp_nothing;
    handoff_store_subscribe(store, &put);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(put.job.error.code, HANDOFF_OK);
    return put;
}

/* As a subscriber that catches up; the store fills what it has to. */
static struct handoff_stored_subscription subscribe_from(int64_t from_ms)
{
    return put_row(
               (struct handoff_store_subscribe){.row = {.channel = base_span_text("news"),
                                                        .receiver = base_span_text("reviewer"),
                                                        .state = HANDOFF_SUBSCRIPTION_CATCHING_UP,
                                                        .from_ms = from_ms}})
        .row;
}

static void keep_subscription(void *arg, const struct handoff_stored_subscription *row)
{
    struct handoff_stored_subscription *kept = arg;
    *kept = *row;
    kept->channel = base_span_text("news"); /* its texts are lent for the call */
    kept->receiver = base_span_text("reviewer");
}

/* Another process. */
static struct handoff_stored_subscription reopen_and_read(void)
{
    struct handoff_stored_subscription row = {0};
    struct handoff_error error;
    const struct handoff_store_options options = {.path = directory, .retention_every_ms = 1 << 30};
    handoff_store_close(&store);
    assert_int_equal(handoff_store_open(&store, &options, &error), HANDOFF_OK);
    assert_int_equal(handoff_store_visit_subscriptions(store, keep_subscription, &row, &error),
                     HANDOFF_OK);
    return row;
}

static size_t count_missed(struct handoff_stored_subscription *row)
{
    struct handoff_stored_missed missed[16];
    struct handoff_error error;
    size_t count = 0;
    assert_int_equal(handoff_store_list_missed(store, row, 16, missed, &count, &error), HANDOFF_OK);
    if (count > 0)
        row->position = missed[count - 1].seq;
    return count;
}

static void test_what_was_published_before_the_time_is_not_missed(void **state)
{
    (void)state;
    publish("news", 1000);
    publish("news", 2000);
    publish("alarms", 2000);
    publish("news", 1500);
    publish("news", 3000);
    struct handoff_stored_subscription row = subscribe_from(2000);
    assert_int_equal(count_missed(&row), 2);
    assert_int_equal(count_missed(&row), 0);
}

static void test_a_clock_that_is_set_back_hides_nothing_that_is_published_from_then_on(void **state)
{
    (void)state;
    publish("news", 1000);
    publish("news", 2500);
    struct handoff_stored_subscription row = subscribe_from(2000);
    assert_int_equal(count_missed(&row), 1);
    publish("news", 500);
    publish("news", 600);
    assert_int_equal(count_missed(&row), 2);
    assert_int_equal(count_missed(&row), 0);
}

static void test_an_empty_store_has_only_what_is_newer(void **state)
{
    (void)state;
    struct handoff_stored_subscription row = subscribe_from(2000);
    assert_int_equal(count_missed(&row), 0);
    publish("news", 500);
    assert_int_equal(count_missed(&row), 1);
}

static void test_nor_does_a_process_that_dies_before_it_has_caught_up(void **state)
{
    (void)state;
    publish("news", 1000);
    publish("news", 2500);
    (void)subscribe_from(2000);
    publish("news", 500); /* the clock was set back */
    struct handoff_stored_subscription row = reopen_and_read();
    assert_int_equal(count_missed(&row), 2);
    assert_int_equal(count_missed(&row), 0);
}

static struct handoff_store_subscribe decided(int64_t at_ms, int64_t dropped)
{
    return (struct handoff_store_subscribe){.row = {.channel = base_span_text("news"),
                                                    .receiver = base_span_text("reviewer"),
                                                    .state = HANDOFF_SUBSCRIPTION_CATCHING_UP,
                                                    .at_ms = at_ms,
                                                    .dropped = dropped}};
}

/* A decision that failed was on disk for a while, and retention counted in its row. */
static void test_a_row_that_is_restored_counts_what_was_dropped_meanwhile(void **state)
{
    (void)state;
    (void)put_row(decided(100, 0));
    (void)put_row(decided(200, 2));
    struct handoff_store_subscribe restored = decided(100, 5);
    restored.restores = true;
    assert_int_equal(put_row(restored).dropped, 7);
    assert_int_equal(put_row(restored).dropped, 7); /* a job may run twice */
    assert_int_equal(reopen_and_read().dropped, 7);
    assert_int_equal(put_row(decided(300, 0)).dropped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_published_before_the_time_is_not_missed,
                                        open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(
            test_a_clock_that_is_set_back_hides_nothing_that_is_published_from_then_on,
            open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_nor_does_a_process_that_dies_before_it_has_caught_up,
                                        open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(
            test_a_row_that_is_restored_counts_what_was_dropped_meanwhile, open_fixture,
            close_fixture),
        cmocka_unit_test_setup_teardown(test_an_empty_store_has_only_what_is_newer, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
