/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscribers that catch up with what was published before, while memory runs out: a shortage that
 * passes delays their deliveries, and parks none.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "client/handoff.h"
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "tests/support/failing_memory.h"
#include "tests/support/temp_store.h"

enum {
    SUBSCRIBERS = 200, /* more than the allocations until a delivery */
    SMALL_BUDGET = 300,
    STEPS = 40,
    STEP_BYTES = 1000, /* so much that the arena of an assembly has to grow */
    TURN_MS = 1000,
    PATIENCE_MS = 120000,
};

static struct {
    char *directory;
    struct handoff_client *client;
    struct handoff_loop *loop;
    struct handoff_agent_options agents[SUBSCRIBERS + 1];
    char names[SUBSCRIBERS][16];
    enum handoff_code code;
    int answers;
    uint64_t subscribed;
    int64_t until_ms;
} fixture;

struct standings {
    const char *name; /* NULL: of all */
    uint64_t in_flight, parked;
};

static void add_standing(void *context, const struct handoff_agent_stats *agent)
{
    struct standings *standings = context;
    if (strcmp(agent->name, "reader") == 0 ||
        (standings->name && strcmp(agent->name, standings->name) != 0))
        return;
    standings->in_flight += agent->in_flight;
    standings->parked += agent->parked;
}

static struct standings standings_of(const char *name)
{
    struct standings standings = {.name = name};
    handoff_client_visit_agents(fixture.client, add_standing, &standings);
    return standings;
}

static bool has_its_delivery(const char *name)
{
    const struct standings standings = standings_of(name);
    return standings.in_flight + standings.parked > 0;
}

static void note_answer(void *context, const struct handoff_result *result)
{
    (void)context;
    fixture.code = result->error.code;
    fixture.answers++;
}

static void wait_a_turn(void)
{
    assert_true(base_monotonic_ms(&base_clock_system) < fixture.until_ms);
    handoff_loop_wait(fixture.loop, TURN_MS);
}

static void until_answered(void)
{
    while (fixture.answers == 0)
        wait_a_turn();
    fixture.answers = 0;
}

static void configure(void)
{
    static const char *const receivers[] = {"reader"};
    static const struct handoff_channel_options channel = {
        .name = "news", .receivers = receivers, .nreceivers = 1};
    struct handoff_configuration configuration = {
        .agents = fixture.agents, .nagents = SUBSCRIBERS + 1, .channels = &channel, .nchannels = 1};
    struct handoff_error error;
    fixture.agents[SUBSCRIBERS] = handoff_agent_defaults("reader", NULL);
    fixture.agents[SUBSCRIBERS].token_budget = 16000;
    for (int i = 0; i < SUBSCRIBERS; i++) {
        snprintf(fixture.names[i], sizeof fixture.names[i], "auditor-%03d", i);
        fixture.agents[i] = handoff_agent_defaults(fixture.names[i], NULL);
        fixture.agents[i].token_budget = SMALL_BUDGET;
    }
    assert_int_equal(handoff_client_configure(fixture.client, &configuration, &error), HANDOFF_OK);
}

static void open_client(void)
{
    struct handoff_error error;
    const struct handoff_options options = {
        .storage_path = fixture.directory, .durability_none = true, .encoding = "estimate"};
    assert_int_equal(handoff_client_open(&fixture.client, &options, &error), HANDOFF_OK);
    configure();
    assert_int_equal(handoff_loop_open(&fixture.loop, fixture.client, &error), HANDOFF_OK);
    assert_int_equal(handoff_client_resume(fixture.client, &fixture.loop, 1, &error), HANDOFF_OK);
}

static void close_client(void)
{
    handoff_loop_close(&fixture.loop);
    handoff_client_close(&fixture.client);
}

static int open_catching_up(void **state)
{
    (void)state;
    memset(&fixture, 0, sizeof fixture);
    failing_memory_install();
    fixture.until_ms = base_monotonic_ms(&base_clock_system) + PATIENCE_MS;
    fixture.directory = temp_directory();
    open_client();
    return 0;
}

static int close_catching_up(void **state)
{
    (void)state;
    failing_memory_at(0);
    close_client();
    temp_remove(fixture.directory);
    return 0;
}

/* What a subscriber with a small budget has no room for. */
static void publish_long_history(void)
{
    struct base_buffer body = {0};
    const struct handoff_publish_options options = {.channel = "news"};
    base_buffer_text(&body, "{\"source_agent\":\"researcher\",\"task_id\":\"task-1\","
                            "\"task_summary\":\"Watch the migration\",\"execution_history\":[");
    for (int i = 0; i < STEPS; i++)
        base_buffer_printf(&body, "%s{\"agent\":\"researcher\",\"action\":\"read chapter %d%0*d\"}",
                           i > 0 ? "," : "", i, STEP_BYTES, 0);
    base_buffer_text(&body, "]}");
    const struct handoff_ask ask = {.body = body.data, .size = body.size};
    handoff_publish(fixture.loop, &options, &ask, note_answer, NULL);
    until_answered();
    assert_int_equal(fixture.code, HANDOFF_OK);
    base_buffer_free(&body);
}

/* Until the failure and what comes of it, or until it has caught up. */
static bool was_hit_while_it_catches_up(const char *name, long n)
{
    failing_memory_at(n);
    handoff_subscribe(fixture.loop, "news", name, "all", NULL, note_answer, NULL);
    until_answered();
    const bool subscribed = fixture.code == HANDOFF_OK;
    fixture.subscribed += subscribed;
    while (!atomic_load(&failing_memory_hit) && !(subscribed && has_its_delivery(name)))
        wait_a_turn();
    const bool hit = atomic_load(&failing_memory_hit);
    failing_memory_at(0);
    while (handoff_loop_pending(fixture.loop) > 0)
        wait_a_turn();
    return hit;
}

/* Without the memory to begin with, a subscriber catches up after the next start. */
static void test_a_shortage_of_memory_parks_nothing(void **state)
{
    (void)state;
    int begun = 0;
    publish_long_history();
    for (bool hit = true; hit; begun++) {
        assert_in_range(begun, 0, SUBSCRIBERS - 1);
        hit = was_hit_while_it_catches_up(fixture.names[begun], begun + 1);
    }
    assert_true(fixture.subscribed > 10);
    assert_int_equal(standings_of(NULL).parked, 0);
    close_client();
    open_client();
    while (standings_of(NULL).in_flight + standings_of(NULL).parked < fixture.subscribed)
        wait_a_turn();
    assert_int_equal(standings_of(NULL).parked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_shortage_of_memory_parks_nothing, open_catching_up,
                                        close_catching_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
