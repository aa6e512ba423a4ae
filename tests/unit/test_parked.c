/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of parked handoffs: replayed, discarded, or acknowledged after all. */
/* wraps: handoff_store_get_handoff */
#include "tests/support/delivery_stage.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client/deliver/decide.h"
#include "lib/base/memory.h"

static void park(struct sender *sender)
{
    stage.options[0].breaker_failures = 0; /* never opens: it would stand in the way */
    behave(0, "503");
    send_and_wait(sender, "coder");
    assert_int_equal(sender->status.state, HANDOFF_STATE_PARKED);
    stored(sender, HANDOFF_STATE_PARKED);
    while (handoff_live_state(handoff_engine_live(stage.engine), &sender->submission.id) != 0)
        turn();
    stage.nevents = 0;
    sender->settled = sender->accepted = 0;
}

static const struct handoff_author no_use = {.who = "@operator", .reason = "no use"};

static enum handoff_code decide(struct sender *sender, enum handoff_decision decision,
                                const char *target, const char *reason, struct handoff_error *error)
{
    handoff_engine_decide(stage.lane, &sender->submission.id, decision, base_span_text(target),
                          reason ? &(struct handoff_author){.who = "@operator", .reason = reason}
                                 : NULL,
                          &sender->waiter);
    enum handoff_code code = until_decided(sender);
    if (error)
        *error = sender->error;
    return code;
}

static void test_replayed_to_the_same_agent(void **state)
{
    (void)state;
    static struct sender sender;
    park(&sender);
    behave(0, "503,503,503,503,ack"); /* the fifth attempt in all: the count goes on */
    assert_int_equal(decide(&sender, HANDOFF_DECISION_REPLAY, NULL, NULL, NULL), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(row.nrecorded, 5);
    assert_int_equal(stage.events[0].event.kind, HANDOFF_EVENT_DECIDED);
    assert_int_equal(move_at(1)->from, HANDOFF_STATE_PARKED);
    assert_int_equal(move_at(1)->to, HANDOFF_STATE_READY);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
}

static void test_replayed_to_another(void **state)
{
    (void)state;
    static struct sender sender;
    park(&sender);
    assert_int_equal(decide(&sender, HANDOFF_DECISION_REPLAY, "reviewer", NULL, NULL), HANDOFF_OK);
    until_settled(&sender);
    assert_string_equal(sender.status.target, "reviewer");
    struct row row = stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_string_equal(row.target, "reviewer");
}

static void test_a_replay_has_all_its_attempts_and_is_parked_again(void **state)
{
    (void)state;
    static struct sender sender;
    park(&sender);
    assert_int_equal(decide(&sender, HANDOFF_DECISION_REPLAY, NULL, NULL, NULL), HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_PARKED);
    assert_int_equal(sender.status.attempts, 8);
}

static void test_discarded_with_a_reason(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_error error;
    park(&sender);
    assert_int_equal(decide(&sender, HANDOFF_DECISION_DISCARD, NULL, "asked twice", NULL),
                     HANDOFF_OK);
    until_settled(&sender);
    assert_int_equal(sender.status.state, HANDOFF_STATE_DISCARDED);
    assert_false(move_at(1)->replaced);
    struct row row = stored(&sender, HANDOFF_STATE_DISCARDED);
    assert_string_equal(row.reason, "asked twice");
    assert_int_equal(decide(&sender, HANDOFF_DECISION_REPLAY, NULL, NULL, &error),
                     HANDOFF_ERR_CONFLICT);
    assert_ptr_equal(strstr(error.seen, "discarded; discard by @operator at "), error.seen);
}

/* It is held, and another is ready to step into its place. */
static void hold_and_prepare(struct sender *old, struct sender *next)
{
    park(old);
    handoff_engine_hold(stage.lane, &old->submission.id, &old->waiter);
    assert_int_equal(until_decided(old), HANDOFF_OK);
    prepare(next, "coder", 0);
}

static enum handoff_code replace(struct sender *old, struct sender *next)
{
    enum handoff_code code =
        handoff_engine_replace(stage.lane, &old->waiter, &next->submission, &next->waiter, NULL);
    temp_envelope_free(&next->envelope);
    return code;
}

static void test_replaced_is_told_as_such(void **state)
{
    (void)state;
    static struct sender old, next;
    char id[BASE_UUID_TEXT], reason[64];
    hold_and_prepare(&old, &next);
    behave(0, "ack");
    assert_int_equal(replace(&old, &next), HANDOFF_OK);
    until_settled(&old);
    assert_int_equal(move_at(0)->to, HANDOFF_STATE_DISCARDED);
    assert_true(move_at(0)->replaced);
    struct row row = stored(&old, HANDOFF_STATE_DISCARDED);
    base_uuid_format(&next.submission.id, id);
    snprintf(reason, sizeof reason, "replaced by %s", id);
    assert_memory_equal(row.reason, reason, strlen(row.reason)); /* a row here cuts it */
    assert_true(strlen(row.reason) > sizeof "replaced by");
    until_settled(&next);
    stored(&next, HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_what_cannot_be_stored_replaces_nothing(void **state)
{
    (void)state;
    static struct sender old, next;
    struct base_uuid unknown = base_uuid_make(&stage.ids);
    hold_and_prepare(&old, &next);
    next.submission.contribution = base_span_text("{}");
    next.submission.parents = &unknown;
    next.submission.nparents = 1;
    next.submission.hop = 2;
    assert_int_equal(replace(&old, &next), HANDOFF_OK);
    until_settled(&next);
    assert_int_equal(next.status.error.code, HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(old.settled, 0);
    handoff_engine_let_go(&old.waiter);
    stored(&old, HANDOFF_STATE_PARKED);
    assert_int_equal(decide(&old, HANDOFF_DECISION_DISCARD, NULL, "after all", NULL), HANDOFF_OK);
    until_settled(&old);
    stored(&old, HANDOFF_STATE_DISCARDED);
}

static void test_acknowledged_after_all(void **state)
{
    (void)state;
    static struct sender sender;
    park(&sender);
    assert_int_equal(decide(&sender, HANDOFF_DECISION_ACKNOWLEDGE, NULL, NULL, NULL), HANDOFF_OK);
    until_settled(&sender);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_a_late_word_of_the_agent_ends_the_parking(void **state)
{
    (void)state;
    static struct sender sender;
    park(&sender);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "analyst"), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "reviewer"), HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(say(&sender, HANDOFF_WORD_NACK_FINAL, "coder"), HANDOFF_OK); /* it is parked */
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_only_one_decides(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_error error;
    park(&sender);
    behave(0, "silent");
    assert_int_equal(decide(&sender, HANDOFF_DECISION_REPLAY, NULL, NULL, NULL), HANDOFF_OK);
    static struct sender other;
    prepare(&other, "coder", 0);
    temp_envelope_free(&other.envelope);
    other.submission.id = sender.submission.id;
    assert_int_equal(decide(&other, HANDOFF_DECISION_DISCARD, NULL, NULL, &error),
                     HANDOFF_ERR_CONFLICT);
    handoff_waiter_withdraw(&sender.waiter);
}

/* The first holds it, as an edit does, and the second waits for what becomes of that. */
static void hold_and_decide(struct sender *first, struct sender *second)
{
    park(first);
    handoff_engine_hold(stage.lane, &first->submission.id, &first->waiter);
    assert_int_equal(until_decided(first), HANDOFF_OK);
    prepare(second, "coder", 0);
    temp_envelope_free(&second->envelope);
    second->submission.id = first->submission.id;
    handoff_engine_decide(stage.lane, &second->submission.id, HANDOFF_DECISION_DISCARD,
                          base_span(NULL, 0), NULL, &second->waiter);
    while (TAILQ_EMPTY(&stage.lane->contenders))
        turn();
    assert_false(second->decided);
}

static void test_the_second_decides_where_the_first_let_it_go(void **state)
{
    (void)state;
    static struct sender first, second;
    hold_and_decide(&first, &second);
    handoff_engine_let_go(&first.waiter);
    assert_int_equal(until_decided(&second), HANDOFF_OK);
    until_settled(&second);
    stored(&first, HANDOFF_STATE_DISCARDED);
}

static void test_the_second_does_not_wait_for_ever(void **state)
{
    (void)state;
    static struct sender first, second;
    hold_and_decide(&first, &second);
    let_pass(6000);
    assert_int_equal(until_decided(&second), HANDOFF_ERR_CONFLICT);
    handoff_engine_let_go(&first.waiter);
    stored(&first, HANDOFF_STATE_PARKED);
}

static void test_a_stop_ends_the_wait_of_the_second(void **state)
{
    (void)state;
    static struct sender first, second;
    hold_and_decide(&first, &second);
    restart();
    assert_int_equal(until_decided(&second), HANDOFF_ERR_SHUTTING_DOWN);
    stored(&first, HANDOFF_STATE_PARKED);
}

/* ---- two decide at the same time, on two lanes -------------------------------------------------
 */

/* While the one decides, at its n-th allocation, on its lane or on a reader thread, the other
   decides too, and what comes of that comes to its end: the worst that can happen between two steps
   of the first. */
static struct {
    atomic_long countdown;
    struct handoff_lane *lane;
    enum handoff_decision decision;
    struct sender *sender;
    struct handoff_waiter waiter;
    enum handoff_code code;
    bool decided, happened;
} meanwhile;

static void run_lane(struct handoff_lane *lane)
{
    struct pollfd ready = {.fd = base_loop_fd(lane->loop), .events = POLLIN};
    poll(&ready, 1, 10);
    base_loop_turn(lane->loop, 0);
}

static void nothing(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    (void)waiter;
    (void)status;
}

static void decided_meanwhile(struct handoff_waiter *waiter, const struct handoff_error *error)
{
    (void)waiter;
    meanwhile.code = error->code;
    meanwhile.decided = true;
}

static void decide_meanwhile(void)
{
    const struct base_uuid *id = &meanwhile.sender->submission.id;
    meanwhile.happened = true;
    meanwhile.decided = false;
    meanwhile.waiter = (struct handoff_waiter){
        .decided = decided_meanwhile, .accepted = nothing, .settled = nothing};
    handoff_engine_decide(meanwhile.lane, id, meanwhile.decision, base_span(NULL, 0), &no_use,
                          &meanwhile.waiter);
    while (!meanwhile.decided) {
        let_pass(100); /* it waits for the first, which stands still */
        run_lane(meanwhile.lane);
    }
    while (meanwhile.code == HANDOFF_OK &&
           handoff_live_state(handoff_engine_live(stage.engine), id) != 0)
        run_lane(meanwhile.lane);
}

static void *resize_meanwhile(void *pointer, size_t size)
{
    if (atomic_load(&meanwhile.countdown) > 0 && atomic_fetch_sub(&meanwhile.countdown, 1) == 1)
        decide_meanwhile();
    return realloc(pointer, size);
}

/* false: the first decision has not so many steps. */
static bool decide_twice(enum handoff_decision first, enum handoff_decision second, long step)
{
    static const struct base_allocator interrupted = {resize_meanwhile, free};
    static struct sender sender;
    behave(0, "503"); /* parked after one attempt, acknowledged at the second */
    stage.options[0].retries = 0;
    park(&sender);
    behave(0, "503,ack");
    meanwhile.happened = false;
    meanwhile.decision = second;
    meanwhile.sender = &sender;
    meanwhile.countdown = step;
    base_allocator_set(&interrupted);
    enum handoff_code code = decide(&sender, first, NULL, "no use either", NULL);
    meanwhile.countdown = 0;
    while (code == HANDOFF_OK && !sender.settled)
        turn();
    base_allocator_set(NULL);
    if (meanwhile.happened) { /* exactly one of them decided */
        assert_int_equal((code == HANDOFF_OK) + (meanwhile.code == HANDOFF_OK), 1);
        assert_int_equal(code == HANDOFF_OK ? meanwhile.code : code, HANDOFF_ERR_CONFLICT);
    }
    bool replayed = (code == HANDOFF_OK ? first : second) == HANDOFF_DECISION_REPLAY;
    struct row row =
        stored(&sender, replayed ? HANDOFF_STATE_ACKNOWLEDGED : HANDOFF_STATE_DISCARDED);
    assert_int_equal(row.nrecorded, replayed ? 2 : 1);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
    return meanwhile.happened;
}

static void test_two_lanes_decide(void **state)
{
    (void)state;
    static const enum handoff_decision pairs[][2] = {
        {HANDOFF_DECISION_REPLAY, HANDOFF_DECISION_REPLAY},
        {HANDOFF_DECISION_REPLAY, HANDOFF_DECISION_DISCARD},
        {HANDOFF_DECISION_DISCARD, HANDOFF_DECISION_REPLAY}};
    assert_int_equal(handoff_lane_new(&meanwhile.lane, stage.engine, NULL, NULL), HANDOFF_OK);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        long step = 1;
        while (decide_twice(pairs[i][0], pairs[i][1], step))
            step++;
        assert_true(step > 3);
    }
    handoff_lane_free(&meanwhile.lane);
}

/* ---- an acknowledgement meets a decision -------------------------------------------------------
 */

static void decided_as_expected(struct handoff_waiter *waiter, const struct handoff_error *error)
{
    (void)waiter;
    assert_int_equal(error->code, HANDOFF_OK);
}

/* Says it on the stage's lane; what the other lane has to do for it is done. */
static enum handoff_code finish_saying(struct speaker *speaker)
{
    while (!speaker->told) {
        run_lane(stage.lane);
        run_lane(meanwhile.lane);
    }
    return speaker->reply.error.code;
}

static struct speaker acknowledgement_of(const struct sender *sender)
{
    return (struct speaker){.reply = {.lane = stage.lane,
                                      .told = on_told,
                                      .id = sender->submission.id,
                                      .word = HANDOFF_WORD_ACK,
                                      .agent = base_span_text("coder")}};
}

static void until_gone(const struct sender *sender)
{
    while (handoff_live_state(handoff_engine_live(stage.engine), &sender->submission.id) != 0) {
        run_lane(stage.lane);
        run_lane(meanwhile.lane);
    }
}

/* The row was read as parked when the replay begins on another lane: the word is about the replayed
   one, and is taken once. */
static void test_acknowledged_while_it_is_replayed(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_waiter waiter = {
        .decided = decided_as_expected, .accepted = nothing, .settled = nothing};
    park(&sender);
    behave(0, "silent");
    assert_int_equal(handoff_lane_new(&meanwhile.lane, stage.engine, NULL, NULL), HANDOFF_OK);
    struct speaker speaker = acknowledgement_of(&sender);
    handoff_engine_reply(stage.engine, &speaker.reply);
    handoff_engine_decide(meanwhile.lane, &sender.submission.id, HANDOFF_DECISION_REPLAY,
                          base_span(NULL, 0), NULL, &waiter);
    assert_int_equal(finish_saying(&speaker), HANDOFF_OK);
    assert_int_equal(speaker.reply.view.state, HANDOFF_STATE_ACKNOWLEDGED);
    until_gone(&sender);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_ACKNOWLEDGED), 1);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
    handoff_lane_free(&meanwhile.lane);
}

/* The next reading of a row waits until it is let go. */
static struct {
    atomic_bool waits;
    sem_t begun, let_go;
} reading;

enum handoff_code __real_handoff_store_get_handoff(struct handoff_store *store,
                                                   const struct base_uuid *id,
                                                   struct base_arena *arena,
                                                   struct handoff_stored *stored,
                                                   struct handoff_error *error);
enum handoff_code __wrap_handoff_store_get_handoff(struct handoff_store *store,
                                                   const struct base_uuid *id,
                                                   struct base_arena *arena,
                                                   struct handoff_stored *stored,
                                                   struct handoff_error *error);

enum handoff_code __wrap_handoff_store_get_handoff(struct handoff_store *store,
                                                   const struct base_uuid *id,
                                                   struct base_arena *arena,
                                                   struct handoff_stored *stored,
                                                   struct handoff_error *error)
{
    if (atomic_exchange(&reading.waits, false)) {
        sem_post(&reading.begun);
        sem_wait(&reading.let_go);
    }
    return __real_handoff_store_get_handoff(store, id, arena, stored, error);
}

/* It was parked when it was looked for, so its row is read; by then another lane has replayed it.
 */
static void test_acknowledged_when_it_has_just_been_replayed(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_waiter waiter = {
        .decided = decided_as_expected, .accepted = nothing, .settled = nothing};
    sem_init(&reading.begun, 0, 0);
    sem_init(&reading.let_go, 0, 0);
    park(&sender);
    behave(0, "silent");
    assert_int_equal(handoff_lane_new(&meanwhile.lane, stage.engine, NULL, NULL), HANDOFF_OK);
    struct speaker speaker = acknowledgement_of(&sender);
    atomic_store(&reading.waits, true);
    handoff_engine_reply(stage.engine, &speaker.reply);
    sem_wait(&reading.begun);
    handoff_engine_decide(meanwhile.lane, &sender.submission.id, HANDOFF_DECISION_REPLAY,
                          base_span(NULL, 0), NULL, &waiter);
    while (count_moves(HANDOFF_STATE_IN_FLIGHT) == 0)
        run_lane(meanwhile.lane);
    sem_post(&reading.let_go);
    assert_int_equal(finish_saying(&speaker), HANDOFF_OK);
    assert_int_equal(speaker.reply.view.state, HANDOFF_STATE_ACKNOWLEDGED);
    until_gone(&sender);
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    handoff_lane_free(&meanwhile.lane);
}

/* A discard that was first stays: what is discarded is over. */
static void test_acknowledged_while_it_is_discarded(void **state)
{
    (void)state;
    static struct sender sender;
    struct handoff_waiter waiter = {
        .decided = decided_as_expected, .accepted = nothing, .settled = nothing};
    park(&sender);
    assert_int_equal(handoff_lane_new(&meanwhile.lane, stage.engine, NULL, NULL), HANDOFF_OK);
    struct speaker speaker = acknowledgement_of(&sender);
    handoff_engine_reply(stage.engine, &speaker.reply);
    handoff_engine_decide(meanwhile.lane, &sender.submission.id, HANDOFF_DECISION_DISCARD,
                          base_span(NULL, 0), &no_use, &waiter);
    assert_int_equal(finish_saying(&speaker), HANDOFF_ERR_CONFLICT);
    assert_string_equal(speaker.reply.error.seen, "discarded");
    until_gone(&sender);
    stored(&sender, HANDOFF_STATE_DISCARDED);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_ACKNOWLEDGED), 0);
    handoff_lane_free(&meanwhile.lane);
}

/* Held for an edit, it is parked still, and whoever holds it is told of its end. */
static void test_acknowledged_while_it_is_held(void **state)
{
    (void)state;
    static struct sender sender;
    park(&sender);
    handoff_engine_hold(stage.lane, &sender.submission.id, &sender.waiter);
    assert_int_equal(until_decided(&sender), HANDOFF_OK);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    assert_int_equal(sender.settled, 1);
    assert_int_equal(sender.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    handoff_engine_let_go(&sender.waiter); /* harmless by then */
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
    assert_int_equal(count_outcomes(HANDOFF_OUTCOME_ACKNOWLEDGED), 1);
}

/* It is held, and the agent's acknowledgement is on its way to the disk. */
static void hold_and_acknowledge(struct sender *sender, struct speaker *speaker)
{
    stage.nevents = 0;
    park(sender);
    handoff_engine_hold(stage.lane, &sender->submission.id, &sender->waiter);
    assert_int_equal(until_decided(sender), HANDOFF_OK);
    begin_to_say(speaker, sender, HANDOFF_WORD_ACK, "", "coder");
    while (count_moves(HANDOFF_STATE_ACKNOWLEDGED) == 0)
        turn();
    assert_int_equal(speaker->told, 0);
}

static void test_decided_while_its_acknowledgement_is_written(void **state)
{
    (void)state;
    static struct sender replaced, released, next;
    struct speaker speaker;
    hold_and_acknowledge(&replaced, &speaker);
    prepare(&next, "coder", 0);
    assert_int_equal(replace(&replaced, &next), HANDOFF_ERR_CONFLICT);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    assert_int_equal(replaced.status.state, HANDOFF_STATE_ACKNOWLEDGED);
    hold_and_acknowledge(&released, &speaker);
    handoff_engine_let_go(&released.waiter);
    assert_int_equal(until_replied(&speaker), HANDOFF_OK);
    stored(&released, HANDOFF_STATE_ACKNOWLEDGED);
}

/* Whoever acknowledges is there, however late. */
static void test_a_late_acknowledgement_closes_the_circuit(void **state)
{
    (void)state;
    static struct sender sender, next;
    stage.options[0].retries = 0;
    stage.options[0].breaker_failures = 1;
    behave(0, "503");
    send_and_wait(&sender, "coder");
    stored(&sender, HANDOFF_STATE_PARKED);
    behave(0, "ack");
    assert_int_equal(try_send(&next, "coder", NULL), HANDOFF_ERR_CIRCUIT_OPEN);
    assert_int_equal(say(&sender, HANDOFF_WORD_ACK, "coder"), HANDOFF_OK);
    send_and_wait(&next, "coder");
    assert_int_equal(next.status.state, HANDOFF_STATE_ACKNOWLEDGED);
}

static void test_refusals(void **state)
{
    (void)state;
    static struct sender sender, stranger;
    struct handoff_error error;
    park(&sender);
    assert_int_equal(decide(&sender, HANDOFF_DECISION_REPLAY, "nobody", NULL, &error),
                     HANDOFF_ERR_UNKNOWN_AGENT);
    assert_string_equal(error.seen, "nobody");
    prepare(&stranger, "coder", 0);
    temp_envelope_free(&stranger.envelope);
    assert_int_equal(decide(&stranger, HANDOFF_DECISION_REPLAY, NULL, NULL, &error),
                     HANDOFF_ERR_NOT_FOUND);
    struct row row = stored(&sender, HANDOFF_STATE_PARKED);
    assert_int_equal(row.attempts, 4);
}

static void test_a_replay_goes_on_after_a_restart(void **state)
{
    (void)state;
    static struct sender sender;
    park(&sender);
    behave(0, "silent");
    assert_int_equal(decide(&sender, HANDOFF_DECISION_REPLAY, NULL, NULL, NULL), HANDOFF_OK);
    while (count_moves(HANDOFF_STATE_IN_FLIGHT) == 0)
        turn();
    behave(0, "ack");
    restart();
    stored(&sender, HANDOFF_STATE_ACKNOWLEDGED);
}

/* An acknowledgement, or a cancel, that comes while its replacement is being written: the store
   will have it as replaced, so neither may be confirmed. */
static void test_no_word_counts_while_it_is_being_replaced(void **state)
{
    (void)state;
    static const enum handoff_word words[] = {HANDOFF_WORD_ACK, HANDOFF_WORD_CANCEL};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        static struct sender old, next;
        struct speaker speaker;
        hold_and_prepare(&old, &next);
        behave(0, "ack");
        begin_to_say(&speaker, &old, words[i], "", NULL);
        speaker.reply.words = "";
        assert_int_equal(replace(&old, &next), HANDOFF_OK); /* the word is in the mailbox */
        assert_int_equal(until_replied(&speaker), HANDOFF_ERR_CONFLICT);
        until_settled(&old);
        assert_int_equal(old.status.state, HANDOFF_STATE_DISCARDED);
        stored(&old, HANDOFF_STATE_DISCARDED);
        until_settled(&next);
        stored(&next, HANDOFF_STATE_ACKNOWLEDGED);
        stage.nevents = 0;
    }
}

/* ---- told on another thread -------------------------------------------------------------------
 */

/* A lane whose thread does nothing but wait for what it is told. */
static struct {
    struct handoff_lane *lane;
    atomic_bool over;
    atomic_uint told, too_early;
} quick;

static void told_quickly(struct handoff_reply *reply)
{
    if (a_lane_has_it(&reply->id))
        atomic_fetch_add(&quick.too_early, 1);
    atomic_fetch_add(&quick.told, 1);
}

static void *listen_quickly(void *unused)
{
    (void)unused;
    while (!atomic_load(&quick.over))
        base_loop_turn(quick.lane->loop, 0);
    return NULL;
}

/* The lane of the handoff goes on when the other thread was told. */
static void settled_and_wait(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    (void)status;
    ((struct sender *)waiter)->settled++;
    while (atomic_load(&quick.told) == 0)
        sched_yield();
}

static void test_who_is_told_that_it_is_parked_finds_it_on_no_lane(void **state)
{
    static struct sender sender;
    pthread_t thread;
    (void)state;
    memset(&quick, 0, sizeof quick);
    behave(0, "silent");
    assert_int_equal(handoff_lane_new(&quick.lane, stage.engine, NULL, NULL), HANDOFF_OK);
    send_to(&sender, "coder");
    while (!sender.accepted)
        turn();
    sender.waiter.settled = settled_and_wait;
    struct speaker speaker = {.reply = {.lane = quick.lane,
                                        .told = told_quickly,
                                        .id = sender.submission.id,
                                        .word = HANDOFF_WORD_NACK_FINAL,
                                        .agent = base_span_text("coder")}};
    handoff_engine_reply(stage.engine, &speaker.reply);
    assert_int_equal(pthread_create(&thread, NULL, listen_quickly, NULL), 0);
    until_settled(&sender);
    atomic_store(&quick.over, true);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&quick.told), 1);
    assert_int_equal(atomic_load(&quick.too_early), 0);
    handoff_lane_free(&quick.lane);
}

static void test_who_is_told_that_a_replay_is_refused_finds_it_on_no_lane(void **state)
{
    static struct sender sender;
    (void)state;
    park(&sender);
    handoff_engine_decide(stage.lane, &sender.submission.id, HANDOFF_DECISION_REPLAY,
                          base_span_text("nobody"), NULL, &sender.waiter);
    while (!sender.decided)
        turn();
    assert_int_equal(sender.error.code, HANDOFF_ERR_UNKNOWN_AGENT);
    assert_false(sender.was_on_a_lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(test_who_is_told_that_it_is_parked_finds_it_on_no_lane),
        STAGED(test_who_is_told_that_a_replay_is_refused_finds_it_on_no_lane),
        STAGED(test_replayed_to_the_same_agent),
        STAGED(test_replayed_to_another),
        STAGED(test_a_replay_has_all_its_attempts_and_is_parked_again),
        STAGED(test_discarded_with_a_reason),
        STAGED(test_replaced_is_told_as_such),
        STAGED(test_what_cannot_be_stored_replaces_nothing),
        STAGED(test_no_word_counts_while_it_is_being_replaced),
        STAGED(test_acknowledged_after_all),
        STAGED(test_a_late_word_of_the_agent_ends_the_parking),
        STAGED(test_only_one_decides),
        STAGED(test_the_second_decides_where_the_first_let_it_go),
        STAGED(test_the_second_does_not_wait_for_ever),
        STAGED(test_a_stop_ends_the_wait_of_the_second),
        STAGED(test_two_lanes_decide),
        STAGED(test_acknowledged_while_it_is_replayed),
        STAGED(test_acknowledged_when_it_has_just_been_replayed),
        STAGED(test_acknowledged_while_it_is_discarded),
        STAGED(test_acknowledged_while_it_is_held),
        STAGED(test_decided_while_its_acknowledgement_is_written),
        STAGED(test_a_late_acknowledgement_closes_the_circuit),
        STAGED(test_refusals),
        STAGED(test_a_replay_goes_on_after_a_restart),
    };
    return cmocka_run_group_tests(tests, receiver_start, receiver_stop);
}
