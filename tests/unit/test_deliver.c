/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery, whole: a real store, a real receiver, one lane driven by the test. Each test says what
 * the receiver does and what must come of it, in the store, for the sender and for the observer.
 */
#include "tests/support/receiver.h"
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include <poll.h>

#include "client/deliver/engine.h"

/* ---- the stage ------------------------------------------------------------------------------ */

enum { EVENTS_MAX = 256 };

struct seen {
    struct handoff_delivery_event event; /* its texts are gone, but for the static ones */
    char target[32];
};

static struct {
    char *directory;
    struct handoff_store *store;
    struct handoff_agents *agents;
    struct handoff_engine *engine;
    struct handoff_lane *lane;
    struct handoff_uuid_source ids;
    struct handoff_agent_options options[3]; /* coder, coder-b, reviewer */
    char urls[3][96];
    unsigned max_in_flight, max_per_agent;
    struct seen events[EVENTS_MAX];
    size_t nevents;
} stage;

static void zeros(const struct handoff_random *random, void *bytes, size_t size)
{
    (void)random;
    memset(bytes, 0, size);
}
static const struct handoff_random no_jitter = {zeros}; /* each draw is 0: retries follow at once */

static void watch(void *unused, const struct handoff_delivery_event *event)
{
    (void)unused;
    assert_true(stage.nevents < EVENTS_MAX);
    struct seen *seen = &stage.events[stage.nevents++];
    seen->event = *event;
    snprintf(seen->target, sizeof seen->target, "%s", event->target);
}

static void open_engine(void)
{
    struct handoff_store_options store = {.path = stage.directory};
    struct handoff_error error;
    if (handoff_store_open(&stage.store, &store, &error) != HANDOFF_OK)
        fail_msg("%s", error.message);
    assert_int_equal(handoff_agents_new(&stage.agents, NULL), HANDOFF_OK);
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
    struct handoff_engine_options options = {
        .store = stage.store,
        .agents = stage.agents,
        .clock = &handoff_clock_system,
        .random = &no_jitter,
        .max_in_flight = stage.max_in_flight,
        .max_in_flight_per_agent = stage.max_per_agent,
        .observe = watch,
    };
    assert_int_equal(handoff_engine_new(&stage.engine, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_engine_restore(stage.engine, NULL), HANDOFF_OK);
    assert_int_equal(handoff_lane_new(&stage.lane, stage.engine, NULL), HANDOFF_OK);
    assert_int_equal(handoff_engine_resume(stage.engine, &stage.lane, 1, NULL), HANDOFF_OK);
}

static void close_engine(void)
{
    handoff_lane_free(&stage.lane);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
    handoff_engine_free(&stage.engine);
    handoff_agents_free(&stage.agents);
    handoff_store_close(&stage.store);
}

/* As after a crash: what was in memory is gone, what was in the store is there. */
static void restart(void)
{
    close_engine();
    stage.nevents = 0;
    open_engine();
}

static void behave(int agent, const char *script)
{
    snprintf(stage.urls[agent], sizeof stage.urls[agent], "http://127.0.0.1:%d/%s", receiver.port,
             script);
    stage.options[agent].url = stage.urls[agent];
    if (stage.agents)
        assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL),
                         HANDOFF_OK);
}

static int set_up(void **state)
{
    (void)state;
    static const char *const names[] = {"coder", "coder-b", "reviewer"};
    memset(&stage, 0, sizeof stage);
    stage.directory = temp_directory();
    handoff_uuid_source_init(&stage.ids, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        stage.options[i] = (struct handoff_agent_options){.name = names[i],
                                                          .token_budget = 8000,
                                                          .timeout_ms = 15000,
                                                          .ack_timeout_ms = 60000,
                                                          .retries = 3,
                                                          .breaker_failures = 3,
                                                          .breaker_cooldown_ms = 60000,
                                                          .backoff_base_ms = 1000,
                                                          .backoff_max_ms = 30000};
        behave(i, "ack");
    }
    open_engine();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_engine();
    temp_remove(stage.directory);
    return 0;
}

static void turn(void)
{
    int64_t wait = handoff_lane_wait_ms(stage.lane);
    struct pollfd ready = {.fd = handoff_lane_fd(stage.lane), .events = POLLIN};
    poll(&ready, 1, wait < 0 || wait > 1000 ? 1000 : (int)wait);
    handoff_lane_run(stage.lane);
}

/* ---- senders -------------------------------------------------------------------------------- */

struct sender {
    struct handoff_waiter waiter; /* first */
    struct handoff_store_put_envelope envelope;
    struct handoff_parcel parcel;
    unsigned accepted, settled;
    struct handoff_news news; /* the last */
};

static void on_accepted(struct handoff_waiter *waiter, const struct handoff_news *news)
{
    struct sender *sender = (struct sender *)waiter;
    sender->accepted++;
    sender->news = *news;
    struct handoff_arena arena; /* accepted means durable */
    struct handoff_stored stored;
    handoff_arena_init(&arena, 0);
    assert_int_equal(
        handoff_store_get_handoff(stage.store, &sender->parcel.id, &arena, &stored, NULL),
        HANDOFF_OK);
    handoff_arena_free(&arena);
}

static void on_settled(struct handoff_waiter *waiter, const struct handoff_news *news)
{
    struct sender *sender = (struct sender *)waiter;
    sender->settled++;
    sender->news = *news;
}

static void prepare(struct sender *sender, const char *target, int64_t deadline_in_ms)
{
    memset(sender, 0, sizeof *sender);
    sender->waiter.accepted = on_accepted;
    sender->waiter.settled = on_settled;
    temp_envelope(&sender->envelope, &stage.ids, "task-1", 500);
    sender->parcel = (struct handoff_parcel){
        .id = sender->envelope.id,
        .envelope = sender->envelope.body,
        .cut_at = sender->envelope.cut_at,
        .cut_size = sender->envelope.cut_size,
        .task_id = sender->envelope.task_id,
        .source = handoff_span_text("analyst"),
        .target = handoff_span_text(target),
        .created_ms = sender->envelope.created_ms,
        .deadline_ms = deadline_in_ms ? handoff_wall_ms(&handoff_clock_system) + deadline_in_ms : 0,
        .tokens = 100,
        .traceparent = handoff_span_text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    };
    memcpy(sender->parcel.digest, sender->envelope.digest, sizeof sender->parcel.digest);
}

static enum handoff_code try_send(struct sender *sender, const char *target,
                                  struct handoff_error *error)
{
    prepare(sender, target, 0);
    enum handoff_code code =
        handoff_engine_deliver(stage.lane, &sender->parcel, &sender->waiter, error);
    temp_envelope_free(&sender->envelope); /* the engine has its own copy */
    return code;
}

static void send_to(struct sender *sender, const char *target)
{
    assert_int_equal(try_send(sender, target, NULL), HANDOFF_OK);
    assert_int_equal(sender->accepted + sender->settled, 0); /* never from within the call */
}

static void until_settled(struct sender *sender)
{
    while (!sender->settled)
        turn();
}

static void send_and_wait(struct sender *sender, const char *target)
{
    send_to(sender, target);
    until_settled(sender);
}

/* ---- looking -------------------------------------------------------------------------------- */

struct row {
    enum handoff_state state;
    uint32_t attempts;
    char target[32], reason[32];
    size_t nrecorded;
    struct {
        int result, status;
        char target[32], error[200];
    } recorded[16];
};

/* false: it is not accepted yet */
static bool read_row(const struct sender *sender, struct row *row)
{
    struct handoff_arena arena;
    struct handoff_stored found;
    struct handoff_attempt *attempts;
    memset(row, 0, sizeof *row);
    handoff_arena_init(&arena, 0);
    bool there = handoff_store_get_handoff(stage.store, &sender->parcel.id, &arena, &found, NULL) ==
                 HANDOFF_OK;
    if (there) {
        assert_int_equal(handoff_store_attempts(stage.store, found.seq, &arena, &attempts,
                                                &row->nrecorded, NULL),
                         HANDOFF_OK);
        row->state = (enum handoff_state)found.standing.state;
        row->attempts = found.standing.attempts;
        snprintf(row->target, sizeof row->target, "%s", found.standing.target.data);
        snprintf(row->reason, sizeof row->reason, "%s", found.standing.reason.data);
    }
    for (size_t i = 0; i < row->nrecorded; i++) {
        assert_int_equal(attempts[i].number, i + 1);
        row->recorded[i].result = attempts[i].result;
        row->recorded[i].status = attempts[i].status;
        snprintf(row->recorded[i].target, 32, "%s", attempts[i].target.data);
        snprintf(row->recorded[i].error, 200, "%s", attempts[i].error.data);
    }
    handoff_arena_free(&arena);
    return there;
}

/* Turns until the store has the handoff in this state, then answers its row. */
static struct row stored(const struct sender *sender, enum handoff_state state)
{
    struct row row;
    while (!read_row(sender, &row) || row.state != state)
        turn();
    return row;
}

static unsigned count_moves(enum handoff_state to)
{
    unsigned count = 0;
    for (size_t i = 0; i < stage.nevents; i++)
        count += stage.events[i].event.happened == HANDOFF_HAPPENED_MOVE &&
                 stage.events[i].event.to == to;
    return count;
}

static unsigned count_results(enum handoff_attempt_result result)
{
    unsigned count = 0;
    for (size_t i = 0; i < stage.nevents; i++)
        count += stage.events[i].event.has_attempt && stage.events[i].event.result == result;
    return count;
}

static unsigned count_outcomes(enum handoff_outcome outcome)
{
    unsigned count = 0;
    for (size_t i = 0; i < stage.nevents; i++)
        count += stage.events[i].event.outcome == outcome;
    return count;
}

/* ---- acknowledged --------------------------------------------------------------------------- */

static void test_acknowledged_at_once(void **state)
{
    (void)state;
    struct sender sender;
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.accepted, 1);
    assert_int_equal(sender.news.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(sender.news.attempts, 1);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 1);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_ACK);
    assert_int_equal(row.recorded[0].status, 200);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_ACKNOWLEDGED), 1);
    assert_int_equal(count_results(HANDOFF_RESULT_ACK), 1);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
}

static void test_the_receiver_gets_its_headers(void **state)
{
    (void)state;
    char id[HANDOFF_UUID_TEXT], line[96];
    struct sender sender;
    stage.options[0].bearer_token = "s3cret";
    behave(0, "ack");
    send_and_wait(&sender, "coder");
    handoff_uuid_format(&sender.parcel.id, id);
    pthread_mutex_lock(&receiver.lock);
    const char *head = receiver.last_head;
    snprintf(line, sizeof line, "\r\nHandoff-Id: %s\r\n", id);
    assert_non_null(strstr(head, line));
    snprintf(line, sizeof line, "\r\nIdempotency-Key: %s\r\n", id);
    assert_non_null(strstr(head, line));
    assert_non_null(strstr(head, "\r\nHandoff-Attempt: 1\r\n"));
    assert_non_null(strstr(head, "\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-"));
    assert_non_null(strstr(head, "\r\nAuthorization: Bearer s3cret\r\n"));
    assert_non_null(
        strstr(head, "\r\nContent-Type: application/vnd.handoff.envelope+json; version=2.0\r\n"));
    pthread_mutex_unlock(&receiver.lock);
}

static void test_tried_again_until_acknowledged(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "503,close,garbage,ack");
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(sender.news.attempts, 4);
    assert_int_equal(row.nrecorded, 4);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_HTTP);
    assert_int_equal(row.recorded[0].status, 503);
    assert_int_equal(row.recorded[1].result, HANDOFF_RESULT_PROTOCOL);
    assert_int_equal(row.recorded[2].result, HANDOFF_RESULT_PROTOCOL);
    assert_int_equal(row.recorded[3].result, HANDOFF_RESULT_ACK);
}

static void test_one_connection_serves_many(void **state)
{
    (void)state;
    int before = atomic_load(&receiver.connections);
    for (int i = 0; i < 10; i++) {
        struct sender sender;
        send_and_wait(&sender, "coder");
    }
    assert_int_equal(atomic_load(&receiver.connections) - before, 1);
}

/* ---- not acknowledged ----------------------------------------------------------------------- */

static void test_exhausted_after_three_retries_and_no_wait_after_the_last(void **state)
{
    (void)state;
    struct sender sender;
    int before = atomic_load(&receiver.requests);
    behave(0, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(atomic_load(&receiver.requests) - before, 4);
    assert_int_equal(sender.news.state, HANDOFF_STATE_PARKED);
    assert_string_equal(sender.news.reason, "exhausted");
    struct row row; /* the sender was told after it was written */
    assert_true(read_row(&sender, &row));
    assert_int_equal(row.state, HANDOFF_STATE_PARKED);
    assert_string_equal(row.reason, "exhausted");
    assert_int_equal(row.nrecorded, 4);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXHAUSTED), 1);
    assert_int_equal(count_results(HANDOFF_RESULT_HTTP), 4);
}

static void test_every_transient_failure_is_tried_again(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "503,ack",     "408,ack",  "425,ack",   "429,ack",  "302,ack",   "close,ack",   "break,ack",
        "garbage,ack", "long,ack", "wrong,ack", "bare,ack", "later,ack", "redirect,ack"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct sender sender;
        behave(0, scripts[i]);
        send_and_wait(&sender, "coder");
        if (sender.news.state != HANDOFF_STATE_ACKNOWLEDGED || sender.news.attempts != 2)
            fail_msg("%s: %s after %u attempts", scripts[i], handoff_state_name(sender.news.state),
                     sender.news.attempts);
        stage.nevents = 0;
    }
}

static void test_silence_times_out_and_is_tried_again(void **state)
{
    (void)state;
    struct sender sender;
    stage.options[0].timeout_ms = 60;
    behave(0, "silent,ack");
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_TIMEOUT);
    assert_int_equal(row.nrecorded, 2);
}

static void test_refused_for_good_at_the_first_answer(void **state)
{
    (void)state;
    static const char *const scripts[] = {"400", "401", "404", "nack"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct sender sender;
        behave(0, scripts[i]);
        send_and_wait(&sender, "coder");
        assert_int_equal(sender.news.state, HANDOFF_STATE_PARKED);
        assert_string_equal(sender.news.reason, "refused");
        assert_int_equal(sender.news.attempts, 1);
    }
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_REFUSED), 4);
}

static void test_the_nacks_words_are_recorded(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "nack");
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_string_equal(row.recorded[0].error, "no room");
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_NACK);
}

static void test_expires_at_its_deadline(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "silent");
    prepare(&sender, "coder", 80);
    assert_int_equal(handoff_engine_deliver(stage.lane, &sender.parcel, &sender.waiter, NULL),
                     HANDOFF_OK);
    temp_envelope_free(&sender.envelope);
    until_settled(&sender);
    assert_int_equal(sender.news.state, HANDOFF_STATE_EXPIRED);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXPIRED), 1);
    stored(&sender, HANDOFF_STATE_EXPIRED);
}

static void test_retry_after_beyond_the_deadline_is_not_waited_for(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "503wait,ack"); /* 7 s */
    prepare(&sender, "coder", 5000);
    assert_int_equal(handoff_engine_deliver(stage.lane, &sender.parcel, &sender.waiter, NULL),
                     HANDOFF_OK);
    temp_envelope_free(&sender.envelope);
    until_settled(&sender);
    assert_int_equal(sender.news.state, HANDOFF_STATE_EXPIRED);
    assert_int_equal(sender.news.attempts, 1);
    assert_true(handoff_wall_ms(&handoff_clock_system) < sender.parcel.deadline_ms);
}

/* ---- escalation ----------------------------------------------------------------------------- */

static const char *const coder_b[] = {"coder-b"};

static void test_an_alternate_takes_over(void **state)
{
    (void)state;
    struct sender sender;
    stage.options[0].alternates = coder_b;
    stage.options[0].nalternates = 1;
    stage.options[0].retries = 1;
    behave(0, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.news.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(sender.news.target, "coder-b");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(row.target, "coder-b");
    assert_int_equal(row.nrecorded, 3);
    assert_string_equal(row.recorded[1].target, "coder");
    assert_string_equal(row.recorded[2].target, "coder-b");
}

static void test_parked_when_the_alternates_fail_too(void **state)
{
    (void)state;
    struct sender sender;
    stage.options[0].alternates = coder_b;
    stage.options[0].nalternates = 1;
    behave(0, "503");
    behave(1, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.news.state, HANDOFF_STATE_PARKED);
    assert_int_equal(sender.news.attempts, 8);
    assert_string_equal(sender.news.target, "coder-b");
}

static void test_an_alternate_with_too_small_a_budget_is_passed_over(void **state)
{
    (void)state;
    struct sender sender;
    stage.options[0].alternates = coder_b;
    stage.options[0].nalternates = 1;
    stage.options[1].token_budget = 99; /* the envelope has 100 */
    behave(0, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.news.state, HANDOFF_STATE_PARKED);
    assert_string_equal(sender.news.target, "coder");
}

/* ---- the breaker ---------------------------------------------------------------------------- */

static void open_the_circuit(void)
{
    behave(0, "503");
    for (int i = 0; i < 3; i++) {
        struct sender sender;
        send_and_wait(&sender, "coder");
        assert_string_equal(sender.news.reason, "exhausted");
    }
}

static void test_an_open_circuit_refuses_at_once_and_others_are_not_touched(void **state)
{
    (void)state;
    struct sender sender;
    struct handoff_error error;
    open_the_circuit();
    int before = atomic_load(&receiver.requests);
    assert_int_equal(try_send(&sender, "coder", &error), HANDOFF_ERR_CIRCUIT_OPEN);
    assert_in_range(error.needed, 50000, 60000);
    assert_int_equal(atomic_load(&receiver.requests), before);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_CIRCUIT_OPEN), 1);
    send_and_wait(&sender, "reviewer"); /* one breaker for each agent */
    assert_int_equal(sender.news.state, HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_an_open_circuit_goes_to_the_alternate(void **state)
{
    (void)state;
    struct sender sender;
    open_the_circuit();
    stage.options[0].alternates = coder_b;
    stage.options[0].nalternates = 1;
    behave(0, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.news.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(sender.news.target, "coder-b");
}

static void test_a_probe_that_is_answered_closes_the_circuit(void **state)
{
    (void)state;
    struct sender sender;
    stage.options[0].breaker_cooldown_ms = 30;
    open_the_circuit();
    behave(0, "ack");
    while (try_send(&sender, "coder", NULL) == HANDOFF_ERR_CIRCUIT_OPEN)
        turn();
    until_settled(&sender);
    assert_int_equal(sender.news.state, HANDOFF_STATE_ACKNOWLEDGED);
    enum handoff_circuit circuits[16];
    size_t count = 0;
    for (size_t i = 0; i < stage.nevents; i++)
        if (stage.events[i].event.happened == HANDOFF_HAPPENED_CIRCUIT &&
            (count == 0 || circuits[count - 1] != stage.events[i].event.circuit))
            circuits[count++] = stage.events[i].event.circuit;
    assert_int_equal(count, 4); /* the first tells of the count of failures only */
    assert_int_equal(circuits[1], HANDOFF_CIRCUIT_OPEN);
    assert_int_equal(circuits[2], HANDOFF_CIRCUIT_HALF_OPEN);
    assert_int_equal(circuits[3], HANDOFF_CIRCUIT_CLOSED);
}

static void test_the_breaker_survives_a_restart(void **state)
{
    (void)state;
    struct sender sender;
    open_the_circuit();
    restart();
    assert_int_equal(try_send(&sender, "coder", NULL), HANDOFF_ERR_CIRCUIT_OPEN);
    assert_true(handoff_engine_reset(stage.engine, stage.lane, handoff_span_text("coder")));
    behave(0, "ack");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.news.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_false(handoff_engine_reset(stage.engine, stage.lane, handoff_span_text("nobody")));
}

/* ---- the receiver's later word -------------------------------------------------------------- */

struct speaker {
    struct handoff_reply reply; /* first */
    unsigned told;
};

static void on_told(struct handoff_reply *reply)
{
    ((struct speaker *)reply)->told++;
}

static enum handoff_code say(const struct sender *about, enum handoff_word word, const char *agent)
{
    struct speaker speaker = {.reply = {.lane = stage.lane,
                                        .told = on_told,
                                        .id = about->parcel.id,
                                        .word = word,
                                        .agent = handoff_span_text(agent)}};
    handoff_engine_reply(stage.engine, &speaker.reply);
    while (!speaker.told)
        turn();
    return speaker.reply.error.code;
}

static void test_a_deferred_acknowledgement(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    assert_int_equal(sender.settled, 0);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "reviewer"), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(sender.settled, 1);
    assert_int_equal(sender.news.state, HANDOFF_STATE_ACKNOWLEDGED);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.attempts, 1);
    assert_int_equal(count_results(HANDOFF_RESULT_ACK), 1);
    /* said again: harmless; the contrary: too late */
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(say(&sender, HANDOFF_WORD_NACK_FINAL, "coder"), HANDOFF_ERR_CONFLICT);
}

static void test_a_deferred_refusal(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    assert_int_equal(say(&sender, HANDOFF_WORD_NACK_FINAL, NULL), HANDOFF_OK);
    until_settled(&sender);
    assert_string_equal(sender.news.reason, "refused");
}

static void test_an_announced_acknowledgement_that_never_comes_is_a_timeout(void **state)
{
    (void)state;
    struct sender sender;
    stage.options[0].ack_timeout_ms = 20;
    behave(0, "202,ack");
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 2);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_TIMEOUT);
    assert_int_equal(count_results(HANDOFF_RESULT_TIMEOUT), 1);
    assert_int_equal(count_results(HANDOFF_RESULT_ACK), 1);
}

static void test_a_late_acknowledgement_ends_the_waiting_for_a_retry(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "503wait"); /* waits 7 s for its second attempt */
    send_to(&sender, "coder");
    while (count_moves(HANDOFF_STATE_READY) < 2)
        turn();
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.news.state, HANDOFF_STATE_ACKNOWLEDGED);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.attempts, 1);
    assert_int_equal(row.recorded[0].status, 503);
}

static void test_a_word_about_nothing(void **state)
{
    (void)state;
    struct sender sender;
    prepare(&sender, "coder", 0);
    temp_envelope_free(&sender.envelope);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, NULL), HANDOFF_ERR_NOT_FOUND);
}

/* ---- limits --------------------------------------------------------------------------------- */

static void test_refused_before_anything_is_stored(void **state)
{
    (void)state;
    static struct sender first, second, other; /* still waiting when the engine is closed */
    struct handoff_store_stats before, after;
    close_engine();
    stage.max_in_flight = 2;
    stage.max_per_agent = 1;
    behave(0, "silent");
    behave(2, "silent");
    open_engine();
    send_to(&first, "coder");
    while (!first.accepted)
        turn();
    handoff_store_stats(stage.store, &before);
    assert_int_equal(try_send(&second, "coder", NULL), HANDOFF_ERR_TOO_MANY_IN_FLIGHT);
    assert_int_equal(try_send(&second, "nobody", NULL), HANDOFF_ERR_UNKNOWN_AGENT);
    handoff_store_stats(stage.store, &after);
    assert_int_equal(before.jobs, after.jobs);
    send_to(&other, "reviewer");
    assert_int_equal(try_send(&second, "coder-b", NULL), HANDOFF_ERR_TOO_MANY_IN_FLIGHT);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 2);
    handoff_engine_drain(stage.engine);
    assert_int_equal(try_send(&second, "coder-b", NULL), HANDOFF_ERR_SHUTTING_DOWN);
}

static void test_a_sender_may_stop_waiting(void **state)
{
    (void)state;
    struct sender sender;
    send_to(&sender, "coder");
    handoff_waiter_withdraw(&sender.waiter);
    while (count_moves(HANDOFF_STATE_ACKNOWLEDGED) == 0)
        turn();
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(sender.accepted + sender.settled, 0);
}

/* ---- restarts ------------------------------------------------------------------------------- */

static void test_what_was_in_flight_is_delivered_after_a_restart(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "503,silent");
    send_to(&sender, "coder");
    while (count_moves(HANDOFF_STATE_IN_FLIGHT) < 2)
        turn();
    behave(0, "close,close,ack"); /* the second attempt is made again, and fails */
    restart();
    assert_int_equal(sender.settled, 1);
    assert_int_equal(sender.news.error.code, HANDOFF_ERR_SHUTTING_DOWN);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.attempts, 3);
    assert_int_equal(row.nrecorded, 3);
    assert_int_equal(row.recorded[0].status, 503);
}

static void test_an_awaited_acknowledgement_is_awaited_after_a_restart(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    int before = atomic_load(&receiver.requests);
    restart();
    assert_int_equal(handoff_engine_in_flight(stage.engine), 1);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(atomic_load(&receiver.requests), before);
}

static void test_a_passed_ack_timeout_counts_after_a_restart(void **state)
{
    (void)state;
    struct sender sender;
    stage.options[0].ack_timeout_ms = 1;
    behave(0, "202");
    stage.options[0].retries = 0;
    behave(0, "202");
    send_to(&sender, "coder");
    while (count_moves(HANDOFF_STATE_AWAITING_ACK) == 0)
        turn();
    restart();
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_string_equal(row.reason, "exhausted");
    assert_int_equal(row.attempts, 1);
}

static void test_an_agent_that_left_the_configuration_parks_its_handoffs(void **state)
{
    (void)state;
    struct sender sender;
    behave(0, "silent");
    send_to(&sender, "coder");
    while (count_moves(HANDOFF_STATE_IN_FLIGHT) == 0)
        turn();
    stage.options[0].name = "somebody-else";
    restart();
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_string_equal(row.reason, "unknown_agent");
    assert_string_equal(row.target, "coder");
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(test_acknowledged_at_once),
        STAGED(test_the_receiver_gets_its_headers),
        STAGED(test_tried_again_until_acknowledged),
        STAGED(test_one_connection_serves_many),
        STAGED(test_exhausted_after_three_retries_and_no_wait_after_the_last),
        STAGED(test_every_transient_failure_is_tried_again),
        STAGED(test_silence_times_out_and_is_tried_again),
        STAGED(test_refused_for_good_at_the_first_answer),
        STAGED(test_the_nacks_words_are_recorded),
        STAGED(test_expires_at_its_deadline),
        STAGED(test_retry_after_beyond_the_deadline_is_not_waited_for),
        STAGED(test_an_alternate_takes_over),
        STAGED(test_parked_when_the_alternates_fail_too),
        STAGED(test_an_alternate_with_too_small_a_budget_is_passed_over),
        STAGED(test_an_open_circuit_refuses_at_once_and_others_are_not_touched),
        STAGED(test_an_open_circuit_goes_to_the_alternate),
        STAGED(test_a_probe_that_is_answered_closes_the_circuit),
        STAGED(test_the_breaker_survives_a_restart),
        STAGED(test_a_deferred_acknowledgement),
        STAGED(test_a_deferred_refusal),
        STAGED(test_an_announced_acknowledgement_that_never_comes_is_a_timeout),
        STAGED(test_a_late_acknowledgement_ends_the_waiting_for_a_retry),
        STAGED(test_a_word_about_nothing),
        STAGED(test_refused_before_anything_is_stored),
        STAGED(test_a_sender_may_stop_waiting),
        STAGED(test_what_was_in_flight_is_delivered_after_a_restart),
        STAGED(test_an_awaited_acknowledgement_is_awaited_after_a_restart),
        STAGED(test_a_passed_ack_timeout_counts_after_a_restart),
        STAGED(test_an_agent_that_left_the_configuration_parks_its_handoffs),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
