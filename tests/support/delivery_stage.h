/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage for tests of delivery: a real store, a real receiver, one lane that the test drives,
 * and a time that passes faster where the test says so. Three agents stand in the configuration;
 * behave() tells what each does.
 */
#ifndef TESTS_SUPPORT_DELIVERY_STAGE_H
#define TESTS_SUPPORT_DELIVERY_STAGE_H

#include "tests/support/receiver.h"
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include <poll.h>
#include <stdlib.h>

#include "client/deliver/engine.h"

/* ---- time ----------------------------------------------------------------------------------- */

/* The system's clocks, but for what a test adds: no test waits for a time-out, and none has to be
   quicker than one. */
static struct {
    struct base_clock clock; /* first */
    atomic_int_fast64_t passed_ms, wall_set_by_ms;
} stage_time;

static inline int64_t stage_monotonic_ns(const struct base_clock *clock)
{
    (void)clock;
    return base_monotonic_ns(&base_clock_system) +
           atomic_load(&stage_time.passed_ms) * INT64_C(1000000);
}

static inline int64_t stage_wall_ms(const struct base_clock *clock)
{
    (void)clock;
    return base_wall_ms(&base_clock_system) + atomic_load(&stage_time.passed_ms) +
           atomic_load(&stage_time.wall_set_by_ms);
}

static inline void time_starts(void)
{
    stage_time.clock = (struct base_clock){stage_monotonic_ns, stage_wall_ms};
    atomic_store(&stage_time.passed_ms, 0);
    atomic_store(&stage_time.wall_set_by_ms, 0);
}

static inline void let_pass(int64_t ms)
{
    atomic_fetch_add(&stage_time.passed_ms, ms);
}

/* Somebody sets the wall clock. */
static inline void set_wall_by(int64_t ms)
{
    atomic_fetch_add(&stage_time.wall_set_by_ms, ms);
}

/* ---- the stage ------------------------------------------------------------------------------ */

enum { EVENTS_MAX = 256, LOOK_MS = 10 };

struct seen {
    struct handoff_event event; /* its texts are gone, but for the static ones */
    char target[32];
};

static struct {
    char *directory;
    struct handoff_store *store;
    struct handoff_agents *agents;
    struct handoff_engine *engine;
    struct handoff_lane *lane;
    struct base_uuid_source ids;
    struct handoff_agent_options options[3]; /* coder, coder-b, reviewer */
    char urls[3][96];
    unsigned max_in_flight, max_per_agent, waiting_in_memory;
    const char *vfs;                                         /* of the store; NULL: the system's */
    void (*hand_on)(void *host, struct handoff_hand_on *on); /* NULL: nobody hands on */
    const struct base_random *random;
    struct handoff_feeds *feeds; /* NULL: publications have none */
    struct seen events[EVENTS_MAX];
    size_t nevents;
} stage;

static inline void zeros(const struct base_random *random, void *bytes, size_t size)
{
    (void)random;
    memset(bytes, 0, size);
}
static const struct base_random no_jitter = {zeros}; /* each draw is 0: retries follow at once */

static inline void watch(void *unused, const struct handoff_event *event)
{
    (void)unused;
    assert_true(stage.nevents < EVENTS_MAX);
    struct seen *seen = &stage.events[stage.nevents++];
    seen->event = *event;
    snprintf(seen->target, sizeof seen->target, "%s", event->who.target_agent);
}

/* All but taking up what is stored. */
static inline void open_idle_engine(void)
{
    struct handoff_store_options store = {.path = stage.directory, .vfs = stage.vfs};
    struct handoff_error error;
    if (handoff_store_open(&stage.store, &store, &error) != HANDOFF_OK)
        fail_msg("%s", error.message);
    assert_int_equal(handoff_agents_new(&stage.agents, NULL), HANDOFF_OK);
    assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL), HANDOFF_OK);
    struct handoff_engine_options options = {
        .store = stage.store,
        .agents = stage.agents,
        .feeds = stage.feeds,
        .clock = &stage_time.clock,
        .random = stage.random,
        .waiting_in_memory = stage.waiting_in_memory,
        .observe = watch,
        .hand_on = stage.hand_on,
    };
    assert_int_equal(handoff_engine_new(&stage.engine, &options, NULL), HANDOFF_OK);
    handoff_engine_limit(stage.engine, stage.max_in_flight, stage.max_per_agent);
    assert_int_equal(handoff_engine_restore(stage.engine, NULL), HANDOFF_OK);
    assert_int_equal(handoff_lane_new(&stage.lane, stage.engine, NULL, NULL), HANDOFF_OK);
}

static inline void open_engine(void)
{
    open_idle_engine();
    assert_int_equal(handoff_engine_resume(stage.engine, &stage.lane, 1, NULL), HANDOFF_OK);
}

static inline void close_engine(void)
{
    handoff_lane_free(&stage.lane);
    assert_int_equal(handoff_engine_in_flight(stage.engine), 0);
    handoff_engine_free(&stage.engine);
    handoff_agents_free(&stage.agents);
    handoff_store_close(&stage.store);
}

/* As after a crash: what was in memory is gone, what was in the store is there. */
static inline void restart(void)
{
    close_engine();
    stage.nevents = 0;
    open_engine();
}

static inline void behave(int agent, const char *script)
{
    snprintf(stage.urls[agent], sizeof stage.urls[agent], "http://127.0.0.1:%d/%s", receiver.port,
             script);
    stage.options[agent].url = stage.urls[agent];
    if (stage.agents)
        assert_int_equal(handoff_agents_configure(stage.agents, stage.options, 3, NULL),
                         HANDOFF_OK);
}

/* HANDOFF_WAITING=0 runs any of these tests with all that waits as rows. */
static inline unsigned usual_waiting_in_memory(void)
{
    const char *asked = getenv("HANDOFF_WAITING");
    return asked ? (unsigned)strtoul(asked, NULL, 10) : 64;
}

static inline int set_up(void **state)
{
    (void)state;
    static const char *const names[] = {"coder", "coder-b", "reviewer"};
    memset(&stage, 0, sizeof stage);
    stage.directory = temp_directory();
    time_starts();
    stage.random = &no_jitter;
    stage.waiting_in_memory = usual_waiting_in_memory();
    base_uuid_source_init(&stage.ids, NULL, NULL);
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

static inline int tear_down(void **state)
{
    (void)state;
    close_engine();
    temp_remove(stage.directory);
    return 0;
}

/* Not for long where nothing is due: what a test waits for may be on the disk, not on the lane. */
static inline void turn(void)
{
    int64_t wait = base_loop_wait_ms(stage.lane->loop);
    struct pollfd ready = {.fd = base_loop_fd(stage.lane->loop), .events = POLLIN};
    poll(&ready, 1, wait < 0 || wait > LOOK_MS ? LOOK_MS : (int)wait);
    base_loop_turn(stage.lane->loop, 0);
}

/* ---- senders -------------------------------------------------------------------------------- */

/* Static in its test: until the engine is closed, which is after the test, it may be told. */
struct sender {
    struct handoff_waiter waiter; /* first */
    struct handoff_store_put_envelope envelope;
    struct handoff_submission submission;
    unsigned accepted, settled;
    struct handoff_status status; /* the last */
    bool decided, was_on_a_lane;
    struct handoff_error error; /* of the last decision */
};

/* So who is told that it is over can decide about it at once. */
static inline bool a_lane_has_it(const struct base_uuid *id)
{
    return handoff_live_state(handoff_engine_live(stage.engine), id) != 0;
}

static inline void on_accepted(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct sender *sender = (struct sender *)waiter;
    sender->accepted++;
    sender->status = *status;
    if (status->state == HANDOFF_STATE_PARKED)
        assert_false(a_lane_has_it(&sender->submission.id));
    struct base_arena arena; /* accepted means durable */
    struct handoff_stored stored;
    base_arena_init(&arena, 0);
    assert_int_equal(
        handoff_store_get_handoff(stage.store, &sender->submission.id, &arena, &stored, NULL),
        HANDOFF_OK);
    base_arena_free(&arena);
}

/* Told means durable: the store has it as the answer does, with every attempt. */
static inline void check_durable(const struct base_uuid *id, enum handoff_state state,
                                 uint32_t attempts)
{
    struct base_arena arena;
    struct handoff_stored found;
    struct handoff_attempt *list;
    size_t count, recorded = 0;
    base_arena_init(&arena, 0);
    assert_int_equal(handoff_store_get_handoff(stage.store, id, &arena, &found, NULL), HANDOFF_OK);
    assert_int_equal(found.standing.state, state);
    assert_int_equal(found.standing.attempts, attempts);
    assert_int_equal(handoff_store_attempts(stage.store, found.seq, &arena, &list, &count, NULL),
                     HANDOFF_OK);
    for (size_t i = 0; i < count; i++)
        recorded += !list[i].passed_over;
    assert_int_equal(recorded, attempts);
    base_arena_free(&arena);
}

static inline void on_settled(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct sender *sender = (struct sender *)waiter;
    sender->settled++;
    sender->status = *status;
    if (status->error.code != HANDOFF_OK)
        return;
    check_durable(&sender->submission.id, status->state, status->attempts);
    assert_false(a_lane_has_it(&sender->submission.id));
}

static inline void on_decided(struct handoff_waiter *waiter, const struct handoff_error *error)
{
    struct sender *sender = (struct sender *)waiter;
    sender->decided = true;
    sender->error = *error;
    sender->was_on_a_lane = a_lane_has_it(&sender->submission.id);
}

static inline enum handoff_code until_decided(struct sender *sender)
{
    while (!sender->decided)
        turn();
    sender->decided = false;
    return sender->error.code;
}

static inline void prepare(struct sender *sender, const char *target, int64_t deadline_in_ms)
{
    memset(sender, 0, sizeof *sender);
    sender->waiter.decided = on_decided;
    sender->waiter.accepted = on_accepted;
    sender->waiter.settled = on_settled;
    temp_envelope(&sender->envelope, &stage.ids, "task-1", 500);
    sender->submission = (struct handoff_submission){
        .id = sender->envelope.id,
        .envelope = sender->envelope.body,
        .cut_at = sender->envelope.cut_at,
        .cut_size = sender->envelope.cut_size,
        .task_id = sender->envelope.task_id,
        .source = base_span_text("analyst"),
        .target = base_span_text(target),
        .created_ms = sender->envelope.created_ms,
        .deadline_ms = deadline_in_ms ? base_wall_ms(&stage_time.clock) + deadline_in_ms : 0,
        .tokens = 100,
        .traceparent = base_span_text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    };
    memcpy(sender->submission.digest, sender->envelope.digest, sizeof sender->submission.digest);
}

static inline enum handoff_code try_send(struct sender *sender, const char *target,
                                         struct handoff_error *error)
{
    prepare(sender, target, 0);
    enum handoff_code code =
        handoff_engine_deliver(stage.lane, &sender->submission, &sender->waiter, error);
    temp_envelope_free(&sender->envelope); /* the engine has its own copy */
    return code;
}

static inline void send_to(struct sender *sender, const char *target)
{
    assert_int_equal(try_send(sender, target, NULL), HANDOFF_OK);
    assert_int_equal(sender->accepted + sender->settled, 0); /* never from within the call */
}

static inline void send_within(struct sender *sender, const char *target, int64_t deadline_in_ms)
{
    prepare(sender, target, deadline_in_ms);
    assert_int_equal(handoff_engine_deliver(stage.lane, &sender->submission, &sender->waiter, NULL),
                     HANDOFF_OK);
    temp_envelope_free(&sender->envelope);
}

static inline void until_settled(struct sender *sender)
{
    while (!sender->settled)
        turn();
}

static inline void send_and_wait(struct sender *sender, const char *target)
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
        enum handoff_attempt_result result;
        int status;
        char target[32], error[200];
    } recorded[16];
    char passed_over[200]; /* "0 coder circuit_open, 4 coder-b version": after, who and why */
};

static inline void read_record(struct row *row, const struct handoff_attempt *attempt)
{
    size_t used = strlen(row->passed_over);
    if (attempt->passed_over) {
        snprintf(row->passed_over + used, sizeof row->passed_over - used, "%s%u %s %s",
                 used ? ", " : "", attempt->number, attempt->target.data, attempt->error.data);
        return;
    }
    size_t i = row->nrecorded++;
    assert_int_equal(attempt->number, i + 1); /* no gap, also on a disk that fails */
    row->recorded[i].result = attempt->result;
    row->recorded[i].status = attempt->status;
    snprintf(row->recorded[i].target, 32, "%s", attempt->target.data);
    snprintf(row->recorded[i].error, 200, "%s", attempt->error.data);
}

/* false: it is not accepted yet */
static inline bool read_row(const struct sender *sender, struct row *row)
{
    struct base_arena arena;
    struct handoff_stored found;
    struct handoff_attempt *attempts;
    size_t count = 0;
    memset(row, 0, sizeof *row);
    base_arena_init(&arena, 0);
    bool there = handoff_store_get_handoff(stage.store, &sender->submission.id, &arena, &found,
                                           NULL) == HANDOFF_OK;
    if (there) {
        assert_int_equal(
            handoff_store_attempts(stage.store, found.seq, &arena, &attempts, &count, NULL),
            HANDOFF_OK);
        row->state = (enum handoff_state)found.standing.state;
        row->attempts = found.standing.attempts;
        snprintf(row->target, sizeof row->target, "%s", found.standing.target.data);
        snprintf(row->reason, sizeof row->reason, "%s",
                 found.standing.reason == HANDOFF_REASON_OTHER
                     ? found.standing.words.data
                     : handoff_reason_name(found.standing.reason));
    }
    for (size_t i = 0; i < count; i++)
        read_record(row, &attempts[i]);
    base_arena_free(&arena);
    return there;
}

/* Turns until the store has the handoff in this state, then answers its row. The deadline is for
   a handoff that ended otherwise and will never be there. */
static inline struct row stored(const struct sender *sender, enum handoff_state state)
{
    struct row row;
    int64_t deadline_ns = base_monotonic_ns(&base_clock_system) + INT64_C(60000000000);
    while (!read_row(sender, &row) || row.state != state) {
        if (base_monotonic_ns(&base_clock_system) > deadline_ns)
            fail_msg("the handoff is %s (%s) after %u attempts, not %s",
                     handoff_state_name(row.state), row.reason, (unsigned)row.attempts,
                     handoff_state_name(state));
        turn();
    }
    return row;
}

/* The i-th event, where that is a move; else NULL. */
static inline const struct handoff_moved *move_at(size_t i)
{
    const struct handoff_event *event = &stage.events[i].event;
    return event->kind == HANDOFF_EVENT_MOVED ? &event->of.moved : NULL;
}

static inline unsigned count_moves(enum handoff_state to)
{
    unsigned count = 0;
    for (size_t i = 0; i < stage.nevents; i++)
        count += move_at(i) && move_at(i)->to == to;
    return count;
}

static inline unsigned count_results(enum handoff_attempt_result result)
{
    unsigned count = 0;
    for (size_t i = 0; i < stage.nevents; i++)
        count += move_at(i) && move_at(i)->attempted && move_at(i)->result == result;
    return count;
}

static inline unsigned count_outcomes(enum handoff_outcome outcome)
{
    unsigned count = 0;
    for (size_t i = 0; i < stage.nevents; i++)
        count += (move_at(i) && move_at(i)->outcome == outcome) ||
                 (outcome == HANDOFF_OUTCOME_CIRCUIT_OPEN &&
                  stage.events[i].event.kind == HANDOFF_EVENT_REJECTED);
    return count;
}

/* ---- the receiver's word by the API ---------------------------------------------------------- */

struct speaker {
    struct handoff_reply reply; /* first */
    unsigned told;
};

/* A lease is in memory alone. */
static inline void on_told(struct handoff_reply *reply)
{
    const struct handoff_live_view *view = &reply->view;
    ((struct speaker *)reply)->told++;
    if (reply->error.code == HANDOFF_OK && view->state != HANDOFF_STATE_NONE &&
        view->state != HANDOFF_STATE_IN_FLIGHT)
        check_durable(&reply->id, view->state, view->attempts);
}

static inline void begin_to_say(struct speaker *speaker, const struct sender *about,
                                enum handoff_word word, const char *why, const char *agent)
{
    *speaker = (struct speaker){.reply = {.lane = stage.lane,
                                          .told = on_told,
                                          .id = about->submission.id,
                                          .word = word,
                                          .agent = base_span_text(agent)}};
    snprintf(speaker->reply.said, sizeof speaker->reply.said, "%s", why);
    handoff_engine_reply(stage.engine, &speaker->reply);
}

static inline enum handoff_code until_replied(const struct speaker *speaker)
{
    while (!speaker->told)
        turn();
    return speaker->reply.error.code;
}

static inline enum handoff_code say_why(const struct sender *about, enum handoff_word word,
                                        const char *why, const char *agent)
{
    struct speaker speaker;
    begin_to_say(&speaker, about, word, why, agent);
    return until_replied(&speaker);
}

static inline enum handoff_code say(const struct sender *about, enum handoff_word word,
                                    const char *agent)
{
    return say_why(about, word, "", agent);
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
