/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock is set while a handoff waits: what began in this process ends when it would have
 * ended, and what a restart finds is read off the clock as it stands then.
 */
#include "tests/support/delivery_stage.h"

#include "client/protocol/pull/inbox.h"
#include "lib/base/memory.h"

enum { HOUR_MS = 3600 * 1000, WAIT_MS = 10000, SOON_MS = 40 };

static void ones(const struct base_random *random, void *bytes, size_t size)
{
    (void)random;
    memset(bytes, 0xff, size);
}
static const struct base_random full_jitter = {ones}; /* each draw is nearly the longest */

static int set_up_clock(void **state)
{
    if (set_up(state) != 0)
        return -1;
    close_engine();
    stage.random = &full_jitter;
    stage.options[0].backoff_base_ms = stage.options[0].backoff_max_ms = SOON_MS;
    open_engine();
    return 0;
}

#define SET(test) cmocka_unit_test_setup_teardown(test, set_up_clock, tear_down)

static bool is_live(const struct sender *sender, enum handoff_state state)
{
    return handoff_live_state(handoff_engine_live(stage.engine), &sender->submission.id) ==
           (int)state;
}

/* The attempt's end is known to all, and not on the disk yet. */
static void send_until(struct sender *sender, enum handoff_state state, int64_t deadline_in_ms)
{
    send_within(sender, "coder", deadline_in_ms);
    while (count_moves(HANDOFF_STATE_IN_FLIGHT) == 0 || !is_live(sender, state))
        turn();
}

static void test_the_wait_for_an_acknowledgement(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].ack_timeout_ms = WAIT_MS;
    behave(0, "202,ack");
    send_until(&sender, HANDOFF_STATE_AWAITING_ACK, 0);
    set_wall_by(-HOUR_MS);
    let_pass(WAIT_MS);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 2);
}

static void test_the_wait_for_an_acknowledgement_is_not_cut_short(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].ack_timeout_ms = WAIT_MS;
    behave(0, "202,ack");
    send_until(&sender, HANDOFF_STATE_AWAITING_ACK, 0);
    set_wall_by(HOUR_MS);
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    turn(); /* what is due would end */
    assert_int_equal(count_results(HANDOFF_RESULT_TIMEOUT), 0);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 1);
}

static void test_the_wait_for_another_attempt(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].backoff_base_ms = stage.options[0].backoff_max_ms = WAIT_MS;
    behave(0, "503,ack");
    send_until(&sender, HANDOFF_STATE_READY, 0);
    set_wall_by(-HOUR_MS);
    let_pass(WAIT_MS);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 2);
}

static void test_retry_after_is_not_cut_short(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "503wait=60,ack"); /* a minute */
    send_until(&sender, HANDOFF_STATE_READY, 0);
    set_wall_by(HOUR_MS);
    while (stored(&sender, HANDOFF_STATE_READY).attempts == 0)
        turn();
    turn(); /* what is due would be begun */
    assert_int_equal(count_moves(HANDOFF_STATE_IN_FLIGHT), 1);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
}

static void test_a_deadline_is_not_put_off(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "silent");
    send_until(&sender, HANDOFF_STATE_IN_FLIGHT, WAIT_MS);
    set_wall_by(-HOUR_MS);
    let_pass(WAIT_MS);
    struct row row = stored(&sender, HANDOFF_STATE_EXPIRED);
    assert_int_equal(row.attempts, 1);
}

static void test_a_deadline_is_not_brought_forward(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].backoff_base_ms = stage.options[0].backoff_max_ms = WAIT_MS;
    behave(0, "503,ack");
    send_until(&sender, HANDOFF_STATE_READY, 3 * WAIT_MS);
    set_wall_by(HOUR_MS);
    let_pass(WAIT_MS);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 2);
}

struct poller {
    struct handoff_poller_request request; /* first */
    unsigned told;
};

static void on_poll_told(struct handoff_poller_request *request)
{
    ((struct poller *)request)->told++;
}

/* Which attempt was handed out; 0: none within the wait. */
static unsigned pull(int64_t wait_ms)
{
    struct poller poller = {
        .request = {.lane = stage.lane,
                    .agent = handoff_agents_find(stage.agents, base_span_text("coder")),
                    .told = on_poll_told}};
    handoff_inbox_poll(&poller.request, wait_ms);
    while (!poller.told)
        turn();
    bool got = poller.request.envelope != NULL;
    base_free(poller.request.envelope);
    return got ? poller.request.attempt : 0;
}

static void test_a_lease(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].url = NULL;
    stage.options[0].ack_timeout_ms = WAIT_MS;
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
    send_to(&sender, "coder");
    assert_int_equal(pull(HOUR_MS), 1);
    set_wall_by(-HOUR_MS);
    let_pass(WAIT_MS);
    assert_int_equal(pull(HOUR_MS), 2);
    assert_int_equal(say(&sender, HANDOFF_WORD_EXTEND, "coder"), HANDOFF_OK);
    set_wall_by(-HOUR_MS);
    let_pass(WAIT_MS);
    assert_int_equal(pull(HOUR_MS), 3);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
}

/* ---- restarts ------------------------------------------------------------------------------- */

static void test_a_restart_reads_the_wall_clock(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].ack_timeout_ms = WAIT_MS;
    behave(0, "202,ack");
    send_until(&sender, HANDOFF_STATE_AWAITING_ACK, 0);
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    set_wall_by(WAIT_MS + 1000); /* as long as it was down */
    restart();
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 2);
}

static void test_a_restart_expires_what_is_over(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "silent");
    send_until(&sender, HANDOFF_STATE_IN_FLIGHT, WAIT_MS);
    set_wall_by(WAIT_MS + 1000);
    restart();
    assert_int_equal(stored(&sender, HANDOFF_STATE_EXPIRED).attempts, 0);
}

/* The clock is set back while the process is down: what is waited for is not due yet, but no
   further off than it could have been. */
static void restart_with_the_clock_back(const struct sender *sender, enum handoff_state state)
{
    while (stored(sender, state).attempts == 0)
        turn();
    set_wall_by(-24 * HOUR_MS);
    restart();
    turn(); /* what is due would be begun */
    assert_true(is_live(sender, state));
}

static void test_a_restart_puts_off_no_acknowledgement(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].ack_timeout_ms = WAIT_MS;
    behave(0, "202,ack");
    send_until(&sender, HANDOFF_STATE_AWAITING_ACK, 0);
    restart_with_the_clock_back(&sender, HANDOFF_STATE_AWAITING_ACK);
    let_pass(WAIT_MS);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 2);
}

static void test_a_restart_puts_off_no_attempt(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "503wait=7200,ack"); /* an hour of which is believed */
    send_until(&sender, HANDOFF_STATE_READY, 0);
    restart_with_the_clock_back(&sender, HANDOFF_STATE_READY);
    let_pass(HOUR_MS);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 2);
}

/* Longer than a Retry-After may be. */
static void test_a_restart_cuts_no_backoff_short(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].backoff_base_ms = stage.options[0].backoff_max_ms = 10 * HOUR_MS;
    behave(0, "503,ack");
    send_until(&sender, HANDOFF_STATE_READY, 0);
    restart_with_the_clock_back(&sender, HANDOFF_STATE_READY);
    let_pass(HOUR_MS);
    turn();
    assert_true(is_live(&sender, HANDOFF_STATE_READY));
    let_pass(9 * HOUR_MS);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 2);
}

/* Who pulls has no Retry-After. */
static void test_a_restart_puts_off_no_other_lease(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].backoff_base_ms = stage.options[0].backoff_max_ms = WAIT_MS;
    stage.options[0].url = NULL;
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
    send_to(&sender, "coder");
    assert_int_equal(pull(HOUR_MS), 1);
    assert_int_equal(say(&sender, HANDOFF_WORD_NACK_RETRY, "coder"), HANDOFF_OK);
    restart_with_the_clock_back(&sender, HANDOFF_STATE_READY);
    let_pass(WAIT_MS);
    assert_int_equal(pull(HOUR_MS), 2);
}

static void test_a_restart_puts_off_no_deadline(void **state)
{
    (void)state;
    static struct sender sender;
    stage.options[0].ack_timeout_ms = HOUR_MS;
    behave(0, "202");
    send_until(&sender, HANDOFF_STATE_AWAITING_ACK, WAIT_MS);
    restart_with_the_clock_back(&sender, HANDOFF_STATE_AWAITING_ACK);
    let_pass(WAIT_MS);
    assert_int_equal(stored(&sender, HANDOFF_STATE_EXPIRED).attempts, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SET(test_the_wait_for_an_acknowledgement),
        SET(test_the_wait_for_an_acknowledgement_is_not_cut_short),
        SET(test_the_wait_for_another_attempt),
        SET(test_retry_after_is_not_cut_short),
        SET(test_a_deadline_is_not_put_off),
        SET(test_a_deadline_is_not_brought_forward),
        SET(test_a_lease),
        SET(test_a_restart_reads_the_wall_clock),
        SET(test_a_restart_expires_what_is_over),
        SET(test_a_restart_puts_off_no_acknowledgement),
        SET(test_a_restart_puts_off_no_attempt),
        SET(test_a_restart_cuts_no_backoff_short),
        SET(test_a_restart_puts_off_no_other_lease),
        SET(test_a_restart_puts_off_no_deadline),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
