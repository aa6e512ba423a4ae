/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a handoff: accepted, moved, listed, found again under its key, and retained. */
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include "client/model/model.h"
#include "client/store/handoffs.h"
#include "client/store/parties.h"

struct fixture {
    char *directory;
    struct handoff_store *store;
    struct base_uuid_source ids;
    struct base_manual_clock clock;
    struct base_arena arena;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.directory = temp_directory()};
    base_manual_clock_init(&fixture.clock, 1700000000000);
    base_uuid_source_init(&fixture.ids, &fixture.clock.clock, NULL);
    struct handoff_store_options options = {.path = fixture.directory,
                                            .clock = &fixture.clock.clock,
                                            .retention_age_ms = 1000,
                                            .retention_every_ms = 1};
    base_arena_init(&fixture.arena, 0);
    *state = &fixture;
    return handoff_store_open(&fixture.store, &options, NULL) == HANDOFF_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    base_arena_free(&fixture->arena);
    handoff_store_close(&fixture->store);
    temp_remove(fixture->directory);
    return 0;
}

/* Accepts one that is ready for `target`; the caller frees its envelope. */
static void accept_one(struct fixture *fixture, struct handoff_store_accept *accept,
                       const char *target, const char *key)
{
    memset(accept, 0, sizeof *accept);
    temp_envelope(&accept->put, &fixture->ids, "task-1", 300);
    accept->standing.state = HANDOFF_STATE_READY;
    accept->standing.target = base_span_text(target);
    accept->asked_target = base_span_text(target);
    accept->source = base_span_text("analyst");
    accept->pattern = 1;
    accept->deadline_ms = 77;
    if (key) {
        accept->idempotency_key = base_span_text(key);
        memset(accept->request_digest, 0xAB, sizeof accept->request_digest);
    }
    /* `run` is set by the typed call, so it goes through a mailbox of its own */
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    accept->put.job.mailbox = &mailbox;
    accept->put.job.done = temp_nothing;
    handoff_store_accept(fixture->store, accept);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(accept->put.job.error.code, HANDOFF_OK);
    assert_true(accept->seq > 0);
}

static void move_one(struct fixture *fixture, struct handoff_store_move *move)
{
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    move->job.mailbox = &mailbox;
    move->job.done = temp_nothing;
    handoff_store_move(fixture->store, move);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(move->job.error.code, HANDOFF_OK);
}

static void assert_text(struct base_span span, const char *text)
{
    assert_int_equal(span.size, strlen(text));
    assert_memory_equal(span.data, text, span.size);
}

static void test_accepted_is_read_back(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    struct handoff_stored stored;
    accept_one(fixture, &accept, "coder", NULL);
    assert_int_equal(
        handoff_store_get_handoff(fixture->store, &accept.put.id, &fixture->arena, &stored, NULL),
        HANDOFF_OK);
    assert_int_equal(stored.seq, accept.seq);
    assert_text(stored.task_id, "task-1");
    assert_text(stored.source, "analyst");
    assert_text(stored.asked_target, "coder");
    assert_text(stored.standing.target, "coder");
    assert_int_equal(stored.standing.reason, HANDOFF_REASON_NONE);
    assert_int_equal(stored.standing.state, HANDOFF_STATE_READY);
    assert_int_equal(stored.pattern, 1);
    assert_int_equal(stored.deadline_ms, 77);
    assert_int_equal(stored.standing.attempts, 0);
    temp_envelope_free(&accept.put);
}

/* A person's words, and what another version may have written, come back as they are. */
static void test_every_reason_is_read_back(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    struct handoff_stored stored;
    accept_one(fixture, &accept, "coder", NULL);
    for (int i = 0; i < HANDOFF_REASON_COUNT; i++) {
        enum handoff_reason reason = (enum handoff_reason)i;
        const char *words = reason == HANDOFF_REASON_OTHER ? "asked twice" : "";
        struct handoff_store_move move = {.seq = accept.seq,
                                          .standing = {.state = HANDOFF_STATE_PARKED,
                                                       .target = base_span_text("coder"),
                                                       .reason = reason,
                                                       .words = base_span_text(words)}};
        move_one(fixture, &move);
        assert_int_equal(handoff_store_get_handoff(fixture->store, &accept.put.id, &fixture->arena,
                                                   &stored, NULL),
                         HANDOFF_OK);
        assert_int_equal(stored.standing.reason, reason);
        assert_text(stored.standing.words, words);
    }
    temp_envelope_free(&accept.put);
}

static void test_unknown_is_not_found(void **state)
{
    struct fixture *fixture = *state;
    struct base_uuid id = base_uuid_make(&fixture->ids);
    struct handoff_stored stored;
    struct handoff_error error;
    assert_int_equal(
        handoff_store_get_handoff(fixture->store, &id, &fixture->arena, &stored, &error),
        HANDOFF_ERR_NOT_FOUND);
    assert_string_equal(error.field, "id");
}

static void test_a_move_carries_its_attempt(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    struct handoff_attempt *attempts;
    struct handoff_stored stored;
    size_t count;
    accept_one(fixture, &accept, "coder", NULL);
    const struct handoff_attempt_record record = {
        .attempt = {.number = 1,
                    .at_ms = 1000,
                    .duration_us = 2500,
                    .target = base_span_text("coder"),
                    .result = 2,
                    .status = 503,
                    .error = base_span_text("busy"),
                    .peer = base_span_text("127.0.0.1:9001")}};
    struct handoff_store_move move = {
        .seq = accept.seq,
        .standing = {.state = HANDOFF_STATE_READY,
                     .target = base_span_text("coder-b"),
                     .due_ms = 1234,
                     .attempts = 1,
                     .failures = 1,
                     .alternate = 1},
        .attempts = &record,
        .nattempts = 1,
    };
    move_one(fixture, &move);
    assert_int_equal(
        handoff_store_get_handoff(fixture->store, &accept.put.id, &fixture->arena, &stored, NULL),
        HANDOFF_OK);
    assert_text(stored.standing.target, "coder-b");
    assert_text(stored.asked_target, "coder");
    assert_int_equal(stored.standing.due_ms, 1234);
    assert_int_equal(stored.standing.alternate, 1);
    assert_int_equal(handoff_store_attempts(fixture->store, accept.seq, &fixture->arena, &attempts,
                                            &count, NULL),
                     HANDOFF_OK);
    assert_int_equal(count, 1);
    assert_text(attempts[0].target, "coder");
    assert_text(attempts[0].error, "busy");
    assert_text(attempts[0].peer, "127.0.0.1:9001");
    assert_int_equal(attempts[0].duration_us, 2500);
    assert_int_equal(attempts[0].status, 503);
    temp_envelope_free(&accept.put);
}

/* In their order among the attempts; the same again, after a commit that failed in the middle,
 * once. */
static void test_a_move_carries_who_was_passed_over(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    struct handoff_attempt *list;
    size_t count;
    accept_one(fixture, &accept, "coder", NULL);
    struct handoff_attempt_record attempt = {.attempt = {.number = 1,
                                                         .target = base_span_text("coder"),
                                                         .error = base_span_text("busy")}};
    struct handoff_attempt_record late = {.attempt = {.passed_over = true,
                                                      .number = 1,
                                                      .at_ms = 1000,
                                                      .target = base_span_text("b"),
                                                      .error = base_span_text("version")},
                                          .next = &attempt};
    struct handoff_attempt_record later = late;
    later.attempt.target = base_span_text("a");
    later.next = NULL;
    attempt.next = &later;
    struct handoff_store_move move = {
        .seq = accept.seq,
        .standing = {.state = HANDOFF_STATE_PARKED, .target = base_span_text("coder")},
        .attempts = &late,
        .nattempts = 3,
    };
    move_one(fixture, &move);
    move_one(fixture, &move);
    assert_int_equal(
        handoff_store_attempts(fixture->store, accept.seq, &fixture->arena, &list, &count, NULL),
        HANDOFF_OK);
    assert_int_equal(count, 3);
    assert_false(list[0].passed_over);
    assert_true(list[1].passed_over && list[2].passed_over);
    assert_text(list[1].target, "b");
    assert_text(list[1].error, "version");
    assert_int_equal(list[1].number, 1);
    assert_int_equal(list[1].at_ms, 1000);
    assert_text(list[2].target, "a");
    temp_envelope_free(&accept.put);
}

static void test_the_same_again_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    struct handoff_stored stored;
    accept_one(fixture, &accept, "coder", "key-1");
    int64_t seq = accept.seq;
    struct handoff_store_move move = {.seq = seq,
                                      .standing = {.state = HANDOFF_STATE_AWAITING_ACK,
                                                   .target = base_span_text("coder"),
                                                   .attempts = 1}};
    move_one(fixture, &move);
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    accept.put.job.mailbox = &mailbox;
    handoff_store_accept(fixture->store, &accept);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(accept.put.job.error.code, HANDOFF_OK);
    assert_int_equal(accept.seq, seq);
    assert_int_equal(
        handoff_store_get_handoff(fixture->store, &accept.put.id, &fixture->arena, &stored, NULL),
        HANDOFF_OK);
    assert_int_equal(stored.standing.state, HANDOFF_STATE_AWAITING_ACK);
    temp_envelope_free(&accept.put);
}

static void test_a_key_leads_to_its_handoff(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    struct base_uuid id;
    uint8_t digest[BASE_SHA256_BYTES];
    accept_one(fixture, &accept, "coder", "key-1");
    assert_int_equal(handoff_store_find_key(fixture->store, base_span_text("analyst"),
                                            base_span_text("key-1"), &id, digest, NULL),
                     HANDOFF_OK);
    assert_memory_equal(id.bytes, accept.put.id.bytes, sizeof id.bytes);
    assert_int_equal(digest[31], 0xAB);
    /* another sender's key of the same name is another key */
    assert_int_equal(handoff_store_find_key(fixture->store, base_span_text("tester"),
                                            base_span_text("key-1"), &id, digest, NULL),
                     HANDOFF_ERR_NOT_FOUND);
    temp_envelope_free(&accept.put);
}

static size_t list(struct fixture *fixture, uint32_t states, const char *target, int64_t after,
                   size_t limit, struct handoff_stored **found)
{
    struct handoff_store_filter filter = {
        .states = states, .target = base_span_text(target), .after_seq = after, .limit = limit};
    size_t count;
    assert_int_equal(
        handoff_store_list(fixture->store, &filter, &fixture->arena, found, &count, NULL),
        HANDOFF_OK);
    return count;
}

static void park(struct fixture *fixture, int64_t seq, const char *target, int64_t settled_ms)
{
    struct handoff_store_move move = {.seq = seq,
                                      .standing = {.state = HANDOFF_STATE_PARKED,
                                                   .target = base_span_text(target),
                                                   .reason = HANDOFF_REASON_EXHAUSTED,
                                                   .settled_ms = settled_ms}};
    move_one(fixture, &move);
}

struct parked_sum {
    int coders, others;
    int64_t oldest_coder_ms;
};

static void add_parked(void *arg, struct base_span target, int64_t settled_ms)
{
    struct parked_sum *sum = arg;
    if (!base_span_equal(target, base_span_text("coder"))) {
        sum->others++;
        return;
    }
    sum->coders++;
    if (sum->oldest_coder_ms == 0 || settled_ms < sum->oldest_coder_ms)
        sum->oldest_coder_ms = settled_ms;
}

static void test_lists_by_state_target_and_page(void **state)
{
    struct fixture *fixture = *state;
    enum { MANY = 25 };
    struct handoff_store_accept accept;
    struct handoff_stored *found;
    const uint32_t live = 1u << HANDOFF_STATE_READY | 1u << HANDOFF_STATE_IN_FLIGHT |
                          1u << HANDOFF_STATE_AWAITING_ACK,
                   parked = 1u << HANDOFF_STATE_PARKED, all = UINT32_MAX;
    for (int i = 0; i < MANY; i++) {
        accept_one(fixture, &accept, i % 2 ? "coder" : "tester", NULL);
        if (i < 5)
            park(fixture, accept.seq, i % 2 ? "coder" : "tester", 1000 + i);
        temp_envelope_free(&accept.put);
    }
    assert_int_equal(list(fixture, live, NULL, 0, 100, &found), MANY - 5);
    assert_int_equal(list(fixture, parked, NULL, 0, 100, &found), 5);
    assert_int_equal(list(fixture, parked, "coder", 0, 100, &found), 2);
    assert_int_equal(list(fixture, all, NULL, 0, 100, &found), MANY);
    size_t seen = 0;
    int64_t after = 0;
    for (size_t count; (count = list(fixture, all, NULL, after, 10, &found)) > 0;) {
        for (size_t i = 0; i < count; i++) {
            assert_true(found[i].seq > after);
            after = found[i].seq;
        }
        seen += count;
    }
    assert_int_equal(seen, MANY);

    struct parked_sum sum = {0};
    assert_int_equal(handoff_store_visit_parked(fixture->store, add_parked, &sum, NULL),
                     HANDOFF_OK);
    assert_int_equal(sum.coders, 2);
    assert_int_equal(sum.oldest_coder_ms, 1001);
    assert_int_equal(sum.others, 3);
}

static size_t list_of(struct fixture *fixture, uint32_t states, const char *task, const char *party)
{
    struct handoff_store_filter filter = {.states = states,
                                          .task_id = base_span_text(task),
                                          .party = base_span_text(party),
                                          .limit = 100};
    struct handoff_stored *found;
    size_t count;
    assert_int_equal(
        handoff_store_list(fixture->store, &filter, &fixture->arena, &found, &count, NULL),
        HANDOFF_OK);
    for (size_t i = 0; i < count && party; i++) {
        bool is_party;
        assert_int_equal(handoff_store_is_party(fixture->store, &found[i].id, base_span_text(party),
                                                &is_party, NULL),
                         HANDOFF_OK);
        assert_true(is_party);
    }
    return count;
}

/* Three from analyst to coder; the last one was given to an alternate and parked. */
static void test_an_agent_is_listed_what_concerns_it(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    const uint32_t all = UINT32_MAX, parked = 1u << HANDOFF_STATE_PARKED,
                   ready = 1u << HANDOFF_STATE_READY;
    for (int i = 0; i < 3; i++) {
        accept_one(fixture, &accept, "coder", NULL);
        temp_envelope_free(&accept.put);
    }
    park(fixture, accept.seq, "spare", 1000);
    static const struct {
        const char *party;
        size_t all, parked, ready;
    } cases[] = {{NULL, 3, 1, 2},    {"analyst", 3, 1, 2},  {"coder", 3, 1, 2},
                 {"spare", 1, 1, 0}, {"stranger", 0, 0, 0}, {"", 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(list_of(fixture, all, NULL, cases[i].party), cases[i].all);
        assert_int_equal(list_of(fixture, all, "task-1", cases[i].party), cases[i].all);
        assert_int_equal(list_of(fixture, all, "task-2", cases[i].party), 0);
        assert_int_equal(list_of(fixture, parked, NULL, cases[i].party), cases[i].parked);
        assert_int_equal(list_of(fixture, ready, NULL, cases[i].party), cases[i].ready);
    }
}

static void test_circuits_are_remembered(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_stored_circuit *found;
    size_t count;
    for (uint32_t failures = 2; failures <= 3; failures++) {
        struct base_mailbox mailbox;
        assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
        struct handoff_store_circuit circuit = {
            .job = {.mailbox = &mailbox, .done = temp_nothing},
            .circuit = {base_span_text("coder"), failures, 5000},
        };
        handoff_store_put_circuit(fixture->store, &circuit);
        while (base_mailbox_wait(&mailbox, -1) == 0)
            ;
        base_mailbox_free(&mailbox);
    }
    assert_int_equal(handoff_store_circuits(fixture->store, &fixture->arena, &found, &count, NULL),
                     HANDOFF_OK);
    assert_int_equal(count, 1);
    assert_text(found[0].agent, "coder");
    assert_int_equal(found[0].consecutive_failures, 3);
    assert_int_equal(found[0].open_until_ms, 5000);
}

static void test_retention_takes_all_of_a_finished_handoff_and_nothing_else(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept finished, kept;
    struct handoff_stored stored;
    struct handoff_attempt *attempts;
    struct base_uuid id;
    uint8_t digest[BASE_SHA256_BYTES];
    size_t count;
    accept_one(fixture, &finished, "coder", "key-1");
    accept_one(fixture, &kept, "coder", "key-2");
    park(fixture, kept.seq, "coder", base_wall_ms(&fixture->clock.clock));
    struct handoff_attempt_record passed = {
        .attempt = {.passed_over = true, .target = base_span_text("coder-b")}};
    const struct handoff_attempt_record record = {
        .attempt = {.number = 1, .target = base_span_text("coder")}, .next = &passed};
    struct handoff_store_move move = {
        .seq = finished.seq,
        .standing = {.state = HANDOFF_STATE_ACKNOWLEDGED,
                     .target = base_span_text("coder"),
                     .settled_ms = base_wall_ms(&fixture->clock.clock)},
        .attempts = &record,
        .nattempts = 2,
        .over = true,
    };
    move_one(fixture, &move);
    base_manual_clock_advance(&fixture->clock, 5000);
    struct handoff_store_stats stats;
    do
        handoff_store_stats(fixture->store, &stats);
    while (stats.removed == 0);
    assert_int_equal(
        handoff_store_get_handoff(fixture->store, &finished.put.id, &fixture->arena, &stored, NULL),
        HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(handoff_store_attempts(fixture->store, finished.seq, &fixture->arena,
                                            &attempts, &count, NULL),
                     HANDOFF_OK);
    assert_int_equal(count, 0);
    assert_int_equal(handoff_store_find_key(fixture->store, base_span_text("analyst"),
                                            base_span_text("key-1"), &id, digest, NULL),
                     HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(
        handoff_store_get_handoff(fixture->store, &kept.put.id, &fixture->arena, &stored, NULL),
        HANDOFF_OK);
    assert_int_equal(stats.removed, 1);
    temp_envelope_free(&finished.put);
    temp_envelope_free(&kept.put);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_accepted_is_read_back),
        WITH_STORE(test_every_reason_is_read_back),
        WITH_STORE(test_unknown_is_not_found),
        WITH_STORE(test_a_move_carries_its_attempt),
        WITH_STORE(test_a_move_carries_who_was_passed_over),
        WITH_STORE(test_the_same_again_changes_nothing),
        WITH_STORE(test_a_key_leads_to_its_handoff),
        WITH_STORE(test_lists_by_state_target_and_page),
        WITH_STORE(test_an_agent_is_listed_what_concerns_it),
        WITH_STORE(test_circuits_are_remembered),
        WITH_STORE(test_retention_takes_all_of_a_finished_handoff_and_nothing_else),
    };
    return RUN_TESTS(tests);
}
