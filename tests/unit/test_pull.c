/* SPDX-License-Identifier: Apache-2.0 */
/* A poller or follower that leaves at any moment takes nothing along: the next one gets the first
   attempt. A follower is told that its loop ends, and of an agent that does not pull. */
#include "tests/support/failing_memory.h"
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include <poll.h>
#include <string.h>

#include "client/handoff.h"

static struct {
    char *directory;
    struct handoff_client *client;
    struct handoff_loop *loop;
} stage;

static int open_client(void **state)
{
    (void)state;
    stage.directory = temp_directory();
    const struct handoff_options options = {.storage_path = stage.directory,
                                            .encoding = "estimate"};
    const struct handoff_agent_options agent = handoff_agent_defaults("reviewer", NULL);
    const struct handoff_configuration configuration = {.agents = &agent, .nagents = 1};
    assert_int_equal(handoff_client_open(&stage.client, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_client_configure(stage.client, &configuration, NULL), HANDOFF_OK);
    assert_int_equal(handoff_loop_open(&stage.loop, stage.client, NULL), HANDOFF_OK);
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    handoff_loop_close(&stage.loop);
    handoff_client_close(&stage.client);
    temp_remove(stage.directory);
    return 0;
}

static void turn(void)
{
    int64_t wait = handoff_loop_wait_ms(stage.loop);
    struct pollfd ready = {.fd = handoff_loop_fd(stage.loop), .events = POLLIN};
    poll(&ready, 1, wait < 0 || wait > 1000 ? 1000 : (int)wait);
    handoff_loop_run(stage.loop);
}

static void count_answer(void *context, const struct handoff_result *result)
{
    assert_int_equal(result->error.code, HANDOFF_OK);
    ++*(unsigned *)context;
}

static void send_one(void)
{
    static const char body[] = "{\"source_agent\":\"analyst\",\"target_agent\":\"reviewer\","
                               "\"task_id\":\"t\",\"task_summary\":\"s\"}";
    const struct handoff_ask ask = {.body = body, .size = sizeof body - 1, .respond_async = true};
    unsigned answers = 0;
    handoff_send(stage.loop, &ask, count_answer, &answers);
    while (!answers)
        turn();
}

struct puller {
    unsigned told, attempt;
    bool left;
    char id[37];
};

static bool on_pulled(void *context, const struct handoff_pulled *got)
{
    struct puller *puller = context;
    puller->told++;
    puller->attempt = got->envelope && !puller->left ? got->attempt : 0;
    memcpy(puller->id, got->id, sizeof puller->id);
    return !puller->left;
}

static struct handoff_puller *pull(struct puller *puller)
{
    *puller = (struct puller){0};
    return handoff_pull(stage.loop, "reviewer", 60000, on_pulled, puller);
}

static void pull_and_acknowledge(void)
{
    struct puller puller;
    unsigned answers = 0;
    pull(&puller);
    while (!puller.told)
        turn();
    assert_int_equal(puller.attempt, 1);
    handoff_acknowledge(stage.loop, puller.id, HANDOFF_ANSWER_ACK, NULL, NULL, count_answer,
                        &answers);
    while (!answers)
        turn();
}

/* Leaves after so many steps of the loop. false: it had the handoff by then. */
static bool leave_after(int steps, bool poll_first)
{
    struct puller puller;
    struct handoff_puller *leaving = NULL;
    if (poll_first)
        leaving = pull(&puller);
    send_one();
    if (!poll_first)
        leaving = pull(&puller);
    for (int i = 0; i < steps && !puller.told; i++)
        turn();
    if (puller.told)
        return false;
    puller.left = true;
    handoff_pull_withdraw(leaving);
    while (!puller.told)
        turn();
    assert_int_equal(puller.told, 1);
    assert_int_equal(puller.attempt, 0);
    pull_and_acknowledge();
    return true;
}

static void test_a_poller_that_leaves_takes_nothing_along(void **state)
{
    (void)state;
    for (int poll_first = 0; poll_first < 2; poll_first++) {
        int steps = 0;
        while (leave_after(steps, poll_first))
            steps++;
        assert_true(poll_first || steps > 1); /* there was a moment with the lease on its way */
        handoff_loop_close(&stage.loop);      /* the one that it was given before it could leave */
        assert_int_equal(handoff_loop_open(&stage.loop, stage.client, NULL), HANDOFF_OK);
    }
}

/* ---- following ------------------------------------------------------------------------------- */

static const struct handoff_follow_options one_lease = {.agent = "reviewer", .leases = 1};

static struct handoff_follower *follow(struct puller *puller, char first_id[37])
{
    *puller = (struct puller){0};
    return handoff_follow(stage.loop, &one_lease, on_pulled, puller, first_id, NULL);
}

/* Leaves after so many steps. false: it had the handoff by then. */
static bool stop_following_after(int steps)
{
    struct puller puller;
    char first_id[37];
    struct handoff_follower *leaving = follow(&puller, first_id);
    handoff_follow_next(leaving);
    send_one();
    for (int i = 0; i < steps && !puller.told; i++)
        turn();
    const bool told = puller.told > 0;
    handoff_follow_end(leaving, told ? 1 : 0); /* the host could not send it */
    pull_and_acknowledge();
    assert_int_equal(puller.told, told);
    return !told;
}

static void test_a_follower_that_leaves_takes_nothing_along(void **state)
{
    (void)state;
    int steps = 0;
    while (stop_following_after(steps))
        steps++;
}

static void test_followers_are_told_that_the_loop_ends(void **state)
{
    (void)state;
    struct puller asking, idle;
    char first_id[37];
    handoff_follow_next(follow(&asking, first_id));
    assert_non_null(follow(&idle, first_id));
    assert_int_equal(strlen(first_id), 36);
    asking.left = idle.left = true;
    handoff_loop_close(&stage.loop);
    assert_int_equal(asking.told, 1);
    assert_int_equal(idle.told, 1);
    assert_int_equal(handoff_loop_open(&stage.loop, stage.client, NULL), HANDOFF_OK);
}

static void test_who_may_not_follow(void **state)
{
    (void)state;
    struct handoff_error error;
    char first_id[37];
    const struct handoff_follow_options unknown = {.agent = "nobody", .leases = 1};
    assert_null(handoff_follow(stage.loop, &unknown, on_pulled, NULL, first_id, &error));
    assert_int_equal(error.code, HANDOFF_ERR_UNKNOWN_AGENT);
    for (long n = 1; n <= 2; n++) {
        failing_memory_at(n);
        assert_null(handoff_follow(stage.loop, &one_lease, on_pulled, NULL, first_id, &error));
        failing_memory_at(0);
        assert_int_equal(error.code, HANDOFF_ERR_OUT_OF_MEMORY);
    }
}

static int install_failing_memory(void **state)
{
    (void)state;
    failing_memory_install();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_follower_that_leaves_takes_nothing_along,
                                        open_client, close_client),
        cmocka_unit_test_setup_teardown(test_followers_are_told_that_the_loop_ends, open_client,
                                        close_client),
        cmocka_unit_test_setup_teardown(test_who_may_not_follow, open_client, close_client),
        cmocka_unit_test_setup_teardown(test_a_poller_that_leaves_takes_nothing_along, open_client,
                                        close_client),
    };
    return cmocka_run_group_tests(tests, install_failing_memory, NULL);
}
