/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handoff while it is handed on: acknowledged with a next request, and nothing of it stored yet.
 * The test is the host, which assembles the successor, and takes as long as a test likes.
 */
#include "tests/support/delivery_stage.h"

#include <sqlite3.h>

#include "client/deliver/hand_on.h"
#include "client/model/model.h"
#include "client/protocol/pull/inbox.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fault_vfs.h"

enum { LEASE_MS = 60000, MINUTE_MS = 60000 }; /* the stage's lease */

/* ---- the host ------------------------------------------------------------------------------- */

static struct {
    struct handoff_hand_on *on; /* NULL: nothing is handed on */
    unsigned begun;
    struct sender *successor;
    struct handoff_error problem;
} host;

static void take_up(void *unused, struct handoff_hand_on *on)
{
    (void)unused;
    assert_null(host.on);
    host.on = on;
    host.begun++;
}

static void commit_successor(struct handoff_hand_on *on)
{
    struct sender *successor = host.successor;
    host.on = NULL;
    prepare(successor, "reviewer", 0);
    assert_true(handoff_hand_on_commit(on, &successor->submission));
    temp_envelope_free(&successor->envelope);
}

static void commit_problem(struct handoff_hand_on *on)
{
    host.on = NULL;
    handoff_hand_on_refuse(on, &host.problem);
}

static void hand_over(struct sender *successor)
{
    host.successor = successor;
    host.on->take = commit_successor;
    handoff_hand_on_assembled(host.on);
}

static void fail_to_assemble(enum handoff_code code)
{
    handoff_error_set(&host.problem, code, "a test", NULL, NULL);
    host.on->take = commit_problem;
    handoff_hand_on_assembled(host.on);
}

static void until_handed_on(void)
{
    while (!host.on) {
        assert_int_equal(count_moves(HANDOFF_STATE_PARKED), 0);
        turn();
        let_pass(5 * LOOK_MS);
    }
}

/* ---- the stage ------------------------------------------------------------------------------ */

static int set_up_host(void **state)
{
    memset(&host, 0, sizeof host);
    if (set_up(state) != 0)
        return -1;
    close_engine();
    stage.vfs = "fault";
    stage.hand_on = take_up;
    stage.options[0].retries = 0; /* the first failure is the last */
    stage.options[0].breaker_failures = 1;
    behave(0, "next");
    open_engine();
    return 0;
}

#define HOSTED(test) cmocka_unit_test_setup_teardown(test, set_up_host, tear_down)

static void use_pull(void)
{
    stage.options[0].url = NULL;
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
}

static struct handoff_agent *coder(void)
{
    return handoff_agents_find(stage.agents, base_span_text("coder"));
}

static void check_no_failure(const struct sender *sender)
{
    struct base_arena arena;
    struct handoff_stored found;
    int64_t wait_ms;
    base_arena_init(&arena, 0);
    assert_int_equal(
        handoff_store_get_handoff(stage.store, &sender->submission.id, &arena, &found, NULL),
        HANDOFF_OK);
    assert_true(handoff_state_is_live((enum handoff_state)found.standing.state));
    assert_int_equal(found.standing.failures, 0);
    base_arena_free(&arena);
    assert_false(handoff_agent_is_open(coder(), handoff_lane_now_ms(stage.lane), &wait_ms));
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_EXHAUSTED), 0);
    assert_int_equal(count_moves(HANDOFF_STATE_PARKED), 0);
}

static void check_handed_on(const struct sender *sender, const struct sender *successor,
                            uint32_t attempts)
{
    struct row row;
    assert_int_equal(stored(sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, attempts);
    assert_true(read_row(successor, &row));
}

static void until_live(const struct sender *sender, enum handoff_state state)
{
    while (handoff_live_state(handoff_engine_live(stage.engine), &sender->submission.id) !=
           (int)state)
        turn();
}

/* ---- an agent that is pushed to ---------------------------------------------------------------
 */

static void test_a_disk_that_fails_is_no_failure_of_the_agent(void **state)
{
    (void)state;
    static struct sender sender, lost, successor;
    send_to(&sender, "coder");
    until_handed_on();
    fault_at(FAULT_WRITE, 1, true, SQLITE_FULL);
    hand_over(&lost);
    until_live(&sender, HANDOFF_STATE_READY);
    fault_lift();
    check_no_failure(&sender);
    until_handed_on();
    hand_over(&successor);
    check_handed_on(&sender, &successor, 2);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_ACK);
    assert_string_equal(row.recorded[0].error,
                        "acknowledged, but the next handoff could not be stored");
    assert_false(read_row(&lost, &row));
}

/* What we could not do says nothing about the request: it is not kept as refused. */
static void test_what_we_cannot_assemble_is_asked_for_again(void **state)
{
    (void)state;
    static const enum handoff_code own[] = {HANDOFF_ERR_OUT_OF_MEMORY, HANDOFF_ERR_SHUTTING_DOWN,
                                            HANDOFF_ERR_CANCELLED, HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
                                            HANDOFF_ERR_STORE_IO};
    static struct sender sender, successor;
    const uint32_t count = sizeof own / sizeof own[0];
    send_to(&sender, "coder");
    for (uint32_t i = 0; i < count; i++) {
        until_handed_on();
        fail_to_assemble(own[i]);
        until_live(&sender, HANDOFF_STATE_READY);
        check_no_failure(&sender);
    }
    until_handed_on();
    hand_over(&successor);
    check_handed_on(&sender, &successor, count + 1);
}

/* Each draw up to a ceiling of 1, 2, 4 or 8 s is the ceiling. */
static void longest(const struct base_random *random, void *bytes, size_t size)
{
    const uint64_t bits = UINT64_C(1001) * 2001 * 4001 * 8001 - 1;
    (void)random;
    assert_int_equal(size, sizeof bits);
    memcpy(bytes, &bits, size);
}
static const struct base_random longest_draws = {longest};

/* Asked again, it would be rejected again, for ever. */
static void commit_orphan(struct handoff_hand_on *on)
{
    static struct sender orphan;
    const struct base_uuid unknown = base_uuid_make(&stage.ids);
    host.on = NULL;
    prepare(&orphan, "reviewer", 0);
    orphan.submission.contribution = base_span_text("{}");
    orphan.submission.parents = &unknown;
    orphan.submission.nparents = 1;
    orphan.submission.hop = 2;
    assert_true(handoff_hand_on_commit(on, &orphan.submission));
    temp_envelope_free(&orphan.envelope);
}

static void test_what_the_store_rejects_is_refused(void **state)
{
    (void)state;
    static struct sender sender;
    send_to(&sender, "coder");
    until_handed_on();
    host.on->take = commit_orphan;
    handoff_hand_on_assembled(host.on);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(host.begun, 1);
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).attempts, 1);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
}

/* The agent does its work again each time, so it is not asked each second for hours. */
static void test_it_is_asked_again_less_and_less_often(void **state)
{
    (void)state;
    static struct sender sender;
    int64_t last_ms = 0;
    close_engine();
    stage.random = &longest_draws;
    open_engine();
    send_to(&sender, "coder");
    for (int i = 0; i < 4; i++) {
        until_handed_on();
        const unsigned sent = count_moves(HANDOFF_STATE_IN_FLIGHT);
        fail_to_assemble(HANDOFF_ERR_OUT_OF_MEMORY);
        const int64_t before_ms = handoff_lane_now_ms(stage.lane);
        while (count_moves(HANDOFF_STATE_IN_FLIGHT) == sent) {
            turn();
            let_pass(10 * LOOK_MS);
        }
        const int64_t waited_ms = handoff_lane_now_ms(stage.lane) - before_ms;
        assert_true(waited_ms >= 1000 && waited_ms > last_ms);
        last_ms = waited_ms;
    }
}

static void test_whichever_allocation_fails_on_the_way_to_the_host(void **state)
{
    (void)state;
    bool reached = true;
    long n = 1;
    for (; reached; n++) {
        static struct sender sender, successor;
        send_to(&sender, "coder");
        while (!sender.accepted)
            turn();
        failing_memory_at(n);
        until_handed_on();
        reached = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        check_no_failure(&sender);
        hand_over(&successor);
        until_settled(&sender);
        assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
        stored(&successor, HANDOFF_STATE_ACKNOWLEDGED);
        stage.nevents = 0;
    }
    assert_true(n > 2);
}

/* ---- an agent that calls the API --------------------------------------------------------------
 */

struct poller {
    struct handoff_poller_request request; /* first */
    unsigned told;
};

static void on_poll_told(struct handoff_poller_request *request)
{
    ((struct poller *)request)->told++;
}

static void poll_coder(struct poller *poller)
{
    *poller =
        (struct poller){.request = {.lane = stage.lane, .agent = coder(), .told = on_poll_told}};
    handoff_inbox_poll(&poller->request, MINUTE_MS);
}

static void until_told(struct poller *poller)
{
    while (!poller->told)
        turn();
}

static void lease(struct sender *sender)
{
    struct poller poller;
    use_pull();
    send_to(sender, "coder");
    poll_coder(&poller);
    until_told(&poller);
    assert_non_null(poller.request.envelope);
    base_free(poller.request.envelope);
}

static void begin_to_hand_on(struct speaker *speaker, const struct sender *about)
{
    *speaker = (struct speaker){.reply = {.lane = stage.lane,
                                          .told = on_told,
                                          .id = about->submission.id,
                                          .word = HANDOFF_WORD_ACK,
                                          .agent = base_span_text("coder"),
                                          .next = base_span_text("{}")}};
    handoff_engine_reply(stage.engine, &speaker->reply);
}

static void check_lease_goes_on(struct sender *sender)
{
    static struct sender successor;
    struct speaker speaker;
    until_live(sender, HANDOFF_STATE_IN_FLIGHT);
    check_no_failure(sender);
    let_pass(LEASE_MS / 2);
    turn();
    begin_to_hand_on(&speaker, sender);
    until_handed_on();
    hand_over(&successor);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    check_handed_on(sender, &successor, 1);
}

static void test_a_lease_goes_on_where_nothing_could_be_stored(void **state)
{
    (void)state;
    static struct sender sender, lost;
    struct speaker speaker;
    lease(&sender);
    let_pass(LEASE_MS - 1000);
    begin_to_hand_on(&speaker, &sender);
    until_handed_on();
    let_pass(2000); /* the time of the lease does not matter meanwhile */
    fault_at(FAULT_WRITE, 1, true, SQLITE_FULL);
    hand_over(&lost);
    assert_int_equal(until_replied(&speaker), HANDOFF_ERR_STORE_FULL);
    fault_lift();
    check_lease_goes_on(&sender);
}

/* Leases the handoff to a client that follows the inbox and may hold one. */
static struct handoff_stream *lease_to_follower(struct sender *sender,
                                                struct handoff_stream_holder *holder)
{
    struct handoff_stream *stream = base_calloc(1, sizeof *stream);
    struct handoff_stream_lost lost;
    struct poller poller;
    stream->most = 1;
    use_pull();
    *holder = (struct handoff_stream_holder){0};
    handoff_stream_open(&coder()->inbox, holder, stream, NULL, &lost);
    send_to(sender, "coder");
    poller = (struct poller){
        .request = {.lane = stage.lane, .agent = coder(), .told = on_poll_told, .holder = holder}};
    handoff_inbox_poll(&poller.request, MINUTE_MS);
    until_told(&poller);
    assert_non_null(poller.request.envelope);
    base_free(poller.request.envelope);
    return stream;
}

/* Else it would be given one more than it may hold. */
static void test_a_follower_holds_what_could_not_be_stored(void **state)
{
    (void)state;
    static struct sender sender, lost;
    struct handoff_stream_holder holder;
    struct handoff_stream_lost unsent;
    struct speaker speaker;
    struct handoff_stream *stream = lease_to_follower(&sender, &holder);
    assert_int_equal(stream->leased, 1);
    begin_to_hand_on(&speaker, &sender);
    until_handed_on();
    fault_at(FAULT_WRITE, 1, true, SQLITE_FULL);
    hand_over(&lost);
    assert_int_equal(until_replied(&speaker), HANDOFF_ERR_STORE_FULL);
    fault_lift();
    assert_int_equal(stream->leased, 1);
    check_lease_goes_on(&sender);
    assert_int_equal(stream->leased, 0);
    handoff_stream_close(&coder()->inbox, &holder, 0, &unsent);
    assert_int_equal(unsent.count, 0);
}

static void test_an_awaited_acknowledgement_is_awaited_further(void **state)
{
    (void)state;
    static struct sender sender, successor;
    struct speaker speaker;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    begin_to_hand_on(&speaker, &sender);
    until_handed_on();
    fail_to_assemble(HANDOFF_ERR_OUT_OF_MEMORY);
    assert_int_equal(until_replied(&speaker), HANDOFF_ERR_OUT_OF_MEMORY);
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    check_no_failure(&sender);
    begin_to_hand_on(&speaker, &sender);
    until_handed_on();
    hand_over(&successor);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    check_handed_on(&sender, &successor, 1);
}

static void test_without_memory_a_call_changes_nothing(void **state)
{
    (void)state;
    static struct sender sender;
    struct speaker speaker;
    lease(&sender);
    begin_to_hand_on(&speaker, &sender);
    failing_memory_at(1);
    assert_int_equal(until_replied(&speaker), HANDOFF_ERR_OUT_OF_MEMORY);
    failing_memory_at(0);
    assert_int_equal(host.begun, 0);
    check_lease_goes_on(&sender);
}

/* Its lease ran out, and it is on its way to the next poller when the agent acknowledges after all.
 */
static void test_what_is_handed_on_is_not_leased(void **state)
{
    (void)state;
    static struct sender sender, successor;
    struct speaker speaker;
    struct poller poller;
    stage.options[0].retries = 3;
    lease(&sender);
    let_pass(LEASE_MS + 1);
    while (TAILQ_EMPTY(&coder()->inbox.offers))
        turn(); /* offered again */
    begin_to_hand_on(&speaker, &sender);
    poll_coder(&poller); /* takes the offer; the lane hears of it after the acknowledgement */
    until_handed_on();
    turn();
    assert_int_equal(poller.told, 0);
    hand_over(&successor);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    check_handed_on(&sender, &successor, 1);
    handoff_inbox_withdraw(&poller.request);
    until_told(&poller);
    assert_null(poller.request.envelope);
}

static void test_nothing_else_happens_to_it_meanwhile(void **state)
{
    (void)state;
    static const enum handoff_word words[] = {HANDOFF_WORD_ACK,        HANDOFF_WORD_NACK_RETRY,
                                              HANDOFF_WORD_NACK_FINAL, HANDOFF_WORD_EXTEND,
                                              HANDOFF_WORD_CANCEL,     HANDOFF_WORD_PARK};
    static struct sender sender, successor;
    struct speaker speaker;
    lease(&sender);
    begin_to_hand_on(&speaker, &sender);
    until_handed_on();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(say(&sender, words[i], NULL), HANDOFF_ERR_CONFLICT);
        assert_int_equal(say(&sender, words[i], "stranger"), HANDOFF_ERR_NOT_FOUND);
    }
    let_pass(10 * LEASE_MS);
    turn();
    hand_over(&successor);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) { /* in the commit */
        struct speaker other;
        begin_to_say(&other, &sender, words[i], "", NULL);
        base_loop_turn(stage.lane->loop, 0);
        const enum handoff_code code = until_replied(&other);
        assert_true(code == HANDOFF_ERR_CONFLICT ||
                    (code == HANDOFF_OK && words[i] == HANDOFF_WORD_ACK));
    }
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    check_handed_on(&sender, &successor, 1);
}

/* ---- the end of the process -------------------------------------------------------------------
 */

static void test_a_drain_waits_for_it(void **state)
{
    (void)state;
    static struct sender sender, successor;
    send_to(&sender, "coder");
    until_handed_on();
    handoff_engine_wind_down(stage.engine);
    for (int i = 0; i < 3; i++) {
        turn();
        assert_int_equal(sender.settled, 0);
        assert_int_equal(handoff_engine_attempting(stage.engine), 1);
    }
    hand_over(&successor);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(handoff_engine_attempting(stage.engine), 0);
    check_handed_on(&sender, &successor, 1);
    assert_int_equal(stored(&successor, HANDOFF_STATE_READY).attempts, 0);
}

static void test_a_drain_ends_where_it_cannot_be_stored(void **state)
{
    (void)state;
    static struct sender sender;
    send_to(&sender, "coder");
    until_handed_on();
    handoff_engine_wind_down(stage.engine);
    fail_to_assemble(HANDOFF_ERR_SHUTTING_DOWN);
    until_settled(&sender);
    assert_int_equal(sender.status.error.code, HANDOFF_ERR_SHUTTING_DOWN);
    assert_int_equal(handoff_engine_attempting(stage.engine), 0);
    check_no_failure(&sender);
}

/* The lane goes while the host assembles, which hears of it when it commits. */
static void test_the_lane_may_go_first(void **state)
{
    (void)state;
    static struct sender sender, lost, successor;
    struct speaker speaker;
    struct row row;
    lease(&sender);
    begin_to_hand_on(&speaker, &sender);
    until_handed_on();
    handoff_lane_stop(stage.lane);
    hand_over(&lost);
    assert_int_equal(until_replied(&speaker), HANDOFF_ERR_SHUTTING_DOWN);
    restart();
    assert_false(read_row(&lost, &row));
    stored(&sender, HANDOFF_STATE_READY);
    check_no_failure(&sender);
    begin_to_hand_on(&speaker, &sender); /* its answer to the lease that it had before */
    until_handed_on();
    hand_over(&successor);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_true(read_row(&successor, &row));
}

/* ---- a write that is out ----------------------------------------------------------------------
 */

/* The host is ready at once, and the extension that came before is still being written. */
static void commit_at_once(void *unused, struct handoff_hand_on *on)
{
    static struct sender successor;
    take_up(unused, on);
    hand_over(&successor);
}

static void test_the_commit_waits_for_a_write(void **state)
{
    (void)state;
    static struct sender sender;
    struct speaker extension = {0}, speaker;
    close_engine();
    stage.hand_on = commit_at_once;
    open_engine();
    lease(&sender);
    extension.reply = (struct handoff_reply){.lane = stage.lane,
                                             .told = on_told,
                                             .id = sender.submission.id,
                                             .word = HANDOFF_WORD_EXTEND,
                                             .progress = base_span_text("half")};
    handoff_engine_reply(stage.engine, &extension.reply);
    begin_to_hand_on(&speaker, &sender);
    assert_int_equal(until_replied(&extension), HANDOFF_OK);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    check_handed_on(&sender, host.successor, 1);
}

int main(void)
{
    fault_vfs_register();
    failing_memory_install();
    const struct CMUnitTest tests[] = {
        HOSTED(test_a_disk_that_fails_is_no_failure_of_the_agent),
        HOSTED(test_what_we_cannot_assemble_is_asked_for_again),
        HOSTED(test_what_the_store_rejects_is_refused),
        HOSTED(test_it_is_asked_again_less_and_less_often),
        HOSTED(test_whichever_allocation_fails_on_the_way_to_the_host),
        HOSTED(test_a_lease_goes_on_where_nothing_could_be_stored),
        HOSTED(test_a_follower_holds_what_could_not_be_stored),
        HOSTED(test_an_awaited_acknowledgement_is_awaited_further),
        HOSTED(test_without_memory_a_call_changes_nothing),
        HOSTED(test_what_is_handed_on_is_not_leased),
        HOSTED(test_nothing_else_happens_to_it_meanwhile),
        HOSTED(test_a_drain_waits_for_it),
        HOSTED(test_a_drain_ends_where_it_cannot_be_stored),
        HOSTED(test_the_lane_may_go_first),
        HOSTED(test_the_commit_waits_for_a_write),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
