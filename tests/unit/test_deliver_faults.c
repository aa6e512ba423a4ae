/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery on a disk that fails and with memory that runs out: every write, every fsync and every
 * allocation is made to fail in turn. Whatever was accepted before is acknowledged or parked in the
 * end; whatever could not be accepted is refused with the reason.
 */
#include "tests/support/delivery_stage.h"

#include <sqlite3.h>

#include "client/calls/read.h"
#include "client/deliver/live_index.h"
#include "client/protocol/pull/inbox.h"
#include "lib/base/error.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fault_vfs.h"

static int set_up_fault(void **state)
{
    if (set_up(state) != 0)
        return -1;
    close_engine();
    stage.vfs = "fault";
    open_engine();
    return 0;
}

#define FAULTY(test) cmocka_unit_test_setup_teardown(test, set_up_fault, tear_down)

static bool is_live(const struct sender *sender, enum handoff_state state)
{
    return handoff_live_state(handoff_engine_live(stage.engine), &sender->submission.id) ==
           (int)state;
}

static void until_idle(void)
{
    while (handoff_engine_in_flight(stage.engine) > 0)
        turn();
}

/* ---- a disk that fails ------------------------------------------------------------------------
 */

struct disk_fault {
    int kinds, result;
    bool lasting;
    enum handoff_code told;
};

static const struct disk_fault disk_faults[] = {
    {FAULT_WRITE, SQLITE_IOERR_WRITE, false, HANDOFF_ERR_STORE_IO},
    {FAULT_WRITE, SQLITE_FULL, false, HANDOFF_ERR_STORE_FULL},
    {FAULT_WRITE, SQLITE_FULL, true, HANDOFF_ERR_STORE_FULL},
    {FAULT_SYNC, SQLITE_IOERR_FSYNC, false, HANDOFF_ERR_STORE_IO},
    {FAULT_SYNC, SQLITE_IOERR_FSYNC, true, HANDOFF_ERR_STORE_IO},
};

enum { RETRIED, REFUSED, DEFERRED, SENDERS };

static const struct {
    const char *target, *script;
    enum handoff_state end;
} ways[SENDERS] = {
    [RETRIED] = {"coder", "503,ack", HANDOFF_STATE_ACKNOWLEDGED},
    [REFUSED] = {"coder-b", "nack", HANDOFF_STATE_PARKED},
    [DEFERRED] = {"reviewer", "202", HANDOFF_STATE_ACKNOWLEDGED},
};

/* Until it is settled, in memory at least; the deferred one is acknowledged by the API, which may
   be told of the disk. */
static void until_ended(struct sender *sender, int way, enum handoff_code told)
{
    while (!sender->settled && !is_live(sender, HANDOFF_STATE_AWAITING_ACK))
        turn();
    if (!sender->settled) {
        assert_int_equal(way, DEFERRED);
        enum handoff_code code = say(sender, HANDOFF_WORD_ACK, NULL);
        assert_true(code == HANDOFF_OK || code == told);
    }
    until_settled(sender);
    assert_int_equal(sender->settled, 1);
}

static void send_all(struct sender senders[SENDERS], enum handoff_code told)
{
    for (int i = 0; i < SENDERS; i++)
        send_to(&senders[i], ways[i].target);
    for (int i = 0; i < SENDERS; i++)
        until_ended(&senders[i], i, told);
}

/* What each sender was told while the disk failed. */
static void check_told(const struct sender *sender, int way, enum handoff_code told)
{
    if (sender->status.error.code != HANDOFF_OK)
        assert_int_equal(sender->status.error.code, told);
    if (!sender->accepted) {
        assert_int_equal(sender->status.error.code, told);
        assert_null(sender->status.envelope.data); /* there is no such handoff */
    } else if (sender->status.error.code == HANDOFF_OK) {
        assert_int_equal(sender->status.state, ways[way].end);
    } else {
        assert_true(handoff_state_is_live(sender->status.state)); /* as it is written */
    }
}

/* After the next start, on a disk that works: what was accepted goes on to its end. */
static void check_kept(const struct sender *sender, int way)
{
    struct row row;
    if (!read_row(sender, &row)) {
        assert_int_equal(sender->accepted, 0);
        return;
    }
    while (is_live(sender, HANDOFF_STATE_READY) || is_live(sender, HANDOFF_STATE_IN_FLIGHT))
        turn();
    if (is_live(sender, HANDOFF_STATE_AWAITING_ACK))
        assert_int_equal(say(sender, HANDOFF_WORD_ACK, NULL), HANDOFF_OK);
    row = stored(sender, ways[way].end);
    assert_int_equal(row.nrecorded, row.attempts);
    assert_string_equal(row.reason, way == REFUSED ? "refused" : "");
}

static bool run_with_fault(const struct disk_fault *with, long n)
{
    static struct sender senders[SENDERS];
    fault_at(with->kinds, n, with->lasting, with->result);
    send_all(senders, with->told);
    for (int i = 0; i < SENDERS; i++)
        check_told(&senders[i], i, with->told);
    close_engine(); /* the disk may still fail */
    bool reached = atomic_load(&fault.failures) > 0;
    fault_lift();
    stage.nevents = 0;
    open_engine();
    for (int i = 0; i < SENDERS; i++)
        check_kept(&senders[i], i);
    until_idle();
    return reached;
}

static void test_whichever_write_fails(void **state)
{
    (void)state;
    for (int i = 0; i < SENDERS; i++)
        behave(i, ways[i].script);
    for (size_t i = 0; i < sizeof disk_faults / sizeof disk_faults[0]; i++) {
        long n = 1;
        while (run_with_fault(&disk_faults[i], n))
            n++;
        assert_true(n > 5); /* the acceptances alone, in one group at best, come to more */
    }
}

static struct disk_fault fault_at_acceptance;

static void break_the_disk(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    on_accepted(waiter, status);
    fault_at(fault_at_acceptance.kinds, 1, true, fault_at_acceptance.result);
}

struct unwritten_end {
    const char *script;
    enum handoff_state state;
    const char *reason, *error;
};

static const struct unwritten_end unwritten_ends[] = {
    {"nack", HANDOFF_STATE_PARKED, "refused", "no room"},
    {"ack", HANDOFF_STATE_ACKNOWLEDGED, "", ""},
};

/* The sender is told of the disk, and what was told before; and nobody sees more, until the end is
   written after all. */
static void end_on_a_broken_disk(const struct disk_fault *with, const struct unwritten_end *end)
{
    static struct sender sender;
    struct handoff_live_view view;
    struct row row;
    behave(0, end->script);
    fault_at_acceptance = *with;
    prepare(&sender, "coder", 0);
    sender.waiter.accepted = break_the_disk;
    assert_int_equal(handoff_engine_deliver(stage.lane, &sender.submission, &sender.waiter, NULL),
                     HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.accepted, 1);
    assert_int_equal(sender.status.error.code, with->told);
    assert_int_equal(sender.status.state, HANDOFF_STATE_IN_FLIGHT);
    assert_int_equal(sender.status.attempts, 0);
    assert_true(
        handoff_live_read_view(handoff_engine_live(stage.engine), &sender.submission.id, &view));
    assert_int_equal(view.state, HANDOFF_STATE_IN_FLIGHT);
    assert_true(read_row(&sender, &row));
    assert_int_equal(row.state, HANDOFF_STATE_READY); /* a crash now would deliver it again */
    fault_lift();
    row = stored(&sender, end->state);
    assert_string_equal(row.reason, end->reason);
    assert_int_equal(row.nrecorded, 1);
    assert_string_equal(row.recorded[0].error, end->error);
    assert_int_equal(sender.settled, 1);
    temp_envelope_free(&sender.envelope);
}

static void test_an_end_on_a_broken_disk(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof disk_faults / sizeof disk_faults[0]; i++)
        for (size_t k = 0; k < sizeof unwritten_ends / sizeof unwritten_ends[0]; k++)
            end_on_a_broken_disk(&disk_faults[i], &unwritten_ends[k]);
}

/* The agent's word is heard, but not confirmed while it cannot be written, however often it is
   said. */
static void test_a_word_on_a_broken_disk(void **state)
{
    (void)state;
    behave(0, "202");
    for (size_t i = 0; i < sizeof disk_faults / sizeof disk_faults[0]; i++) {
        static struct sender sender;
        const struct disk_fault *with = &disk_faults[i];
        send_to(&sender, "coder");
        stored(&sender, HANDOFF_STATE_AWAITING_ACK);
        fault_at(with->kinds, 1, true, with->result);
        assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), with->told);
        assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), with->told);
        assert_int_equal(say(&sender, HANDOFF_WORD_NACK_FINAL, "coder"), with->told);
        assert_int_equal(sender.settled, 1);
        assert_int_equal(sender.status.error.code, with->told);
        assert_int_equal(sender.status.state, HANDOFF_STATE_AWAITING_ACK);
        fault_lift();
        assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
        assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).nrecorded, 1);
    }
}

/* ---- words that come while the store writes ----------------------------------------------------
 */

/* A job that keeps the writer until the lock is released. */
static struct gate {
    struct handoff_store_job job;
    pthread_mutex_t lock;
    bool passed;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum handoff_code run_gate(struct handoff_store_job *job, struct handoff_db *db,
                                  struct handoff_error *failure)
{
    (void)job;
    (void)db;
    pthread_mutex_lock(&gate.lock);
    pthread_mutex_unlock(&gate.lock);
    return handoff_error_clear(failure);
}

static void gate_passed(struct handoff_store_job *job)
{
    (void)job;
    gate.passed = true;
}

static void hold_the_writer(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    on_accepted(waiter, status);
    gate.passed = false;
    gate.job = (struct handoff_store_job){
        .mailbox = stage.lane->mailbox, .done = gate_passed, .run = run_gate};
    pthread_mutex_lock(&gate.lock);
    handoff_store_submit(stage.store, &gate.job);
}

/* The attempt's failure is on its way to the disk when the agent says no after all: each of the two
   writes must carry its own words. */
static void test_a_word_while_the_attempt_is_written(void **state)
{
    (void)state;
    static struct sender usual, sender;
    behave(0, "503,ack");
    send_and_wait(&usual, "coder");
    struct row expected = stored(&usual, HANDOFF_STATE_ACKNOWLEDGED);
    stage.nevents = 0;
    prepare(&sender, "coder", 0);
    sender.waiter.accepted = hold_the_writer;
    assert_int_equal(handoff_engine_deliver(stage.lane, &sender.submission, &sender.waiter, NULL),
                     HANDOFF_OK);
    while (count_results(HANDOFF_RESULT_HTTP) == 0)
        turn();
    struct speaker speaker;
    begin_to_say(&speaker, &sender, HANDOFF_WORD_NACK_FINAL, "changed my mind", NULL);
    while (count_moves(HANDOFF_STATE_PARKED) == 0)
        turn();
    assert_int_equal(speaker.told + sender.settled, 0); /* parked, but not written yet */
    pthread_mutex_unlock(&gate.lock);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    until_settled(&sender);
    while (!gate.passed)
        turn();
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_int_equal(row.nrecorded, 1);
    assert_int_equal(row.recorded[0].result, HANDOFF_RESULT_HTTP);
    assert_string_equal(row.recorded[0].error, expected.recorded[0].error);
    temp_envelope_free(&sender.envelope);
}

/* It was refused, and is parked in memory but not on the disk yet, when the agent acknowledges. */
static void test_acknowledged_while_its_parking_is_written(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "nack");
    prepare(&sender, "coder", 0);
    sender.waiter.accepted = hold_the_writer;
    assert_int_equal(handoff_engine_deliver(stage.lane, &sender.submission, &sender.waiter, NULL),
                     HANDOFF_OK);
    while (count_moves(HANDOFF_STATE_PARKED) == 0)
        turn();
    struct speaker speaker;
    begin_to_say(&speaker, &sender, HANDOFF_WORD_ACK, "", "coder");
    while (count_moves(HANDOFF_STATE_ACKNOWLEDGED) == 0)
        turn();
    assert_int_equal(speaker.told + sender.settled, 0);
    pthread_mutex_unlock(&gate.lock);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    while (!gate.passed)
        turn();
    assert_int_equal(stored(&sender, HANDOFF_STATE_ACKNOWLEDGED).nrecorded, 1);
    assert_int_equal(count_moves(HANDOFF_STATE_ACKNOWLEDGED), 1);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
    temp_envelope_free(&sender.envelope);
}

/* ---- memory that runs out ----------------------------------------------------------------------
 */

static void note_accepted(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct sender *sender = (struct sender *)waiter;
    sender->accepted++;
    sender->status = *status;
}

static void note_settled(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct sender *sender = (struct sender *)waiter;
    sender->settled++;
    sender->status = *status;
}

static void test_whichever_allocation_of_a_delivery_fails(void **state)
{
    (void)state;
    bool reached = true;
    long n = 1;
    behave(0, "503,ack");
    for (; reached; n++) {
        static struct sender sender;
        struct row row;
        prepare(&sender, "coder", 0);
        sender.waiter.accepted = note_accepted; /* to look costs memory, too */
        sender.waiter.settled = note_settled;
        failing_memory_at(n);
        enum handoff_code code =
            handoff_engine_deliver(stage.lane, &sender.submission, &sender.waiter, NULL);
        while (code == HANDOFF_OK && !sender.settled)
            turn();
        reached = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        temp_envelope_free(&sender.envelope);
        stage.nevents = 0;
        if (code != HANDOFF_OK) {
            assert_int_equal(code, HANDOFF_ERR_OUT_OF_MEMORY);
            assert_false(read_row(&sender, &row));
        } else if (sender.accepted) {
            assert_int_equal(sender.status.error.code, HANDOFF_OK);
            stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
        } else {
            assert_int_equal(sender.status.error.code, HANDOFF_ERR_OUT_OF_MEMORY);
        }
        assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
    }
    assert_true(n > 3);
}

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
    *poller = (struct poller){
        .request = {.lane = stage.lane,
                    .agent = handoff_agents_find(stage.agents, base_span_text("coder")),
                    .told = on_poll_told}};
    handoff_inbox_poll(&poller->request, 60000);
}

/* The handoff waits, or the poller does; the copy that the poller is to get does not fit. It is
   offered again, and nobody is forgotten. */
static void test_no_memory_for_a_lease(void **state)
{
    (void)state;
    stage.options[0].url = NULL;
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
    static struct sender sender;
    struct poller poller;
    send_to(&sender, "coder");
    while (!sender.accepted)
        turn();
    failing_memory_at(1);
    poll_coder(&poller);
    while (!poller.told)
        turn();
    assert_true(atomic_load(&failing_memory_hit));
    failing_memory_at(0);
    assert_non_null(poller.request.envelope);
    base_free(poller.request.envelope);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, NULL), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_whichever_allocation_of_a_start_fails(void **state)
{
    (void)state;
    enum { MANY = 3 };
    static struct sender senders[MANY];
    long n = 1;
    bool reached = true;
    behave(0, "silent");
    for (int i = 0; i < MANY; i++)
        send_to(&senders[i], "coder");
    for (int i = 0; i < MANY; i++)
        while (!senders[i].accepted)
            turn();
    for (; reached; n++) {
        close_engine();
        open_idle_engine();
        failing_memory_at(n);
        enum handoff_code code = handoff_engine_resume(stage.engine, &stage.lane, 1, NULL);
        reached = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        if (code != HANDOFF_OK)
            assert_int_equal(code, HANDOFF_ERR_OUT_OF_MEMORY);
        else
            assert_int_equal(handoff_engine_in_flight(stage.engine), MANY);
        stage.nevents = 0;
    }
    assert_true(n > 3);
    behave(0, "ack");
    restart();
    for (int i = 0; i < MANY; i++)
        stored(&senders[i], HANDOFF_STATE_ACKNOWLEDGED);
}

/* The whole way of a request, as a host goes it. */
struct asked {
    unsigned answers;
    enum handoff_code code;
    bool with_body;
};

static void on_answer(void *context, const struct handoff_result *result)
{
    struct asked *asked = context;
    asked->answers++;
    asked->code = result->error.code;
    asked->with_body = result->body != NULL;
}

static void turn_loop(struct handoff_loop *loop)
{
    int64_t wait = handoff_loop_wait_ms(loop);
    struct pollfd ready = {.fd = handoff_loop_fd(loop), .events = POLLIN};
    poll(&ready, 1, wait < 0 || wait > 1000 ? 1000 : (int)wait);
    handoff_loop_run(loop);
}

static unsigned count_text(const struct handoff_text *text, const char *word)
{
    unsigned count = 0;
    for (const char *at = text->data; (at = strstr(at, word)) != NULL; at++)
        count++;
    return count;
}

static void open_client(struct handoff_client **client, struct handoff_loop **loop)
{
    stage.directory = temp_directory();
    const struct handoff_options options = {
        .storage_path = stage.directory, .durability_none = true, .encoding = "estimate"};
    snprintf(stage.urls[0], sizeof stage.urls[0], "http://127.0.0.1:%d/503,ack", receiver.port);
    struct handoff_agent_options agent = handoff_agent_defaults("coder", stage.urls[0]);
    agent.backoff_base_ms = agent.backoff_max_ms = 1;
    const struct handoff_configuration configuration = {.agents = &agent, .nagents = 1};
    assert_int_equal(handoff_client_open(client, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_client_configure(*client, &configuration, NULL), HANDOFF_OK);
    assert_int_equal(handoff_loop_open(loop, *client, NULL), HANDOFF_OK);
}

/* One request while the n-th allocation fails, on a loop that has kept no memory of an earlier one.
 * false: there are not so many. */
static bool send_without_memory(struct handoff_client *client, struct handoff_loop **looped, long n,
                                bool respond_async, unsigned *promised)
{
    static const char body[] = "{\"source_agent\":\"analyst\",\"target_agent\":\"coder\","
                               "\"task_id\":\"t\",\"task_summary\":\"s\"}";
    char key[24];
    while (handoff_client_in_flight(client) > 0)
        turn_loop(*looped);
    handoff_loop_close(looped);
    assert_int_equal(handoff_loop_open(looped, client, NULL), HANDOFF_OK);
    struct handoff_loop *loop = *looped;
    struct asked asked = {0};
    snprintf(key, sizeof key, "%d-%ld", respond_async, n);
    const struct handoff_ask ask = {.body = body,
                                    .size = sizeof body - 1,
                                    .idempotency_key = key,
                                    .respond_async = respond_async};
    failing_memory_at(n);
    handoff_send(loop, &ask, on_answer, &asked);
    while (!asked.answers || handoff_loop_pending(loop) > 0)
        turn_loop(loop);
    bool reached = atomic_load(&failing_memory_hit);
    failing_memory_at(0);
    assert_int_equal(asked.answers, 1);
    if (asked.code != HANDOFF_OK)
        assert_int_equal(asked.code, HANDOFF_ERR_OUT_OF_MEMORY);
    else
        assert_true(asked.with_body);
    *promised += asked.code == HANDOFF_OK;
    return reached;
}

static void test_whichever_allocation_of_a_request_fails(void **state)
{
    (void)state;
    struct handoff_client *client;
    struct handoff_loop *loop;
    struct handoff_text text;
    const struct handoff_list_query query = {.task_id = "t", .limit = 1000};
    unsigned promised = 0;
    open_client(&client, &loop);
    for (int respond_async = 0; respond_async < 2; respond_async++) {
        long n = 1;
        while (send_without_memory(client, &loop, n, respond_async, &promised))
            n++;
        assert_true(n > 5);
    }
    while (handoff_client_in_flight(client) > 0)
        turn_loop(loop);
    handoff_loop_close(&loop); /* the last writes are made */
    assert_int_equal(handoff_read_list(client, &query, &text, NULL), HANDOFF_OK);
    unsigned stored_in_all = count_text(&text, "\"state\":");
    assert_int_equal(count_text(&text, "\"state\":\"acknowledged\""), stored_in_all);
    assert_true(promised >= 2 && stored_in_all >= promised);
    handoff_text_free(&text);
    handoff_client_close(&client);
    temp_remove(stage.directory);
}

/* ---- shutting down ------------------------------------------------------------------------------
 */

/* Those who poll are told to go: nobody waits for their time to run out, and nothing hangs. */
static void test_stopping_dismisses_pollers(void **state)
{
    (void)state;
    struct poller waiting, late;
    stage.options[0].url = NULL;
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
    poll_coder(&waiting);
    handoff_lane_stop(stage.lane);
    poll_coder(&late);
    while (!waiting.told || !late.told)
        turn();
    assert_null(waiting.request.envelope);
    assert_null(late.request.envelope);
    poll_coder(&waiting); /* told by the closing itself */
    handoff_lane_free(&stage.lane);
    assert_int_equal(waiting.told, 1);
    assert_int_equal(handoff_lane_new(&stage.lane, stage.engine, NULL, NULL), HANDOFF_OK);
}

static void test_a_stopped_lane_takes_nothing(void **state)
{
    (void)state;
    static struct sender sender;
    struct row row;
    handoff_lane_stop(stage.lane);
    assert_int_equal(try_send(&sender, "coder", NULL), HANDOFF_ERR_SHUTTING_DOWN);
    assert_false(read_row(&sender, &row));
}

/* The next start awaits the acknowledgement: it is not refused for good, and not lost. */
static void test_a_word_after_the_lanes_stopped(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    handoff_lane_stop(stage.lane);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_ERR_SHUTTING_DOWN);
    restart();
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
}

/* An agent that has announced its acknowledgement may ask for more time after a restart, too. */
static void test_more_time_after_a_restart(void **state)
{
    (void)state;
    static struct sender sender;
    behave(0, "202");
    send_to(&sender, "coder");
    stored(&sender, HANDOFF_STATE_AWAITING_ACK);
    restart();
    assert_int_equal(say(&sender, HANDOFF_WORD_EXTEND, "coder"), HANDOFF_OK);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULTY(test_whichever_write_fails),
        FAULTY(test_an_end_on_a_broken_disk),
        FAULTY(test_a_word_on_a_broken_disk),
        STAGED(test_a_word_while_the_attempt_is_written),
        STAGED(test_acknowledged_while_its_parking_is_written),
        STAGED(test_whichever_allocation_of_a_delivery_fails),
        STAGED(test_no_memory_for_a_lease),
        STAGED(test_whichever_allocation_of_a_start_fails),
        cmocka_unit_test(test_whichever_allocation_of_a_request_fails),
        STAGED(test_stopping_dismisses_pollers),
        STAGED(test_a_stopped_lane_takes_nothing),
        STAGED(test_a_word_after_the_lanes_stopped),
        STAGED(test_more_time_after_a_restart),
    };
    fault_vfs_register();
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
