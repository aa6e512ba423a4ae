/* SPDX-License-Identifier: Apache-2.0 */
/* Subscriptions in memory: how many there may be, and what a change that fails leaves; and feeds
   that are held. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/channels/channels.h"
#include "client/client.h"
#include "client/deliver/engine.h"
#include "lib/base/error.h"
#include "tests/support/temp_store.h"

static enum handoff_code begin(struct handoff_channels *channels, const char *channel,
                               const char *agent)
{
    enum handoff_subscription_state was;
    struct handoff_error error;
    bool configured;
    return handoff_channels_begin_change(channels, base_span_text(channel), base_span_text(agent),
                                         &configured, &was, &error);
}

static uint64_t subscribe(struct handoff_channels *channels, const char *channel, const char *agent,
                          enum handoff_subscription_state state)
{
    assert_int_equal(begin(channels, channel, agent), HANDOFF_OK);
    return handoff_channels_end_change(channels, base_span_text(channel), base_span_text(agent),
                                       state, handoff_channels_time_of_change(channels, 1));
}

static size_t count_receivers(struct handoff_channels *channels, const char *name)
{
    struct handoff_channel channel;
    struct handoff_error error;
    struct base_arena arena;
    base_arena_init(&arena, 0);
    enum handoff_code code =
        handoff_channels_find(channels, base_span_text(name), &arena, &channel, &error);
    const size_t count = code == HANDOFF_OK ? channel.nreceivers : 0;
    base_arena_free(&arena);
    return count;
}

static void test_one_agent_does_not_use_up_all_subscriptions(void **state)
{
    (void)state;
    char name[32];
    struct handoff_channels *channels = calloc(1, sizeof *channels);
    handoff_channels_init(channels);
    for (int i = 0; i < HANDOFF_SUBSCRIPTIONS_OF_AGENT_MAX; i++) {
        snprintf(name, sizeof name, "channel-%d", i);
        subscribe(channels, name, "greedy", HANDOFF_SUBSCRIPTION_CURRENT);
    }
    assert_int_equal(begin(channels, "one-more", "greedy"), HANDOFF_ERR_CONFLICT);
    subscribe(channels, "one-more", "modest", HANDOFF_SUBSCRIPTION_CURRENT);
    subscribe(channels, "channel-7", "greedy", HANDOFF_SUBSCRIPTION_NONE);
    assert_int_equal(count_receivers(channels, "channel-7"), 0);
    subscribe(channels, "one-more", "greedy", HANDOFF_SUBSCRIPTION_CURRENT);
    assert_int_equal(count_receivers(channels, "one-more"), 2);
    handoff_channels_free(channels);
    free(channels);
}

static void test_a_change_that_is_given_up_changes_nothing(void **state)
{
    (void)state;
    const struct base_span news = base_span_text("news"), agent = base_span_text("reader");
    struct handoff_channels *channels = calloc(1, sizeof *channels);
    handoff_channels_init(channels);
    assert_int_equal(begin(channels, "news", "reader"), HANDOFF_OK);
    handoff_channels_give_up_change(channels, news, agent);
    assert_int_equal(count_receivers(channels, "news"), 0);
    uint64_t number = subscribe(channels, "news", "reader", HANDOFF_SUBSCRIPTION_CATCHING_UP);
    assert_int_equal(begin(channels, "news", "reader"), HANDOFF_OK);
    assert_int_equal(begin(channels, "news", "reader"), HANDOFF_ERR_CONFLICT);
    assert_true(handoff_channels_sweep(channels, news, agent, number, HANDOFF_SWEEP_LOOK));
    handoff_channels_give_up_change(channels, news, agent);
    assert_true(handoff_channels_sweep(channels, news, agent, number, HANDOFF_SWEEP_DONE));
    subscribe(channels, "news", "reader", HANDOFF_SUBSCRIPTION_CURRENT);
    assert_false(handoff_channels_sweep(channels, news, agent, number, HANDOFF_SWEEP_LOOK));
    handoff_channels_free(channels);
    free(channels);
}

static void test_no_two_changes_have_the_same_time(void **state)
{
    (void)state;
    struct handoff_channels *channels = calloc(1, sizeof *channels);
    handoff_channels_init(channels);
    assert_int_equal(handoff_channels_time_of_change(channels, 1000), 1000);
    assert_int_equal(handoff_channels_time_of_change(channels, 1000), 1001);
    assert_int_equal(handoff_channels_time_of_change(channels, 500), 1002); /* it was set back */
    assert_int_equal(handoff_channels_time_of_change(channels, 2000), 2000);
    handoff_channels_free(channels);
    free(channels);
}

static struct handoff_held held_at(int64_t seq)
{
    return (struct handoff_held){.seq = seq, .id.bytes = {(uint8_t)seq}};
}

static int next_in(struct handoff_feed *feed)
{
    struct base_uuid id;
    struct handoff_lane *lane;
    return handoff_feed_next(feed, &id, &lane) ? id.bytes[0] : 0;
}

/* A last look waits for what was being published to its channel, and for nothing else. */
static void test_publications_of_other_channels_are_not_waited_for(void **state)
{
    (void)state;
    struct handoff_channels *channels = calloc(1, sizeof *channels);
    struct handoff_channel_ticket slow = {0}, other = {0}, later = {0};
    const struct base_span news = base_span_text("news"), alarms = base_span_text("alarms");
    handoff_channels_init(channels);
    handoff_channels_enter(channels, &slow, "news");
    handoff_channels_enter(channels, &other, "alarms");
    const uint64_t last = handoff_channels_last_ticket(channels);
    handoff_channels_enter(channels, &later, "alarms");
    assert_false(handoff_channels_have_left(channels, news, last));
    assert_false(handoff_channels_have_left(channels, alarms, last));
    handoff_channels_leave(channels, &other);
    assert_true(handoff_channels_have_left(channels, alarms, last));
    assert_false(handoff_channels_have_left(channels, news, last));
    handoff_channels_leave(channels, &slow);
    assert_true(handoff_channels_have_left(channels, news, last));
    handoff_channels_leave(channels, &later);
    handoff_channels_free(channels);
    free(channels);
}

static int64_t behind(struct handoff_channels *channels, const char *channel, const char *agent)
{
    return handoff_channels_behind(channels, base_span_text(channel), base_span_text(agent));
}

/* A last look need not begin at the first publication, but where one was published late. */
static void test_what_appears_behind_is_remembered_for_those_that_catch_up(void **state)
{
    (void)state;
    struct handoff_channels *channels = calloc(1, sizeof *channels);
    handoff_channels_init(channels);
    handoff_channels_note_behind(channels, base_span_text("news"), 3);
    subscribe(channels, "news", "reviewer", HANDOFF_SUBSCRIPTION_CATCHING_UP);
    subscribe(channels, "news", "doc-writer", HANDOFF_SUBSCRIPTION_CURRENT);
    subscribe(channels, "alarms", "reviewer", HANDOFF_SUBSCRIPTION_CATCHING_UP);
    assert_int_equal(behind(channels, "news", "reviewer"), 0);
    handoff_channels_note_behind(channels, base_span_text("news"), 40);
    handoff_channels_note_behind(channels, base_span_text("news"), 7);
    handoff_channels_note_behind(channels, base_span_text("news"), 12);
    assert_int_equal(behind(channels, "news", "reviewer"), 7);
    assert_int_equal(behind(channels, "news", "doc-writer"), 0);
    assert_int_equal(behind(channels, "alarms", "reviewer"), 0);
    assert_int_equal(begin(channels, "news", "reviewer"), HANDOFF_OK);
    handoff_channels_give_up_change(channels, base_span_text("news"), base_span_text("reviewer"));
    assert_int_equal(behind(channels, "news", "reviewer"), 7);
    subscribe(channels, "news", "reviewer", HANDOFF_SUBSCRIPTION_CATCHING_UP);
    assert_int_equal(behind(channels, "news", "reviewer"), 0);
    handoff_channels_free(channels);
    free(channels);
}

static int64_t dropped(struct handoff_channels *channels)
{
    return handoff_channels_dropped(channels, base_span_text("news"), base_span_text("reviewer"));
}

static void note_dropped(struct handoff_channels *channels, int64_t at_ms, int64_t count)
{
    handoff_channels_note_dropped(channels, base_span_text("news"), base_span_text("reviewer"),
                                  at_ms, count);
}

/* The writer's thread may tell what retention took of a subscription before the loop knows that it
   is on disk; and of one whose caller was told that it failed. */
static void test_what_was_dropped_belongs_to_one_decision(void **state)
{
    (void)state;
    struct handoff_channels *channels = calloc(1, sizeof *channels);
    handoff_channels_init(channels);
    assert_int_equal(begin(channels, "news", "reviewer"), HANDOFF_OK);
    note_dropped(channels, 10, 2);
    assert_int_equal(dropped(channels), 0);
    handoff_channels_end_change(channels, base_span_text("news"), base_span_text("reviewer"),
                                HANDOFF_SUBSCRIPTION_CATCHING_UP, 10);
    assert_int_equal(dropped(channels), 2);
    note_dropped(channels, 10, 3);
    assert_int_equal(begin(channels, "news", "reviewer"), HANDOFF_OK);
    note_dropped(channels, 11, 1);
    handoff_channels_give_up_change(channels, base_span_text("news"), base_span_text("reviewer"));
    note_dropped(channels, 11, 2);
    assert_int_equal(dropped(channels), 3);
    assert_int_equal(begin(channels, "news", "reviewer"), HANDOFF_OK);
    handoff_channels_end_change(channels, base_span_text("news"), base_span_text("reviewer"),
                                HANDOFF_SUBSCRIPTION_CATCHING_UP, 12);
    assert_int_equal(dropped(channels), 0);
    handoff_channels_free(channels);
    free(channels);
}

static void test_a_held_feed_goes_on_in_order(void **state)
{
    (void)state;
    struct handoff_feeds *feeds = calloc(1, sizeof *feeds);
    handoff_feeds_init(feeds);
    struct handoff_feed *feed =
        handoff_feeds_get(feeds, base_span_text("news"), base_span_text("reader"));
    struct handoff_held third = held_at(3), first = held_at(1), second = held_at(2),
                        last = held_at(9);
    assert_true(handoff_feed_pass(feed, &first)); /* nothing holds it yet */
    handoff_feed_hold(feed);
    assert_false(handoff_feed_pass(feed, &third));
    assert_false(handoff_feed_pass(feed, &first));
    assert_false(handoff_feed_pass(feed, &second));
    assert_int_equal(next_in(feed), 0);
    handoff_feed_release(feed);
    assert_int_equal(next_in(feed), 1);
    assert_false(handoff_feed_pass(feed, &last)); /* behind those that wait */
    assert_false(handoff_feed_pass(feed, &third));
    assert_true(handoff_feed_pass(feed, &first));
    assert_int_equal(next_in(feed), 2);
    handoff_feed_leave(feed, &second);
    assert_true(handoff_feed_pass(feed, &third));
    assert_true(handoff_feed_pass(feed, &last));
    assert_int_equal(next_in(feed), 0);
    assert_true(handoff_feed_pass(feed, &first));
    handoff_feeds_free(feeds);
    free(feeds);
}

static void count_feed(struct handoff_feed *feed, void *count)
{
    (void)feed;
    ++*(size_t *)count;
}

static size_t count_feeds(struct handoff_channels *channels)
{
    size_t count = 0;
    handoff_feeds_each(&channels->feeds, count_feed, &count);
    return count;
}

static void test_channels_that_come_and_go_take_no_memory_for_ever(void **state)
{
    (void)state;
    char name[32];
    struct handoff_channels *channels = calloc(1, sizeof *channels);
    handoff_channels_init(channels);
    subscribe(channels, "kept", "reader", HANDOFF_SUBSCRIPTION_CURRENT);
    struct handoff_feed *used = /* as a delivery does */
        handoff_feeds_get(&channels->feeds, base_span_text("used"), base_span_text("reader"));
    for (int i = 0; i < 3 * HANDOFF_FEEDS_IDLE_MAX; i++) {
        snprintf(name, sizeof name, "channel-%d", i);
        subscribe(channels, name, "reader", HANDOFF_SUBSCRIPTION_CURRENT);
        subscribe(channels, name, "reader", HANDOFF_SUBSCRIPTION_NONE);
    }
    assert_int_equal(count_feeds(channels), HANDOFF_FEEDS_IDLE_MAX + 2);
    struct handoff_feed *same =
        handoff_feeds_get(&channels->feeds, base_span_text("used"), base_span_text("reader"));
    assert_ptr_equal(same, used);
    handoff_feeds_put(&channels->feeds, same);
    handoff_feeds_put(&channels->feeds, used);
    assert_int_equal(count_feeds(channels), HANDOFF_FEEDS_IDLE_MAX + 1);
    handoff_feeds_unsubscribe_all(&channels->feeds);
    assert_int_equal(count_feeds(channels), HANDOFF_FEEDS_IDLE_MAX);
    subscribe(channels, "channel-7", "reader", HANDOFF_SUBSCRIPTION_CURRENT);
    subscribe(channels, "kept", "reader", HANDOFF_SUBSCRIPTION_CURRENT); /* it was idle */
    assert_int_equal(count_feeds(channels), HANDOFF_FEEDS_IDLE_MAX + 1);
    handoff_channels_free(channels);
    free(channels);
}

/* A program closes its loop when it likes. */
static void test_a_loop_may_close_when_one_that_waited_has_been_called_up(void **state)
{
    (void)state;
    struct handoff_error error;
    struct handoff_client *client;
    struct handoff_loop *loop;
    char *directory = temp_directory();
    const struct handoff_options options = {
        .storage_path = directory, .durability_none = true, .encoding = "estimate"};
    assert_int_equal(handoff_client_open(&client, &options, &error), HANDOFF_OK);
    assert_int_equal(handoff_loop_open(&loop, client, &error), HANDOFF_OK);
    struct handoff_feeds *feeds = &client->channels.feeds;
    struct handoff_feed *feed =
        handoff_feeds_get(feeds, base_span_text("news"), base_span_text("reader"));
    struct handoff_held held = {.lane = loop->lane, .seq = 1};
    handoff_feed_hold(feed);
    assert_false(handoff_feed_pass(feed, &held));
    handoff_feed_release(feed); /* as the end of a catch-up does, also when the loop closes */
    handoff_engine_call_up_held(feed);
    handoff_feed_leave(feed, &held);
    handoff_feeds_put(feeds, feed);
    handoff_loop_close(&loop);
    handoff_client_close(&client);
    temp_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_agent_does_not_use_up_all_subscriptions),
        cmocka_unit_test(test_a_change_that_is_given_up_changes_nothing),
        cmocka_unit_test(test_no_two_changes_have_the_same_time),
        cmocka_unit_test(test_publications_of_other_channels_are_not_waited_for),
        cmocka_unit_test(test_what_appears_behind_is_remembered_for_those_that_catch_up),
        cmocka_unit_test(test_what_was_dropped_belongs_to_one_decision),
        cmocka_unit_test(test_a_held_feed_goes_on_in_order),
        cmocka_unit_test(test_channels_that_come_and_go_take_no_memory_for_ever),
        cmocka_unit_test(test_a_loop_may_close_when_one_that_waited_has_been_called_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
