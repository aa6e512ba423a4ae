/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a task: who may tell it, that it is written once, and when it is forgotten. */
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include "client/model/model.h"
#include "client/store/handoffs.h"
#include "client/store/parties.h"
#include "client/store/sqlite/database.h"
#include "client/store/tasks.h"

enum { NOW_MS = 1700000000 };

struct fixture {
    char *directory;
    struct handoff_store *store;
    struct handoff_store_options options;
    struct base_uuid_source ids;
    struct base_manual_clock clock;
    struct base_mailbox mailbox;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.directory = temp_directory()};
    base_manual_clock_init(&fixture.clock, 1700000000000);
    base_uuid_source_init(&fixture.ids, &fixture.clock.clock, NULL);
    assert_int_equal(base_mailbox_init(&fixture.mailbox, NULL), HANDOFF_OK);
    fixture.options = (struct handoff_store_options){.path = fixture.directory,
                                                     .clock = &fixture.clock.clock,
                                                     .retention_age_ms = 1000,
                                                     .retention_every_ms = 1};
    *state = &fixture;
    return (int)handoff_store_open(&fixture.store, &fixture.options, NULL);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    handoff_store_close(&fixture->store);
    base_mailbox_free(&fixture->mailbox);
    temp_remove(fixture->directory);
    return 0;
}

static void wait_for(struct fixture *fixture)
{
    while (base_mailbox_wait(&fixture->mailbox, -1) == 0)
        ;
}

static int64_t accept(struct fixture *fixture, const char *task, const char *source,
                      const char *target)
{
    struct handoff_store_accept accept = {0};
    temp_envelope(&accept.put, &fixture->ids, task, 300);
    accept.standing.state = HANDOFF_STATE_READY;
    accept.standing.target = base_span_text(target);
    accept.asked_target = base_span_text("asked");
    accept.source = base_span_text(source);
    accept.put.job.mailbox = &fixture->mailbox;
    accept.put.job.done = temp_nothing;
    handoff_store_accept(fixture->store, &accept);
    wait_for(fixture);
    assert_int_equal(accept.put.job.error.code, HANDOFF_OK);
    temp_envelope_free(&accept.put);
    return accept.seq;
}

static void finish(struct fixture *fixture, int64_t seq)
{
    struct handoff_store_move move = {
        .job = {.mailbox = &fixture->mailbox, .done = temp_nothing},
        .seq = seq,
        .standing = {.state = HANDOFF_STATE_ACKNOWLEDGED,
                     .settled_ms = base_wall_ms(&fixture->clock.clock)},
        .over = true};
    handoff_store_move(fixture->store, &move);
    wait_for(fixture);
    assert_int_equal(move.job.error.code, HANDOFF_OK);
}

static struct handoff_store_complete_task complete(struct fixture *fixture, const char *task,
                                                   const char *agent, int64_t now_ms)
{
    struct handoff_store_complete_task complete = {
        .job = {.mailbox = &fixture->mailbox, .done = temp_nothing},
        .task_id = base_span_text(task),
        .agent = base_span_text(agent),
        .now_ms = now_ms};
    handoff_store_complete_task(fixture->store, &complete);
    wait_for(fixture);
    return complete;
}

static struct handoff_stored_task get_as(struct fixture *fixture, const char *task,
                                         const char *party)
{
    struct handoff_stored_task found;
    assert_int_equal(handoff_store_get_task(fixture->store, base_span_text(task),
                                            base_span_text(party), &found, NULL),
                     HANDOFF_OK);
    return found;
}

static struct handoff_stored_task get(struct fixture *fixture, const char *task)
{
    return get_as(fixture, task, NULL);
}

static void test_a_task_is_completed_once(void **state)
{
    struct fixture *fixture = *state;
    accept(fixture, "task-1", "analyst", "coder");
    accept(fixture, "task-1", "coder", "reviewer");
    accept(fixture, "task-2", "analyst", "coder");
    assert_int_equal(get(fixture, "task-1").completed_ms, 0);

    struct handoff_store_complete_task first = complete(fixture, "task-1", NULL, NOW_MS);
    assert_int_equal(first.job.error.code, HANDOFF_OK);
    assert_false(first.repeated);
    assert_int_equal(first.task.handoffs, 2);
    assert_int_equal(first.task.completed_ms, NOW_MS);

    accept(fixture, "task-1", "reviewer", "coder"); /* late work does not change the count */
    struct handoff_store_complete_task again = complete(fixture, "task-1", NULL, NOW_MS + 5);
    assert_int_equal(again.job.error.code, HANDOFF_OK);
    assert_true(again.repeated);
    assert_int_equal(again.task.handoffs, 2);
    assert_int_equal(again.task.completed_ms, NOW_MS);
    assert_int_equal(get(fixture, "task-2").completed_ms, 0);
}

static void test_it_stays_completed_after_a_restart(void **state)
{
    struct fixture *fixture = *state;
    accept(fixture, "task-1", "analyst", "coder");
    assert_int_equal(complete(fixture, "task-1", NULL, NOW_MS).job.error.code, HANDOFF_OK);
    handoff_store_close(&fixture->store);
    assert_int_equal(handoff_store_open(&fixture->store, &fixture->options, NULL), HANDOFF_OK);
    assert_int_equal(get(fixture, "task-1").completed_ms, NOW_MS);
    assert_int_equal(get(fixture, "task-1").handoffs, 1);
    assert_true(complete(fixture, "task-1", NULL, NOW_MS + 1).repeated);
}

static void test_an_unknown_task_is_not_found(void **state)
{
    struct fixture *fixture = *state;
    accept(fixture, "task-1", "analyst", "coder");
    struct handoff_store_complete_task none = complete(fixture, "task-10", NULL, NOW_MS);
    assert_int_equal(none.job.error.code, HANDOFF_ERR_NOT_FOUND);
    assert_string_equal(none.job.error.field, "task_id");
    assert_string_equal(none.job.error.seen, "task-10");
    assert_int_equal(get(fixture, "task-10").completed_ms, 0);
}

static void test_only_who_took_part_completes(void **state)
{
    struct fixture *fixture = *state;
    accept(fixture, "task-1", "analyst", "coder");
    assert_int_equal(complete(fixture, "task-1", "stranger", NOW_MS).job.error.code,
                     HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(get(fixture, "task-1").completed_ms, 0);
    /* the same as for a task that is there: a stranger learns nothing */
    assert_int_equal(complete(fixture, "task-9", "stranger", NOW_MS).job.error.code,
                     HANDOFF_ERR_NOT_FOUND);
    static const char *const parties[] = {"coder", "analyst", "asked"};
    for (size_t i = 0; i < 3; i++) {
        struct handoff_store_complete_task by = complete(fixture, "task-1", parties[i], NOW_MS);
        assert_int_equal(by.job.error.code, HANDOFF_OK);
        assert_int_equal(by.repeated, i > 0);
        assert_int_equal(get_as(fixture, "task-1", parties[i]).completed_ms, NOW_MS);
    }
    assert_int_equal(get_as(fixture, "task-1", "stranger").completed_ms, 0);
    assert_int_equal(get_as(fixture, "task-1", "stranger").handoffs, 0);
}

/* An attempt with an alternate, which does not have the handoff any more. */
static void attempt(struct fixture *fixture, int64_t seq, const char *target, bool passed_over)
{
    const struct handoff_attempt_record record = {.attempt = {.passed_over = passed_over,
                                                              .number = 1,
                                                              .target = base_span_text(target),
                                                              .error = base_span_text("ill"),
                                                              .peer = base_span_text("")}};
    struct handoff_store_move move = {
        .job = {.mailbox = &fixture->mailbox, .done = temp_nothing},
        .seq = seq,
        .standing = {.state = HANDOFF_STATE_READY, .target = base_span_text("coder")},
        .attempts = &record,
        .nattempts = 1};
    handoff_store_move(fixture->store, &move);
    wait_for(fixture);
    assert_int_equal(move.job.error.code, HANDOFF_OK);
}

static struct handoff_task_standing standing_of(struct fixture *fixture, const char *task,
                                                const char *agent)
{
    struct handoff_task_standing standing;
    assert_int_equal(handoff_store_task_standing(fixture->store, base_span_text(task),
                                                 base_span_text(agent), &standing, NULL),
                     HANDOFF_OK);
    return standing;
}

static void test_a_party_began_the_task_or_was_sent_something(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *agent;
        bool is_party;
    } cases[] = {{"analyst", true}, {"asked", true},        {"coder", true},        {"tried", true},
                 {"other", true},   {"passed-over", false}, {"later-source", false}};
    int64_t first = accept(fixture, "task-1", "analyst", "coder");
    attempt(fixture, first, "tried", false);
    attempt(fixture, first, "passed-over", true);
    accept(fixture, "task-1", "later-source", "other");
    accept(fixture, "task-2", "passed-over", "later-source");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct handoff_task_standing found = standing_of(fixture, "task-1", cases[i].agent);
        assert_true(found.exists);
        assert_false(found.begun_without_handoff);
        assert_int_equal(found.is_party, cases[i].is_party);
        assert_int_equal(complete(fixture, "task-1", cases[i].agent, NOW_MS).job.error.code,
                         cases[i].is_party ? HANDOFF_OK : HANDOFF_ERR_NOT_FOUND);
        assert_int_equal(get_as(fixture, "task-1", cases[i].agent).completed_ms,
                         cases[i].is_party ? NOW_MS : 0);
    }
    assert_false(standing_of(fixture, "task-9", "analyst").exists);
}

static void test_a_task_may_begin_without_a_handoff(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_put_envelope put = {.finished = true};
    temp_envelope(&put, &fixture->ids, "task-1", 300);
    put.job.mailbox = &fixture->mailbox;
    put.job.done = temp_nothing;
    handoff_store_put_envelope(fixture->store, &put);
    wait_for(fixture);
    accept(fixture, "task-1", "analyst", "coder");
    const struct handoff_task_standing found = standing_of(fixture, "task-1", "stranger");
    assert_true(found.exists && found.begun_without_handoff && !found.is_party);
    assert_memory_equal(found.first.bytes, put.id.bytes, sizeof put.id.bytes);
    assert_true(standing_of(fixture, "task-1", "analyst").is_party);
    temp_envelope_free(&put);
}

static void test_it_is_forgotten_with_the_last_envelope(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_stats stats;
    int64_t first = accept(fixture, "task-1", "analyst", "coder");
    int64_t second = accept(fixture, "task-1", "coder", "reviewer");
    assert_int_equal(complete(fixture, "task-1", NULL, NOW_MS).job.error.code, HANDOFF_OK);
    finish(fixture, first);
    base_manual_clock_advance(&fixture->clock, 2000);
    do
        handoff_store_stats(fixture->store, &stats);
    while (stats.removed < 1);
    assert_int_equal(get(fixture, "task-1").handoffs, 2);
    finish(fixture, second);
    base_manual_clock_advance(&fixture->clock, 2000);
    do
        handoff_store_stats(fixture->store, &stats);
    while (stats.removed < 2);
    assert_int_equal(get(fixture, "task-1").completed_ms, 0);
}

/* ---- the index of tasks -----------------------------------------------------------------------
 */

static int64_t ask(struct fixture *fixture, const char *sql)
{
    int64_t number;
    struct handoff_db *db = handoff_store_reader(fixture->store, NULL);
    assert_non_null(db);
    assert_int_equal(handoff_db_number(db, sql, &number, NULL), HANDOFF_OK);
    handoff_store_reader_done(fixture->store, db);
    return number;
}

static size_t count_of(struct fixture *fixture, const char *task)
{
    struct base_arena arena = {0};
    struct handoff_stored *list;
    size_t count;
    const struct handoff_store_filter filter = {
        .states = UINT32_MAX, .task_id = base_span_text(task), .limit = 10000};
    assert_int_equal(handoff_store_list(fixture->store, &filter, &arena, &list, &count, NULL),
                     HANDOFF_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(base_span_equal(list[i].task_id, filter.task_id));
        assert_true(i == 0 || list[i - 1].seq < list[i].seq);
    }
    base_arena_free(&arena);
    return count;
}

/* Whether they were indexed or still wait for it, a task's handoffs are found. */
static void test_found_before_and_after_they_are_indexed(void **state)
{
    struct fixture *fixture = *state;
    char task[32];
    size_t each = 0;
    fixture->options.durability = HANDOFF_DURABILITY_NONE;
    handoff_store_close(&fixture->store);
    assert_int_equal(handoff_store_open(&fixture->store, &fixture->options, NULL), HANDOFF_OK);
    while (each < 350) { /* one batch of a thousand, and some that wait for the next */
        for (int i = 0; i < 4; i++) {
            snprintf(task, sizeof task, "task-%d", i);
            accept(fixture, task, "analyst", "coder");
        }
        each++;
        if (each % 50 == 0)
            assert_int_equal(count_of(fixture, "task-2"), each);
    }
    assert_true(ask(fixture, "SELECT count(*) FROM task_index") >= 1000);
    assert_true(ask(fixture, "SELECT count(*) FROM task_index") < 4 * (int64_t)each);
    for (int i = 0; i < 4; i++) {
        snprintf(task, sizeof task, "task-%d", i);
        assert_int_equal(count_of(fixture, task), each);
    }
    assert_int_equal(count_of(fixture, "task-"), 0);
    assert_int_equal(complete(fixture, "task-3", NULL, NOW_MS).task.handoffs, each);
}

/* When retention has taken the newest rows, their numbers come again; they are found all the same.
 */
static void test_numbers_that_come_again_are_found(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_stats stats;
    int64_t last = 0;
    uint64_t made = 0;
    for (; ask(fixture, "SELECT through FROM task_indexed") == 0; made++)
        finish(fixture, last = accept(fixture, "task-1", "analyst", "coder"));
    base_manual_clock_advance(&fixture->clock, 2000);
    do
        handoff_store_stats(fixture->store, &stats);
    while (stats.removed < made);
    assert_int_equal(ask(fixture, "SELECT count(*) FROM task_index"), 0);
    assert_int_equal(count_of(fixture, "task-1"), 0);
    assert_true(accept(fixture, "task-1", "analyst", "coder") <= last);
    assert_int_equal(count_of(fixture, "task-1"), 1);
}

/* Each run makes too few for a batch, and together they are one. */
static void test_short_runs_are_indexed(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.durability = HANDOFF_DURABILITY_NONE;
    for (int run = 0; run < 3; run++) {
        handoff_store_close(&fixture->store);
        assert_int_equal(handoff_store_open(&fixture->store, &fixture->options, NULL), HANDOFF_OK);
        for (int i = 0; i < 600; i++)
            accept(fixture, "task-1", "analyst", "coder");
    }
    assert_true(ask(fixture, "SELECT through FROM task_indexed") >= 1000);
    assert_int_equal(count_of(fixture, "task-1"), 1800);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_a_task_is_completed_once),
        WITH_STORE(test_it_stays_completed_after_a_restart),
        WITH_STORE(test_an_unknown_task_is_not_found),
        WITH_STORE(test_only_who_took_part_completes),
        WITH_STORE(test_a_party_began_the_task_or_was_sent_something),
        WITH_STORE(test_a_task_may_begin_without_a_handoff),
        WITH_STORE(test_it_is_forgotten_with_the_last_envelope),
        WITH_STORE(test_found_before_and_after_they_are_indexed),
        WITH_STORE(test_numbers_that_come_again_are_found),
        WITH_STORE(test_short_runs_are_indexed),
    };
    return RUN_TESTS(tests);
}
