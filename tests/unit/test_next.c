/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next request of an acknowledgement while memory runs out, with a write of the handoff still
 * out: the call is answered, nothing is stored in halves, and it can be repeated.
 */
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include <poll.h>

#include "client/handoff.h"
#include "tests/support/failing_memory.h"

static struct {
    char *directory;
    struct handoff_client *client;
    struct handoff_loop *loop;
} stage;

static void open_loop(void)
{
    assert_int_equal(handoff_loop_open(&stage.loop, stage.client, NULL), HANDOFF_OK);
}

static int open_client(void **state)
{
    (void)state;
    stage.directory = temp_directory();
    const struct handoff_options options = {.storage_path = stage.directory,
                                            .encoding = "estimate"};
    const struct handoff_agent_options agents[] = {handoff_agent_defaults("coder", NULL),
                                                   handoff_agent_defaults("tester", NULL)};
    const struct handoff_configuration configuration = {.agents = agents, .nagents = 2};
    assert_int_equal(handoff_client_open(&stage.client, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_client_configure(stage.client, &configuration, NULL), HANDOFF_OK);
    open_loop();
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

/* ---- calls ------------------------------------------------------------------------------------
 */

struct answer {
    unsigned told;
    enum handoff_code code;
};

static void note_answer(void *context, const struct handoff_result *result)
{
    struct answer *answer = context;
    answer->told++;
    answer->code = result->error.code;
}

static enum handoff_code until_answered(const struct answer *answer)
{
    while (!answer->told)
        turn();
    return answer->code;
}

static void send_one(const char *task)
{
    char body[256];
    const int size = snprintf(body, sizeof body,
                              "{\"source_agent\":\"analyst\",\"target_agent\":\"coder\","
                              "\"task_id\":\"%s\",\"task_summary\":\"s\"}",
                              task);
    const struct handoff_ask ask = {.body = body, .size = (size_t)size, .respond_async = true};
    struct answer answer = {0};
    handoff_send(stage.loop, &ask, note_answer, &answer);
    assert_int_equal(until_answered(&answer), HANDOFF_OK);
}

struct pulled {
    unsigned told;
    char id[37];
};

static bool on_pulled(void *context, const struct handoff_pulled *got)
{
    struct pulled *pulled = context;
    pulled->told++;
    memcpy(pulled->id, got->id, sizeof pulled->id);
    assert_non_null(got->envelope);
    return true;
}

static void pull_from(const char *agent, struct pulled *pulled)
{
    *pulled = (struct pulled){0};
    handoff_pull(stage.loop, agent, 60000, on_pulled, pulled);
    while (!pulled->told)
        turn();
}

static void hand_on(const char *id, struct answer *answer)
{
    static const char next[] = "{\"target_agent\":\"tester\",\"task_summary\":\"test it\"}";
    const struct handoff_ask ask = {.body = next, .size = sizeof next - 1};
    handoff_hand_on(stage.loop, id, &ask, note_answer, answer);
}

/* ---- the test ---------------------------------------------------------------------------------
 */

/* The extension is being written when the host has no memory for the next request. A loop that is
   new has kept none of an earlier one. */
static bool hand_on_without_memory(long n)
{
    char task[32];
    struct answer extended = {0}, answer = {0};
    struct pulled pulled, successor;
    snprintf(task, sizeof task, "task-%ld", n);
    send_one(task);
    pull_from("coder", &pulled);
    handoff_acknowledge(stage.loop, pulled.id, HANDOFF_ANSWER_EXTEND, "half of it", NULL,
                        note_answer, &extended);
    failing_memory_at(n);
    hand_on(pulled.id, &answer);
    const enum handoff_code code = until_answered(&answer);
    const bool reached = atomic_load(&failing_memory_hit);
    failing_memory_at(0);
    until_answered(&extended);
    if (code != HANDOFF_OK) {
        assert_int_equal(code, HANDOFF_ERR_OUT_OF_MEMORY);
        assert_true(reached);
        answer = (struct answer){0};
        hand_on(pulled.id, &answer);
        assert_int_equal(until_answered(&answer), HANDOFF_OK);
    }
    pull_from("tester", &successor);
    answer = (struct answer){0};
    handoff_acknowledge(stage.loop, successor.id, HANDOFF_ANSWER_ACK, NULL, NULL, note_answer,
                        &answer);
    assert_int_equal(until_answered(&answer), HANDOFF_OK);
    return reached;
}

static void test_whichever_allocation_of_a_next_request_fails(void **state)
{
    (void)state;
    long n = 1;
    while (hand_on_without_memory(n)) {
        handoff_loop_close(&stage.loop);
        open_loop();
        n++;
    }
    assert_true(n > 5);
}

int main(void)
{
    failing_memory_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whichever_allocation_of_a_next_request_fails,
                                        open_client, close_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
