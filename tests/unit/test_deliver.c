/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery, whole: a real store, a real receiver, one lane driven by the test. Each test says what
 * the receiver does and what must come of it, in the store, for the sender and for the observer.
 */
#include "tests/support/delivery_stage.h"

#include "client/agents/circuit.h"

enum { TIMEOUT_MS = 15000, ACK_TIMEOUT_MS = 60000, COOLDOWN_MS = 60000 }; /* the stage's */
enum { DEADLINE_MS = 10000 };                                             /* before any of those */

/* ---- acknowledged --------------------------------------------------------------------------- */

static void test_acknowledged_at_once(void **state)
{
    (void)state;
    static struct sender sender;
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.accepted, 1);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(sender.status.attempts, 1);
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
    char id[BASE_UUID_TEXT], line[96];
    static struct sender sender;
    stage.options[0].bearer_token = "s3cret";
    behave(0, "ack");
    send_and_wait(&sender, "coder");
    base_uuid_format(&sender.submission.id, id);
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
    static struct sender sender;
    behave(0, "503,close,garbage,ack");
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(sender.status.attempts, 4);
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
        static struct sender sender;
        send_and_wait(&sender, "coder");
    }
    assert_int_equal(atomic_load(&receiver.connections) - before, 1);
}

/* ---- not acknowledged ----------------------------------------------------------------------- */

static void test_exhausted_after_three_retries_and_no_wait_after_the_last(void **state)
{
    (void)state;
    static struct sender sender;
    int before = atomic_load(&receiver.requests);
    behave(0, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(atomic_load(&receiver.requests) - before, 4);
    assert_int_equal(sender.status.state, HANDOFF_STATE_PARKED);
    assert_int_equal(sender.status.reason, HANDOFF_REASON_EXHAUSTED);
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
    static const char *const scripts[] = {"503,ack",   "408,ack",   "425,ack",     "429,ack",
                                          "close,ack", "break,ack", "garbage,ack", "long,ack",
                                          "wrong,ack", "bare,ack",  "later,ack"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        static struct sender sender;
        behave(0, scripts[i]);
        send_and_wait(&sender, "coder");
        if (sender.status.state != HANDOFF_STATE_ACKNOWLEDGED || sender.status.attempts != 2)
            fail_msg("%s: %s after %u attempts", scripts[i],
                     handoff_state_name(sender.status.state), sender.status.attempts);
        stage.nevents = 0;
    }
}

/* The receiver has read so many requests. */
static void until_requested(int count)
{
    while (atomic_load(&receiver.requests) < count)
        turn();
}

static void test_silence_times_out_and_is_tried_again(void **state)
{
    (void)state;
    static struct sender sender;
    int before = atomic_load(&receiver.requests);
    behave(0, "silent,ack");
    send_to(&sender, "coder");
    until_requested(before + 1);
    let_pass(TIMEOUT_MS);
    until_settled(&sender);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_TIMEOUT);
    assert_int_equal(row.nrecorded, 2);
}

/* Every kept connection is dead without a word, as after a firewall forgot them: that costs one
   attempt, not one for each. */
static void test_silence_is_tried_again_over_a_new_connection(void **state)
{
    (void)state;
    enum { KEPT = 4 };
    static struct sender first[KEPT], sender;
    behave(0, "once");
    atomic_store(&receiver.once_from, atomic_load(&receiver.connections) + KEPT);
    for (int i = 0; i < KEPT; i++)
        send_to(&first[i], "coder");
    for (int i = 0; i < KEPT; i++)
        until_settled(&first[i]);
    stage.options[0].timeout_ms = 400;
    behave(0, "ack");
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_TIMEOUT);
    assert_int_equal(row.nrecorded, 2);
}

static void test_refused_for_good_at_the_first_answer(void **state)
{
    (void)state;
    static const char *const scripts[] = {"400", "409", "422", "nack"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        static struct sender sender;
        behave(0, scripts[i]);
        send_and_wait(&sender, "coder");
        assert_int_equal(sender.status.state, HANDOFF_STATE_PARKED);
        assert_int_equal(sender.status.reason, HANDOFF_REASON_REFUSED);
        assert_int_equal(sender.status.attempts, 1);
    }
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_REFUSED), 4);
}

static const char *const coder_b[] = {"coder-b"};

/* It is about the agent's settings, so another attempt would be answered alike. */
static void test_rejected_at_the_first_answer(void **state)
{
    (void)state;
    static const char *const scripts[] = {"401", "404", "302", "redirect"};
    stage.options[0].breaker_failures = 0;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        static struct sender sender;
        behave(0, scripts[i]);
        send_and_wait(&sender, "coder");
        assert_int_equal(sender.status.state, HANDOFF_STATE_PARKED);
        assert_int_equal(sender.status.reason, HANDOFF_REASON_REJECTED);
        assert_int_equal(sender.status.attempts, 1);
        struct row row = stored(&sender, HANDOFF_STATE_PARKED);
        assert_string_equal(row.reason, "rejected");
        assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_HTTP);
    }
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_REJECTED), 4);
}

static void test_an_alternate_is_tried_after_a_rejection(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].alternates = coder_b;
    stage.options[0].nalternates = 1;
    behave(0, "404");
    behave(1, "ack");
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 2);
    assert_string_equal(sender.status.target, "coder-b");
}

static void test_rejections_open_the_circuit(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_error error;
    stage.options[0].breaker_failures = 2;
    behave(0, "404,401");
    send_and_wait(&sender, "coder");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.status.reason, HANDOFF_REASON_REJECTED);
    assert_int_equal(try_send(&sender, "coder", &error), HANDOFF_ERR_CIRCUIT_OPEN);
}

static void test_the_nacks_words_are_recorded(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "nack");
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_string_equal(row.recorded[0].error, "no room");
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_NACK);
}

static void test_expires_at_its_deadline(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "silent");
    send_within(&sender, "coder", DEADLINE_MS);
    let_pass(DEADLINE_MS);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_EXPIRED);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXPIRED), 1);
    stored(&sender, HANDOFF_STATE_EXPIRED);
}

/* Sends one that nobody answers; the deadline ends its attempt. */
static void let_expire(struct sender *sender, int64_t deadline_ms)
{
    int before = atomic_load(&receiver.requests);
    behave(0, "silent");
    send_within(sender, "coder", deadline_ms);
    until_requested(before + 1);
    let_pass(deadline_ms);
    until_settled(sender);
    struct row row = stored(sender, HANDOFF_STATE_EXPIRED);
    assert_int_equal(row.nrecorded, 1);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_TIMEOUT);
}

/* An attempt that the deadline cut off early says nothing about the agent, though it be the last.
 */
static void test_a_deadline_that_leaves_no_time_is_not_the_agents_failure(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].retries = 0;
    stage.options[0].breaker_failures = 1;
    let_expire(&sender, 500);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXHAUSTED), 0);
    behave(0, "ack");
    send_and_wait(&sender, "coder"); /* the circuit is closed */
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_an_agent_that_does_not_answer_until_the_deadline_has_failed(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_error error;
    stage.options[0].breaker_failures = 2;
    let_expire(&sender, DEADLINE_MS);
    let_expire(&sender, 1000);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXPIRED), 2);
    assert_int_equal(try_send(&sender, "coder", &error), HANDOFF_ERR_CIRCUIT_OPEN);
}

static void test_a_short_timeout_is_time_enough(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_error error;
    stage.options[0].timeout_ms = 300;
    stage.options[0].breaker_failures = 1;
    let_expire(&sender, 300);
    assert_int_equal(try_send(&sender, "coder", &error), HANDOFF_ERR_CIRCUIT_OPEN);
}

/* The attempt that was acknowledged with a 202 ends with the deadline: it is counted, and recorded
   as what it came to. */
static void test_an_announced_acknowledgement_that_the_deadline_overtakes(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "202");
    send_within(&sender, "coder", DEADLINE_MS);
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    let_pass(DEADLINE_MS);
    until_settled(&sender);
    struct row row = stored(&sender, HANDOFF_STATE_EXPIRED);
    assert_int_equal(row.nrecorded, 1);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_TIMEOUT);
    assert_int_equal(count_results(HANDOFF_RESULT_TIMEOUT), 1);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXPIRED), 1);
}

static void test_retry_after_beyond_the_deadline_is_not_waited_for(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_error error;
    stage.options[0].breaker_failures = 1;
    behave(0, "503wait=60,ack"); /* 60 s */
    send_within(&sender, "coder", 50000);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_EXPIRED);
    assert_int_equal(sender.status.attempts, 1);
    assert_true(base_wall_ms(&base_clock_system) < sender.submission.deadline_ms);
    /* it had its attempt, and failed it */
    assert_int_equal(try_send(&sender, "coder", &error), HANDOFF_ERR_CIRCUIT_OPEN);
}

/* ---- escalation ----------------------------------------------------------------------------- */

static void test_an_alternate_takes_over(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].alternates = coder_b;
    stage.options[0].nalternates = 1;
    stage.options[0].retries = 1;
    behave(0, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(sender.status.target, "coder-b");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(row.target, "coder-b");
    assert_int_equal(row.nrecorded, 3);
    assert_string_equal(row.recorded[1].target, "coder");
    assert_string_equal(row.recorded[2].target, "coder-b");
}

static void test_parked_when_the_alternates_fail_too(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].alternates = coder_b;
    stage.options[0].nalternates = 1;
    behave(0, "503");
    behave(1, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.status.state, HANDOFF_STATE_PARKED);
    assert_int_equal(sender.status.attempts, 8);
    assert_string_equal(sender.status.target, "coder-b");
}

static const char *const both[] = {"coder-b", "reviewer"};

static void escalate_to(const char *const *alternates, size_t count)
{
    stage.options[0].alternates = alternates;
    stage.options[0].nalternates = count;
    stage.options[0].retries = 0;
    behave(0, "503");
}

/* Who was passed over is recorded with why, after the attempts that came before. */
static void test_an_alternate_with_too_small_a_budget_is_passed_over(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[1].token_budget = 99; /* the envelope has 100 */
    escalate_to(both, 1);
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.status.state, HANDOFF_STATE_PARKED);
    assert_string_equal(sender.status.target, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_int_equal(row.nrecorded, 1);
    assert_int_equal(row.attempts, 1);
    assert_string_equal(row.passed_over, "1 coder-b budget_too_small");
}

/* It wants both forms in one document, and this envelope was made for somebody else. */
static void test_an_alternate_that_does_not_read_the_envelope_is_passed_over(void **state)
{
    (void)state;
    static struct sender sender;
    int before = atomic_load(&receiver.requests);
    stage.options[1].accepts = HANDOFF_ACCEPTS_1;
    stage.options[1].emit = HANDOFF_EMIT_DUAL;
    escalate_to(both, 2);
    send_and_wait(&sender, "coder");
    assert_string_equal(sender.status.target, "reviewer");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(row.passed_over, "1 coder-b version");
    assert_int_equal(row.nrecorded, 2);
    assert_int_equal(atomic_load(&receiver.requests) - before, 2);
}

static void test_all_that_were_passed_over_are_recorded_in_order(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[1].token_budget = 99;
    stage.options[2].accepts = HANDOFF_ACCEPTS_1;
    stage.options[2].emit = HANDOFF_EMIT_DUAL;
    escalate_to(both, 2);
    send_and_wait(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_string_equal(row.passed_over, "1 coder-b budget_too_small, 1 reviewer version");
}

/* ---- the breaker ---------------------------------------------------------------------------- */

static void open_the_circuit(void)
{
    behave(0, "503");
    for (int i = 0; i < 3; i++) {
        static struct sender sender;
        send_and_wait(&sender, "coder");
        assert_int_equal(sender.status.reason, HANDOFF_REASON_EXHAUSTED);
    }
}

static void test_an_open_circuit_refuses_at_once_and_others_are_not_touched(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_error error;
    open_the_circuit();
    int before = atomic_load(&receiver.requests);
    assert_int_equal(try_send(&sender, "coder", &error), HANDOFF_ERR_CIRCUIT_OPEN);
    assert_in_range(error.needed, 50000, 60000);
    assert_int_equal(atomic_load(&receiver.requests), before);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_CIRCUIT_OPEN), 1);
    send_and_wait(&sender, "reviewer"); /* one breaker for each agent */
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_an_open_circuit_goes_to_the_alternate(void **state)
{
    (void)state;
    static struct sender sender;
    open_the_circuit();
    stage.options[0].alternates = coder_b;
    stage.options[0].nalternates = 1;
    behave(0, "503");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(sender.status.target, "coder-b");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(row.passed_over, "0 coder circuit_open");
}

/* Two circuits are open, and the third agent takes it; the road is in the store before it acts. */
static void test_the_way_around_open_circuits_is_recorded_at_once(void **state)
{
    (void)state;
    static struct sender sender;
    open_the_circuit();
    behave(1, "503");
    for (int i = 0; i < 3; i++)
        send_and_wait(&sender, "coder-b");
    stage.options[0].alternates = both;
    stage.options[0].nalternates = 2;
    behave(2, "202");
    send_to(&sender, "coder");
    struct row row = stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    assert_string_equal(row.target, "reviewer");
    assert_string_equal(row.passed_over, "0 coder circuit_open, 0 coder-b circuit_open");
    restart();
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "reviewer"), HANDOFF_OK);
    row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 1);
    assert_string_equal(row.passed_over, "0 coder circuit_open, 0 coder-b circuit_open");
}

static void test_a_probe_that_is_answered_closes_the_circuit(void **state)
{
    (void)state;
    static struct sender sender;
    open_the_circuit();
    behave(0, "ack");
    assert_int_equal(try_send(&sender, "coder", NULL), HANDOFF_ERR_CIRCUIT_OPEN);
    let_pass(COOLDOWN_MS);
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    enum handoff_circuit circuits[16];
    size_t count = 0;
    for (size_t i = 0; i < stage.nevents; i++)
        if (stage.events[i].event.kind == HANDOFF_EVENT_CIRCUIT &&
            (count == 0 || circuits[count - 1] != stage.events[i].event.of.circuit.circuit))
            circuits[count++] = stage.events[i].event.of.circuit.circuit;
    assert_int_equal(count, 4); /* the first tells of the count of failures only */
    assert_int_equal(circuits[1], HANDOFF_CIRCUIT_OPEN);
    assert_int_equal(circuits[2], HANDOFF_CIRCUIT_HALF_OPEN);
    assert_int_equal(circuits[3], HANDOFF_CIRCUIT_CLOSED);
}

static void note_saved(void *context, const struct handoff_error *error)
{
    assert_int_equal(error->code, HANDOFF_OK);
    *(bool *)context = true;
}

static void reset(const char *agent)
{
    bool saved = false;
    assert_int_equal(
        handoff_engine_reset(stage.engine, stage.lane, agent, note_saved, &saved, NULL),
        HANDOFF_OK);
    while (!saved)
        turn();
}

static void test_the_breaker_survives_a_restart(void **state)
{
    (void)state;
    static struct sender sender;
    open_the_circuit();
    restart();
    assert_int_equal(try_send(&sender, "coder", NULL), HANDOFF_ERR_CIRCUIT_OPEN);
    reset("coder");
    behave(0, "ack");
    send_and_wait(&sender, "coder");
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(
        handoff_engine_reset(stage.engine, stage.lane, "nobody", note_saved, NULL, NULL),
        HANDOFF_ERR_UNKNOWN_AGENT);
}

/* One lane saw it open and another saw it closed by hand, and the first one is the last to have it
   written: what is stored is what is true. */
static void test_circuits_that_overtake_each_other_are_stored_as_they_are(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_breaker after;
    struct handoff_agent *coder = handoff_agents_find(stage.agents, base_span_text("coder"));
    int64_t now_ms = handoff_lane_now_ms(stage.lane);
    for (int i = 0; i < 3; i++)
        assert_true(handoff_agent_learn(coder, HANDOFF_BREAKER_EXHAUSTED, now_ms, &after));
    assert_int_equal(after.circuit, HANDOFF_CIRCUIT_OPEN);
    reset("coder");
    assert_true(handoff_circuit_save(stage.lane, coder, NULL, NULL));
    restart();
    assert_int_equal(try_send(&sender, "coder", NULL), HANDOFF_OK);
    until_settled(&sender);
}

/* ---- the receiver's later word -------------------------------------------------------------- */

static void test_a_deferred_acknowledgement(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    assert_int_equal(sender.settled, 0);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "analyst"), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "reviewer"), HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(sender.settled, 1);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
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
    static struct sender sender;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    assert_int_equal(say(&sender, HANDOFF_WORD_NACK_FINAL, NULL), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.reason, HANDOFF_REASON_REFUSED);
}

static void test_an_announced_acknowledgement_that_never_comes_is_a_timeout(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "202,ack");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    let_pass(ACK_TIMEOUT_MS);
    until_settled(&sender);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 2);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_TIMEOUT);
    assert_int_equal(count_results(HANDOFF_RESULT_TIMEOUT), 1);
    assert_int_equal(count_results(HANDOFF_RESULT_ACK), 1);
}

static void test_a_late_acknowledgement_ends_the_waiting_for_a_retry(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "503wait=7"); /* waits 7 s for its second attempt */
    send_to(&sender, "coder");
    while (count_moves(HANDOFF_STATE_READY) < 2)
        turn();
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.attempts, 1);
    assert_int_equal(row.recorded[0].status, 503);
}

static void test_a_word_about_nothing(void **state)
{
    (void)state;
    static struct sender sender;
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
    static struct sender sender;
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
    static struct sender sender;
    behave(0, "503,silent");
    send_to(&sender, "coder");
    while (count_moves(HANDOFF_STATE_IN_FLIGHT) < 2)
        turn();
    behave(0, "close,close,ack"); /* the second attempt is made again, and fails */
    restart();
    assert_int_equal(sender.settled, 1);
    assert_int_equal(sender.status.error.code, HANDOFF_ERR_SHUTTING_DOWN);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.attempts, 3);
    assert_int_equal(row.nrecorded, 3);
    assert_int_equal(row.recorded[0].status, 503);
}

static void test_an_awaited_acknowledgement_is_awaited_after_a_restart(void **state)
{
    (void)state;
    static struct sender sender;
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
    static struct sender sender;
    stage.options[0].retries = 0;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    let_pass(ACK_TIMEOUT_MS);
    restart();
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_string_equal(row.reason, "exhausted");
    assert_int_equal(row.attempts, 1);
}

static void test_an_agent_that_left_the_configuration_parks_its_handoffs(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "silent");
    send_to(&sender, "coder");
    while (count_moves(HANDOFF_STATE_IN_FLIGHT) == 0)
        turn();
    stage.options[0].name = "somebody-else";
    restart();
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_string_equal(row.reason, "unknown_agent");
    assert_string_equal(row.target, "coder");
    assert_string_equal(row.passed_over, "0 coder unknown_agent");
}

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
        STAGED(test_silence_is_tried_again_over_a_new_connection),
        STAGED(test_refused_for_good_at_the_first_answer),
        STAGED(test_rejected_at_the_first_answer),
        STAGED(test_an_alternate_is_tried_after_a_rejection),
        STAGED(test_rejections_open_the_circuit),
        STAGED(test_the_nacks_words_are_recorded),
        STAGED(test_expires_at_its_deadline),
        STAGED(test_a_deadline_that_leaves_no_time_is_not_the_agents_failure),
        STAGED(test_an_agent_that_does_not_answer_until_the_deadline_has_failed),
        STAGED(test_a_short_timeout_is_time_enough),
        STAGED(test_an_announced_acknowledgement_that_the_deadline_overtakes),
        STAGED(test_retry_after_beyond_the_deadline_is_not_waited_for),
        STAGED(test_an_alternate_takes_over),
        STAGED(test_parked_when_the_alternates_fail_too),
        STAGED(test_an_alternate_with_too_small_a_budget_is_passed_over),
        STAGED(test_an_alternate_that_does_not_read_the_envelope_is_passed_over),
        STAGED(test_all_that_were_passed_over_are_recorded_in_order),
        STAGED(test_the_way_around_open_circuits_is_recorded_at_once),
        STAGED(test_an_open_circuit_refuses_at_once_and_others_are_not_touched),
        STAGED(test_an_open_circuit_goes_to_the_alternate),
        STAGED(test_a_probe_that_is_answered_closes_the_circuit),
        STAGED(test_the_breaker_survives_a_restart),
        STAGED(test_circuits_that_overtake_each_other_are_stored_as_they_are),
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
