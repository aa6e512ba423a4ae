/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What those who ask are told of a handoff while the store is slow: an acknowledgement at once and
 * whole, any other end when it is written, and until then all as it was before.
 */
#include "tests/support/receiver.h"
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include <poll.h>
#include <sqlite3.h>

#include "client/calls/parked.h"
#include "client/calls/read.h"
#include "client/client.h"

static struct {
    char *directory;
    struct handoff_client *client;
    struct handoff_loop *loop;
    char url[96], id[37];
    unsigned answers;

    /* a job that keeps the writer until the lock is released */
    struct handoff_store_job gate;
    pthread_mutex_t lock;
    bool held, passed;
} stage = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int open_client(void **state)
{
    (void)state;
    stage.directory = temp_directory();
    const struct handoff_options options = {.storage_path = stage.directory,
                                            .encoding = "estimate"};
    assert_int_equal(handoff_client_open(&stage.client, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_loop_open(&stage.loop, stage.client, NULL), HANDOFF_OK);
    return 0;
}

static void turn(void)
{
    int64_t wait = handoff_loop_wait_ms(stage.loop);
    struct pollfd ready = {.fd = handoff_loop_fd(stage.loop), .events = POLLIN};
    poll(&ready, 1, wait < 0 || wait > 1000 ? 1000 : (int)wait);
    handoff_loop_run(stage.loop);
}

static void let_the_writer_go(void)
{
    pthread_mutex_unlock(&stage.lock);
    stage.held = false;
    while (!stage.passed)
        turn();
}

static int close_client(void **state)
{
    (void)state;
    if (stage.held) /* the test failed */
        let_the_writer_go();
    handoff_loop_close(&stage.loop);
    handoff_client_close(&stage.client);
    temp_remove(stage.directory);
    return 0;
}

static void behave(const char *script)
{
    snprintf(stage.url, sizeof stage.url, "http://127.0.0.1:%d/%s", receiver.port, script);
    const struct handoff_agent_options agent = handoff_agent_defaults("coder", stage.url);
    const struct handoff_configuration configuration = {.agents = &agent, .nagents = 1};
    assert_int_equal(handoff_client_configure(stage.client, &configuration, NULL), HANDOFF_OK);
}

static enum handoff_code run_gate(struct handoff_store_job *job, struct handoff_db *db,
                                  struct handoff_error *failure)
{
    (void)job;
    (void)db;
    pthread_mutex_lock(&stage.lock);
    pthread_mutex_unlock(&stage.lock);
    failure->code = HANDOFF_OK;
    return HANDOFF_OK;
}

static void gate_passed(struct handoff_store_job *job)
{
    (void)job;
    stage.passed = true;
}

/* From the moment the handoff is durable, nothing more is written. */
static void accepted(void *context, const struct handoff_result *result)
{
    (void)context;
    stage.answers++;
    assert_int_equal(result->error.code, HANDOFF_OK);
    const char *id = strstr(result->body, "\"id\":\"");
    snprintf(stage.id, sizeof stage.id, "%.36s", id + 6);
    pthread_mutex_lock(&stage.lock);
    stage.held = true;
    stage.passed = false;
    stage.gate = (struct handoff_store_job){
        .mailbox = stage.loop->lane->mailbox, .done = gate_passed, .run = run_gate};
    handoff_store_submit(stage.client->store, &stage.gate);
}

static void send_and_hold_the_writer(void)
{
    static const char body[] = "{\"source_agent\":\"analyst\",\"target_agent\":\"coder\","
                               "\"task_id\":\"t\",\"task_summary\":\"s\"}";
    const struct handoff_ask ask = {.body = body, .size = sizeof body - 1, .respond_async = true};
    stage.answers = 0;
    handoff_send(stage.loop, &ask, accepted, NULL);
    while (!stage.answers)
        turn();
}

static void check(const struct handoff_text *text, const char *state, unsigned attempts,
                  bool settled, const char *reason)
{
    char expected[64];
    snprintf(expected, sizeof expected, "\"state\":\"%s\"", state);
    assert_non_null(strstr(text->data, expected));
    snprintf(expected, sizeof expected, "\"attempts\":%u,", attempts);
    assert_non_null(strstr(text->data, expected));
    assert_int_equal(strstr(text->data, "\"settled_at\":null") == NULL, settled);
    snprintf(expected, sizeof expected, "\"reason\":\"%s\"", reason);
    assert_non_null(strstr(text->data, expected));
}

/* Alone, and in the list of its task. */
static void assert_told(const char *state, unsigned attempts, bool settled, const char *reason)
{
    struct handoff_text text;
    const struct handoff_list_query query = {.task_id = "t"};
    assert_int_equal(handoff_read_handoff(stage.client, stage.id, NULL, &text, NULL), HANDOFF_OK);
    check(&text, state, attempts, settled, reason);
    handoff_text_free(&text);
    assert_int_equal(handoff_read_list(stage.client, &query, &text, NULL), HANDOFF_OK);
    check(&text, state, attempts, settled, reason);
    handoff_text_free(&text);
}

static bool is_state(enum handoff_state state)
{
    struct base_uuid id;
    assert_true(base_uuid_parse(stage.id, 36, &id));
    return handoff_live_state(handoff_engine_live(stage.client->engine), &id) == (int)state;
}

/* As before, until the end is written. */
static void assert_told_when_written(const char *behaviour, enum handoff_state end,
                                     const char *reason)
{
    behave(behaviour);
    send_and_hold_the_writer();
    while (!is_state(end))
        turn();
    assert_told("in_flight", 0, false, "");
    let_the_writer_go();
    while (is_state(end))
        turn();
    assert_told(handoff_state_name(end), 1, true, reason);
}

static void test_an_acknowledgement_is_told_when_it_is_written(void **state)
{
    (void)state;
    assert_told_when_written("ack", HANDOFF_STATE_ACKNOWLEDGED, "");
}

static void test_a_parking_is_told_when_it_is_written(void **state)
{
    (void)state;
    assert_told_when_written("nack", HANDOFF_STATE_PARKED, "refused");
}

static struct handoff_text answer;

static void answered(void *context, const struct handoff_result *result)
{
    (void)context;
    stage.answers++;
    assert_int_equal(result->error.code, HANDOFF_OK);
    answer = (struct handoff_text){.data = strndup(result->body, result->size)};
}

/* The agent that says no is told what its word came to: all of it, and when it is written. */
static void test_the_answer_to_a_word_is_whole(void **state)
{
    (void)state;
    behave("202");
    send_and_hold_the_writer();
    while (!is_state(HANDOFF_STATE_AWAITING_ACK))
        turn();
    stage.answers = 0;
    handoff_acknowledge(stage.loop, stage.id, HANDOFF_ANSWER_REFUSE, "no", "coder", answered, NULL);
    while (!is_state(HANDOFF_STATE_PARKED))
        turn();
    assert_told("in_flight", 0, false, "");
    assert_int_equal(stage.answers, 0);
    let_the_writer_go();
    while (!stage.answers)
        turn();
    check(&answer, "parked", 1, true, "refused");
    free(answer.data);
    assert_told("parked", 1, true, "refused");
}

static void change_rows(const char *sql)
{
    char path[256];
    sqlite3 *database;
    snprintf(path, sizeof path, "%s/handoff.db", stage.directory);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    sqlite3_busy_timeout(database, 60000);
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(database);
}

static void park_two(void)
{
    behave("nack");
    for (int i = 0; i < 2; i++) {
        send_and_hold_the_writer();
        let_the_writer_go();
        while (handoff_client_in_flight(stage.client) > 0 || is_state(HANDOFF_STATE_PARKED))
            turn();
    }
}

/* Where no envelope can be read, one and a list of them are what they were. */
static void test_a_list_reads_no_envelope(void **state)
{
    (void)state;
    struct handoff_text sound_list, sound_item, damaged;
    const struct handoff_parked_query query = {0};
    park_two();
    assert_int_equal(handoff_read_parked(stage.client, &query, &sound_list, NULL), HANDOFF_OK);
    assert_non_null(strstr(sound_list.data, "\"memory_refs\":[],\"missing\":[]"));
    assert_int_equal(handoff_read_handoff(stage.client, stage.id, NULL, &sound_item, NULL),
                     HANDOFF_OK);
    change_rows("UPDATE envelopes SET digest = zeroblob(32)");
    assert_int_equal(handoff_read_parked(stage.client, &query, &damaged, NULL), HANDOFF_OK);
    assert_string_equal(damaged.data, sound_list.data);
    handoff_text_free(&damaged);
    assert_int_equal(handoff_read_handoff(stage.client, stage.id, NULL, &damaged, NULL),
                     HANDOFF_OK);
    assert_string_equal(damaged.data, sound_item.data);
    handoff_text_free(&damaged);
    handoff_text_free(&sound_item);
    handoff_text_free(&sound_list);
}

/* What another version has accepted is told by its envelope, in the same words. */
static void test_a_row_of_another_version_is_told_by_its_envelope(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "UPDATE handoffs SET excerpt = NULL",
        "UPDATE handoffs SET excerpt = '\"envelope_version\":\"2.0\",\"token_count\":1'"};
    struct handoff_text ours, other;
    const struct handoff_parked_query query = {0};
    park_two();
    assert_int_equal(handoff_read_parked(stage.client, &query, &ours, NULL), HANDOFF_OK);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        change_rows(changes[i]);
        assert_int_equal(handoff_read_parked(stage.client, &query, &other, NULL), HANDOFF_OK);
        assert_string_equal(other.data, ours.data);
        handoff_text_free(&other);
    }
    handoff_text_free(&ours);
}

/* Such a one leaves out what only its envelope knows, where that is damaged, and nothing else. */
static void test_a_damaged_envelope_is_listed(void **state)
{
    (void)state;
    static const char *const known[] = {"\"source_agent\":\"analyst\"",
                                        "\"target_agent\":\"coder\"", "\"task_id\":\"t\"",
                                        "\"pattern\":\"direct\"", "\"token_count\":null"};
    struct handoff_text text;
    const struct handoff_parked_query query = {0};
    park_two();
    change_rows("UPDATE handoffs SET excerpt = NULL");
    change_rows("UPDATE envelopes SET digest = zeroblob(32)"
                " WHERE seq = (SELECT max(seq) FROM envelopes)");
    assert_int_equal(handoff_read_handoff(stage.client, stage.id, NULL, &text, NULL), HANDOFF_OK);
    check(&text, "parked", 1, true, "refused");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_non_null(strstr(text.data, known[i]));
    assert_non_null(strstr(text.data, stage.id));
    handoff_text_free(&text);
    assert_int_equal(handoff_read_parked(stage.client, &query, &text, NULL), HANDOFF_OK);
    const char *damaged = strstr(text.data, stage.id);
    assert_non_null(damaged);
    assert_non_null(strstr(damaged, "\"token_count\":null"));
    assert_true(strstr(text.data, "\"token_count\":") < damaged); /* the sound one before it */
    handoff_text_free(&text);
}

#define OPENED(test) cmocka_unit_test_setup_teardown(test, open_client, close_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPENED(test_an_acknowledgement_is_told_when_it_is_written),
        OPENED(test_a_parking_is_told_when_it_is_written),
        OPENED(test_the_answer_to_a_word_is_whole),
        OPENED(test_a_list_reads_no_envelope),
        OPENED(test_a_row_of_another_version_is_told_by_its_envelope),
        OPENED(test_a_damaged_envelope_is_listed),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
