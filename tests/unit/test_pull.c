/* SPDX-License-Identifier: Apache-2.0 */
/* A poller that leaves at any moment takes nothing along: the next one gets the first attempt. */
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include <poll.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_poller_that_leaves_takes_nothing_along, open_client,
                                        close_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
