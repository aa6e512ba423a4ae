/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a host that embeds the client, with handoff.h and nothing else: what it may leave out
 * of an agent, what it may not, how it waits, and how it ends without losing anything.
 */
#include "tests/support/unit.h"

#include <string.h>

#include "client/handoff.h"
#include "exporter/config/config.h"
#include "tests/support/receiver.h"
#include "tests/support/temp_store.h"

struct heard {
    int answers;
    enum handoff_code code;
    bool with_body, under_way;
    char moves[512]; /* "accepted in_flight acknowledged", as they happened */
};

static struct {
    char *directory, url[64];
    struct handoff_client *client;
    struct handoff_loop *loop;
    struct heard heard;
} host;

static void observe(void *observer, const struct handoff_event *event)
{
    struct heard *heard = observer;
    if (event->kind != HANDOFF_EVENT_MOVED)
        return;
    size_t used = strlen(heard->moves);
    snprintf(heard->moves + used, sizeof heard->moves - used, "%s%s", used ? " " : "",
             event->of.moved.resumed                      ? "resumed"
             : event->of.moved.from == HANDOFF_STATE_NONE ? "accepted"
                                                          : handoff_state_name(event->of.moved.to));
}

static void answered(void *context, const struct handoff_result *result)
{
    struct heard *heard = context;
    heard->answers++;
    heard->code = result->error.code;
    heard->with_body = result->body != NULL;
    heard->under_way = result->under_way;
}

static void start(const struct handoff_agent_options *agents, size_t count)
{
    const struct handoff_options options = {.storage_path = host.directory,
                                            .durability_none = true,
                                            .encoding = "estimate",
                                            .observe = observe,
                                            .observer = &host.heard};
    const struct handoff_configuration configuration = {.agents = agents, .nagents = count};
    memset(&host.heard, 0, sizeof host.heard);
    assert_int_equal(handoff_start(&host.client, &host.loop, &options, &configuration, NULL),
                     HANDOFF_OK);
}

static void stop(void)
{
    handoff_loop_close(&host.loop);
    handoff_client_close(&host.client);
    assert_null(host.loop);
    assert_null(host.client);
}

static int make_directory(void **state)
{
    (void)state;
    host.directory = temp_directory();
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    temp_remove(host.directory);
    return 0;
}

static struct handoff_agent_options coder(const char *behaviour)
{
    snprintf(host.url, sizeof host.url, "http://127.0.0.1:%d/%s", receiver.port, behaviour);
    return handoff_agent_defaults("coder", host.url);
}

static void send_work(bool respond_async)
{
    static const char body[] = "{\"source_agent\":\"analyst\",\"target_agent\":\"coder\","
                               "\"task_id\":\"t\",\"task_summary\":\"s\"}";
    const struct handoff_ask ask = {
        .body = body, .size = sizeof body - 1, .respond_async = respond_async};
    handoff_send(host.loop, &ask, answered, &host.heard);
}

static void wait_for_answers(void)
{
    while (handoff_loop_pending(host.loop) > 0)
        handoff_loop_wait(host.loop, -1);
}

/* ---- an agent ----------------------------------------------------------------------------------
 */

static void test_defaults_are_those_of_the_configuration_file(void **state)
{
    (void)state;
    static const char text[] = "agents: {coder: {url: \"http://127.0.0.1:1/x\"}}";
    struct exporter_error error = {""};
    struct exporter_config *config =
        exporter_config_load_memory("test.yml", text, sizeof text - 1, &error);
    assert_non_null(config);
    const struct handoff_agent_options *theirs = &config->agents[0].options;
    const struct handoff_agent_options ours = handoff_agent_defaults("coder", theirs->url);
    assert_string_equal(ours.name, "coder");
    assert_ptr_equal(ours.url, theirs->url);
    assert_int_equal(theirs->nalternates, 0);
#define SAME_NUMBER(field)                               assert_int_equal(ours.field, theirs->field);
#define SAME_DURATION(field)                             assert_int_equal(ours.field, theirs->field);
#define SAME_FLAG(field)                                 assert_int_equal(ours.field, theirs->field);
#define SAME_CHOICE(field)                               assert_int_equal(ours.field, theirs->field);
#define SAME_CHOICES(field)                              assert_int_equal(ours.field, theirs->field);
#define SAME_URL(field)                                  assert_ptr_equal(ours.field, theirs->field);
#define SAME_FILE(field)                                 assert_ptr_equal(ours.field, theirs->field);
#define SAME_NAMES(field)                                assert_null(ours.field);
#define SAME_SENDERS(field)                              assert_null(ours.field);
#define HANDOFF_AGENT_KEY(scope, field, path, kind, ...) SAME_##kind(field)
#include "client/model/handoff_agent_keys.def"
    exporter_config_unref(&config);
}

static void refused(struct handoff_agent_options agent, const char *field)
{
    struct handoff_error error;
    const struct handoff_agent_options agents[] = {handoff_agent_defaults("first", NULL), agent};
    const struct handoff_configuration configuration = {.agents = agents, .nagents = 2};
    assert_int_equal(handoff_client_configure(host.client, &configuration, &error),
                     HANDOFF_ERR_INVALID);
    assert_string_equal(error.field, field);
}

static void test_an_agent_that_cannot_be_is_refused(void **state)
{
    (void)state;
    static char long_name[130];
    const struct handoff_agent_options good = handoff_agent_defaults("second", NULL);
    struct handoff_text text;
    memset(long_name, 'x', sizeof long_name - 1);
    start(NULL, 0);
#define REFUSED(member, value)                                                                     \
    do {                                                                                           \
        struct handoff_agent_options bad = good;                                                   \
        bad.member = value;                                                                        \
        refused(bad, #member);                                                                     \
    } while (0)
    REFUSED(name, NULL);
    REFUSED(name, "");
    REFUSED(name, long_name);
    REFUSED(name, "first");
    REFUSED(token_budget, 0);
    REFUSED(timeout_ms, 0);
    REFUSED(ack_timeout_ms, -1);
    REFUSED(breaker_cooldown_ms, -1);
    REFUSED(backoff_base_ms, -1);
    REFUSED(accepts, 0);
    REFUSED(accepts, 4);
#undef REFUSED
    assert_int_equal(handoff_list_agents(host.client, &text, NULL), HANDOFF_OK);
    assert_string_equal(text.data, "{\"items\":[],\"next\":null}"); /* nothing came in force */
    handoff_text_free(&text);
    stop();
}

/* ---- running -----------------------------------------------------------------------------------
 */

static void test_a_wait_of_nothing_is_over_at_once(void **state)
{
    (void)state;
    start(NULL, 0);
    assert_int_equal(handoff_loop_wait_ms(host.loop), -1);
    handoff_loop_wait(host.loop, 0);
    handoff_loop_wait(host.loop, 1);
    stop();
}

static void test_a_handoff_from_the_call_to_its_answer(void **state)
{
    (void)state;
    const struct handoff_agent_options agent = coder("ack");
    start(&agent, 1);
    send_work(false);
    wait_for_answers();
    assert_int_equal(host.heard.answers, 1);
    assert_int_equal(host.heard.code, HANDOFF_OK);
    assert_true(host.heard.with_body && !host.heard.under_way);
    stop();
    assert_string_equal(host.heard.moves, "accepted in_flight acknowledged");
}

/* ---- ending ------------------------------------------------------------------------------------
 */

static void test_a_drain_refuses_what_is_new_and_ends_what_is_not(void **state)
{
    (void)state;
    struct handoff_agent_options agent = coder("503,503,ack");
    agent.backoff_base_ms = agent.backoff_max_ms = 1;
    start(&agent, 1);
    send_work(true);
    wait_for_answers();
    assert_true(host.heard.under_way);
    handoff_client_drain(host.client);
    send_work(false);
    wait_for_answers();
    assert_int_equal(host.heard.code, HANDOFF_ERR_SHUTTING_DOWN);
    assert_false(host.heard.with_body);
    while (handoff_client_in_flight(host.client) > 0)
        handoff_loop_wait(host.loop, -1);
    stop();
    assert_string_equal(host.heard.moves,
                        "accepted in_flight ready in_flight ready in_flight acknowledged");
    start(&agent, 1);
    assert_int_equal(handoff_client_in_flight(host.client), 0); /* its end was written */
    stop();
}

/* What cannot end in time is left for the next start, and told. */
static void test_a_finish_takes_no_longer_than_it_may(void **state)
{
    (void)state;
    struct handoff_agent_options agent = coder("silent");
    start(&agent, 1);
    send_work(true);
    wait_for_answers();
    assert_int_equal(handoff_finish(&host.client, &host.loop, 20), 1);
    agent = coder("ack");
    start(&agent, 1);
    assert_int_equal(handoff_finish(&host.client, &host.loop, 60000), 0);
    assert_null(host.loop);
    assert_null(host.client);
    assert_string_equal(host.heard.moves, "resumed in_flight acknowledged");
    assert_int_equal(handoff_finish(&host.client, &host.loop, 60000), 0); /* nothing is fine */
}

static void test_a_start_that_fails_leaves_nothing_open(void **state)
{
    (void)state;
    const struct handoff_agent_options bad = {.name = "coder"};
    const struct handoff_configuration configuration = {.agents = &bad, .nagents = 1};
    const struct handoff_options options = {.storage_path = host.directory, .encoding = "estimate"};
    const struct handoff_options nowhere = {.encoding = "estimate"};
    struct handoff_error error;
    assert_int_equal(handoff_start(&host.client, &host.loop, &nowhere, &configuration, &error),
                     HANDOFF_ERR_INVALID);
    assert_string_equal(error.field, "storage_path");
    assert_int_equal(handoff_start(&host.client, &host.loop, &options, &configuration, &error),
                     HANDOFF_ERR_INVALID);
    assert_null(host.loop);
    assert_null(host.client);
    start(NULL, 0); /* the store is not locked */
    stop();
}

/* A close without a drain: who waits is told, and the next client goes on. */
static void test_a_close_breaks_off_and_the_next_client_goes_on(void **state)
{
    (void)state;
    struct handoff_agent_options agent = coder("silent");
    start(&agent, 1);
    send_work(false);
    while (handoff_client_attempting(host.client) == 0)
        handoff_loop_wait(host.loop, -1);
    stop();
    assert_int_equal(host.heard.answers, 1);
    assert_int_equal(host.heard.code, HANDOFF_ERR_SHUTTING_DOWN);
    agent = coder("ack");
    start(&agent, 1);
    while (handoff_client_in_flight(host.client) > 0)
        handoff_loop_wait(host.loop, -1);
    stop();
    assert_string_equal(host.heard.moves, "resumed in_flight acknowledged");
}

#define HOSTED(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_those_of_the_configuration_file),
        HOSTED(test_an_agent_that_cannot_be_is_refused),
        HOSTED(test_a_wait_of_nothing_is_over_at_once),
        HOSTED(test_a_handoff_from_the_call_to_its_answer),
        HOSTED(test_a_drain_refuses_what_is_new_and_ends_what_is_not),
        HOSTED(test_a_finish_takes_no_longer_than_it_may),
        HOSTED(test_a_start_that_fails_leaves_nothing_open),
        HOSTED(test_a_close_breaks_off_and_the_next_client_goes_on),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
