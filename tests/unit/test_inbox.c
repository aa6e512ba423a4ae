/* SPDX-License-Identifier: Apache-2.0 */
/* Pull delivery: offers and pollers meet, whoever comes first; leases run out; nothing is lost. */
#include "tests/support/delivery_stage.h"

#include "client/deliver/delivery.h"
#include "client/protocol/pull/inbox.h"
#include "client/protocol/pull/lease.h"
#include "lib/base/memory.h"

enum { LEASE_MS = 60000 }; /* the stage's */

struct poller {
    struct handoff_poller_request request; /* first */
    unsigned told;
};

static void on_poll_told(struct handoff_poller_request *request)
{
    ((struct poller *)request)->told++;
}

static void poll_inbox(struct poller *poller, int64_t wait_ms)
{
    *poller = (struct poller){
        .request = {.lane = stage.lane,
                    .agent = handoff_agents_find(stage.agents, base_span_text("coder")),
                    .told = on_poll_told}};
    handoff_inbox_poll(&poller->request, wait_ms);
    assert_int_equal(poller->told, 0); /* never from within the call */
}

static void until_told(struct poller *poller)
{
    while (!poller->told)
        turn();
    assert_int_equal(poller->told, 1);
}

static bool got(struct poller *poller, const struct sender *sender)
{
    bool same = poller->request.envelope &&
                memcmp(poller->request.id.bytes, sender->submission.id.bytes, 16) == 0;
    base_free(poller->request.envelope);
    return same;
}

static void pulls(void)
{
    stage.options[0].url = NULL;
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
}

static void until_accepted(struct sender *sender)
{
    while (!sender->accepted)
        turn();
}

static void test_a_handoff_waits_for_a_poller(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    send_to(&sender, "coder");
    until_accepted(&sender);
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_int_equal(poller.request.attempt, 1);
    assert_int_equal(poller.request.lease_ms, LEASE_MS);
    assert_true(got(&poller, &sender));
    assert_int_equal(sender.settled, 0);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 1);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_ACK);
}

static void test_a_poller_waits_for_a_handoff(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    poll_inbox(&poller, 60000);
    send_to(&sender, "coder");
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
}

static void test_an_empty_inbox_answers_after_the_wait(void **state)
{
    (void)state;
    struct poller poller;
    pulls();
    poll_inbox(&poller, 20);
    until_told(&poller);
    assert_null(poller.request.envelope);
    poll_inbox(&poller, 60000);
    handoff_inbox_withdraw(&poller.request);
    until_told(&poller);
    assert_null(poller.request.envelope);
}

static void test_first_come_first_served_on_both_sides(void **state)
{
    (void)state;
    enum { MANY = 5 };
    struct poller pollers[MANY];
    static struct sender senders[MANY];
    pulls();
    for (int i = 0; i < MANY; i++)
        poll_inbox(&pollers[i], 60000);
    for (int i = 0; i < MANY; i++) {
        send_to(&senders[i], "coder");
        until_told(&pollers[i]);
        assert_true(got(&pollers[i], &senders[i]));
        assert_int_equal(say(&senders[i], HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    }
    for (int i = 0; i < MANY; i++) {
        send_to(&senders[i], "coder");
        until_accepted(&senders[i]);
    }
    for (int i = 0; i < MANY; i++) {
        poll_inbox(&pollers[i], 60000);
        until_told(&pollers[i]);
        assert_true(got(&pollers[i], &senders[i]));
        assert_int_equal(say(&senders[i], HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    }
}

static void test_a_lease_that_runs_out_is_offered_again(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller first, second;
    pulls();
    send_to(&sender, "coder");
    poll_inbox(&first, 60000);
    until_told(&first);
    assert_true(got(&first, &sender));
    let_pass(LEASE_MS);
    poll_inbox(&second, 60000);
    until_told(&second);
    assert_int_equal(second.request.attempt, 2);
    assert_true(got(&second, &sender));
    assert_int_equal(count_results(HANDOFF_RESULT_TIMEOUT), 1);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 2);
    assert_string_equal(row.recorded[0].error, "the lease expired");
}

static void test_leases_that_all_run_out_park_it(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    stage.options[0].retries = 1;
    pulls();
    send_to(&sender, "coder");
    for (int i = 0; i < 2; i++) {
        poll_inbox(&poller, 60000);
        until_told(&poller);
        assert_true(got(&poller, &sender));
        let_pass(LEASE_MS);
    }
    until_settled(&sender);
    assert_int_equal(sender.status.reason, HANDOFF_REASON_EXHAUSTED);
}

static void test_more_time_on_request(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    send_to(&sender, "coder");
    until_accepted(&sender);
    assert_int_equal(say(&sender, HANDOFF_WORD_EXTEND, "coder"), HANDOFF_ERR_CONFLICT);
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_int_equal(say(&sender, HANDOFF_WORD_EXTEND, "coder"), HANDOFF_OK);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(say(&sender, HANDOFF_WORD_EXTEND, "coder"), HANDOFF_ERR_CONFLICT);
}

static void test_given_back(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    send_to(&sender, "coder");
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_int_equal(say(&sender, HANDOFF_WORD_NACK_RETRY, "coder"), HANDOFF_OK);
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_int_equal(poller.request.attempt, 2);
    assert_true(got(&poller, &sender));
    assert_int_equal(say(&sender, HANDOFF_WORD_NACK_FINAL, "coder"), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.reason, HANDOFF_REASON_REFUSED);
}

static void test_waiting_handoffs_expire_and_are_not_handed_out(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    send_within(&sender, "coder", 60000);
    until_accepted(&sender);
    let_pass(60000);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_EXPIRED);
    poll_inbox(&poller, 1);
    until_told(&poller);
    assert_null(poller.request.envelope);
}

/* Somebody had it: that was an attempt, and it came to nothing. */
static void test_a_lease_that_the_deadline_ends_is_recorded(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    poll_inbox(&poller, 60000);
    send_within(&sender, "coder", LEASE_MS / 2);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    let_pass(LEASE_MS / 2);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_EXPIRED);
    struct row row = stored(&sender, HANDOFF_STATE_EXPIRED);
    assert_int_equal(row.attempts, 1);
    assert_int_equal(row.nrecorded, 1);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_TIMEOUT);
    assert_int_equal(count_results(HANDOFF_RESULT_TIMEOUT), 1);
}

static void test_leased_ones_are_offered_again_after_a_restart(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    send_to(&sender, "coder");
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    restart();
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
}

/* A handoff is on its way to a poller that leaves: the next one gets it, as if nothing had been. */
static void test_nothing_is_leased_to_one_that_left(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller gone, there;
    pulls();
    send_to(&sender, "coder");
    until_accepted(&sender);
    poll_inbox(&gone, 60000); /* takes the offer; the handoff's lane is asked by mail */
    handoff_inbox_withdraw(&gone.request);
    until_told(&gone);
    assert_null(gone.request.envelope);
    poll_inbox(&there, 60000);
    until_told(&there);
    assert_int_equal(there.request.attempt, 1);
    assert_true(got(&there, &sender));
    assert_int_equal(count_moves(HANDOFF_STATE_IN_FLIGHT), 1);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 1);
}

static enum handoff_code give_back(const struct sender *about, uint32_t attempt)
{
    struct speaker speaker = {.reply = {.lane = stage.lane,
                                        .told = on_told,
                                        .id = about->submission.id,
                                        .word = HANDOFF_WORD_RETURN,
                                        .attempt = attempt}};
    handoff_engine_reply(stage.engine, &speaker.reply);
    while (!speaker.told)
        turn();
    return speaker.reply.error.code;
}

/* It was leased when the poller left: given back, it is no attempt, and only that lease goes back.
 */
static void test_a_lease_that_nobody_saw_goes_back(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    pulls();
    send_to(&sender, "coder");
    for (int i = 0; i < 2; i++) {
        poll_inbox(&poller, 60000);
        until_told(&poller);
        assert_int_equal(poller.request.attempt, 1);
        assert_true(got(&poller, &sender));
        assert_int_equal(give_back(&sender, 2), HANDOFF_ERR_CONFLICT);
        assert_int_equal(give_back(&sender, 1), HANDOFF_OK);
        assert_int_equal(give_back(&sender, 1), HANDOFF_ERR_CONFLICT);
    }
    assert_int_equal(stored(&sender, HANDOFF_STATE_READY).attempts, 0);
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).nrecorded, 1);
    assert_int_equal(give_back(&sender, 1), HANDOFF_ERR_CONFLICT);
}

/* ---- a reload -------------------------------------------------------------------------------- */

static void until_it_looks(void)
{
    let_pass(60000);
    turn();
}

/* It waits for nobody: the agent runs a server now. */
static void test_what_is_offered_is_posted_when_its_agent_got_a_url(void **state)
{
    (void)state;
    static struct sender sender;
    pulls();
    send_to(&sender, "coder");
    until_accepted(&sender);
    behave(0, "ack");
    until_it_looks();
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.recorded[0].status, 200);
    until_settled(&sender);
}

/* It was posted and failed, and the agent has no server any more. */
static void test_what_backs_off_is_offered_when_its_agent_lost_its_url(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    behave(0, "503");
    send_to(&sender, "coder");
    while (count_results(HANDOFF_RESULT_HTTP) == 0)
        turn();
    pulls();
    poll_inbox(&poller, 600000);
    until_it_looks();
    until_told(&poller);
    assert_int_equal(poller.request.attempt, 2);
    assert_true(got(&poller, &sender));
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).nrecorded, 2);
}

/* A poller took the offer, and before the handoff's lane heard of it, the agent had a URL and the
   handoff was posted and failed: it stays with the POSTs. */
static void test_what_was_offered_and_is_posted_now_is_not_leased(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller late = {
        .request = {.lane = stage.lane,
                    .agent = handoff_agents_find(stage.agents, base_span_text("coder")),
                    .told = on_poll_told}};
    pulls();
    send_to(&sender, "coder");
    until_accepted(&sender);
    behave(0, "503wait=60,ack");
    until_it_looks();
    while (count_results(HANDOFF_RESULT_HTTP) == 0)
        turn();
    struct handoff_delivery *delivery =
        handoff_live_find(handoff_engine_live(stage.engine), &sender.submission.id, stage.lane);
    while (delivery->writing)
        turn();
    assert_int_equal(delivery->state, HANDOFF_STATE_READY);
    assert_false(handoff_pull_lease(delivery, &late.request));
    until_it_looks();
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).nrecorded, 2);
}

/* Nobody can pull it any more, so people have to look at it. */
static void test_what_is_offered_is_parked_when_its_agent_is_gone(void **state)
{
    (void)state;
    static struct sender sender;
    pulls();
    send_to(&sender, "coder");
    until_accepted(&sender);
    stage.options[0].name = "somebody-else";
    pulls();
    until_it_looks();
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_PARKED);
    assert_int_equal(sender.status.reason, HANDOFF_REASON_UNKNOWN_AGENT);
    stored(&sender, HANDOFF_STATE_PARKED);
}

/* Looking costs nobody their place. */
static void test_what_is_offered_keeps_its_place(void **state)
{
    (void)state;
    static struct sender first, second;
    struct poller poller;
    pulls();
    send_to(&first, "coder");
    until_accepted(&first);
    until_it_looks();
    send_to(&second, "coder");
    until_accepted(&second);
    until_it_looks();
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &first));
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &second));
    assert_int_equal(say(&first, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(say(&second, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
}

/* A poller took the offer from the inbox of an agent that has lost the handoff since: the offer in
   the other inbox is left alone, and taken back when the handoff ends. */
static void test_an_offer_that_moved_on_is_not_leased(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller late = {
        .request = {.lane = stage.lane,
                    .agent = handoff_agents_find(stage.agents, base_span_text("reviewer")),
                    .told = on_poll_told}};
    pulls();
    send_to(&sender, "coder");
    until_accepted(&sender);
    struct handoff_delivery *delivery =
        handoff_live_find(handoff_engine_live(stage.engine), &sender.submission.id, stage.lane);
    assert_false(handoff_pull_lease(delivery, &late.request));
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED); /* an inbox that closes with offers complains */
}

/* ---- the circuit ----------------------------------------------------------------------------- */

enum { COOLDOWN_MS = 90000 };

/* One lease that runs out opens the circuit; the next handoff is taken when the cooldown is over.
 */
static void open_the_circuit(struct sender *next)
{
    static struct sender sender;
    struct poller poller;
    stage.options[0].retries = 0;
    stage.options[0].breaker_failures = 1;
    stage.options[0].breaker_cooldown_ms = COOLDOWN_MS;
    pulls();
    send_to(&sender, "coder");
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    let_pass(LEASE_MS);
    until_settled(&sender);
    assert_int_equal(try_send(next, "coder", NULL), HANDOFF_ERR_CIRCUIT_OPEN);
    let_pass(COOLDOWN_MS);
    send_to(next, "coder");
    until_accepted(next);
}

/* What the observer heard of circuits, from the beginning: "oho" is open, half open, open. */
static const char *circuits(void)
{
    static char text[16];
    size_t count = 0;
    for (size_t i = 0; i < stage.nevents && count < sizeof text - 1; i++) {
        const struct handoff_event *event = &stage.events[i].event;
        if (event->kind == HANDOFF_EVENT_CIRCUIT)
            text[count++] = handoff_circuit_name(event->of.circuit.circuit)[0];
    }
    text[count] = '\0';
    return text;
}

static void test_the_first_lease_after_the_cooldown_is_the_probe(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    open_the_circuit(&sender);
    assert_string_equal(circuits(), "o");
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_string_equal(circuits(), "oh");
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_string_equal(circuits(), "ohc");
}

/* It protects senders again, who would wait for nobody. */
static void test_a_probe_that_fails_opens_the_circuit_anew(void **state)
{
    (void)state;
    static struct sender sender, another;
    struct poller poller;
    open_the_circuit(&sender);
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_int_equal(say(&sender, HANDOFF_WORD_NACK_RETRY, "coder"), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.reason, HANDOFF_REASON_EXHAUSTED);
    assert_int_equal(try_send(&another, "coder", NULL), HANDOFF_ERR_CIRCUIT_OPEN);
    assert_string_equal(circuits(), "ohoo"); /* the last tells of the count of failures */
}

/* Nothing was found out, so the next lease is the probe. */
static void test_a_probe_that_nobody_saw_is_none(void **state)
{
    (void)state;
    static struct sender sender;
    struct poller poller;
    open_the_circuit(&sender);
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_int_equal(give_back(&sender, 1), HANDOFF_OK);
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &sender));
    assert_string_equal(circuits(), "ohoh");
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_string_equal(circuits(), "ohohc");
}

/* Who pulls while it is open is there, and is given what was accepted before. */
static void test_an_open_circuit_keeps_no_lease_back(void **state)
{
    (void)state;
    static struct sender first, second;
    struct poller poller;
    stage.options[0].retries = 0;
    stage.options[0].breaker_failures = 1;
    stage.options[0].breaker_cooldown_ms = 10 * LEASE_MS;
    pulls();
    send_to(&first, "coder");
    until_accepted(&first);
    send_to(&second, "coder");
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &first));
    let_pass(LEASE_MS);
    until_settled(&first);
    assert_string_equal(circuits(), "o");
    poll_inbox(&poller, 60000);
    until_told(&poller);
    assert_true(got(&poller, &second));
    assert_int_equal(say(&second, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_string_equal(circuits(), "oc");
}

/* A lane that ends has to tell its pollers first. */
static void test_pollers_are_told_when_the_lane_ends(void **state)
{
    (void)state;
    struct poller poller;
    pulls();
    poll_inbox(&poller, 60000);
    handoff_inbox_withdraw(&poller.request);
    close_engine();
    assert_int_equal(poller.told, 1);
    open_engine();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(test_a_handoff_waits_for_a_poller),
        STAGED(test_a_poller_waits_for_a_handoff),
        STAGED(test_an_empty_inbox_answers_after_the_wait),
        STAGED(test_first_come_first_served_on_both_sides),
        STAGED(test_a_lease_that_runs_out_is_offered_again),
        STAGED(test_leases_that_all_run_out_park_it),
        STAGED(test_more_time_on_request),
        STAGED(test_given_back),
        STAGED(test_waiting_handoffs_expire_and_are_not_handed_out),
        STAGED(test_a_lease_that_the_deadline_ends_is_recorded),
        STAGED(test_leased_ones_are_offered_again_after_a_restart),
        STAGED(test_nothing_is_leased_to_one_that_left),
        STAGED(test_a_lease_that_nobody_saw_goes_back),
        STAGED(test_what_is_offered_is_posted_when_its_agent_got_a_url),
        STAGED(test_what_backs_off_is_offered_when_its_agent_lost_its_url),
        STAGED(test_what_was_offered_and_is_posted_now_is_not_leased),
        STAGED(test_what_is_offered_is_parked_when_its_agent_is_gone),
        STAGED(test_what_is_offered_keeps_its_place),
        STAGED(test_an_offer_that_moved_on_is_not_leased),
        STAGED(test_the_first_lease_after_the_cooldown_is_the_probe),
        STAGED(test_a_probe_that_fails_opens_the_circuit_anew),
        STAGED(test_a_probe_that_nobody_saw_is_none),
        STAGED(test_an_open_circuit_keeps_no_lease_back),
        STAGED(test_pollers_are_told_when_the_lane_ends),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
