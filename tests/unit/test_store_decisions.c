/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions in the store: with the move that they brought about, once, filtered, and retained. */
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include "client/store/handoffs.h"

enum { HOUR_MS = 3600000, MANY = 700 };

struct fixture {
    char *directory;
    struct handoff_store *store;
    struct base_uuid_source ids;
    struct base_manual_clock clock;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.directory = temp_directory()};
    base_manual_clock_init(&fixture.clock, 1700000000000);
    base_uuid_source_init(&fixture.ids, &fixture.clock.clock, NULL);
    struct handoff_store_options options = {.path = fixture.directory,
                                            .clock = &fixture.clock.clock,
                                            .retention_decisions_ms = HOUR_MS,
                                            .retention_every_ms = 1};
    *state = &fixture;
    return handoff_store_open(&fixture.store, &options, NULL) == HANDOFF_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    handoff_store_close(&fixture->store);
    temp_remove(fixture->directory);
    return 0;
}

static void accept_one(struct fixture *fixture, struct handoff_store_accept *accept)
{
    memset(accept, 0, sizeof *accept);
    temp_envelope(&accept->put, &fixture->ids, "task-1", 300);
    accept->standing.state = HANDOFF_STATE_PARKED;
    accept->standing.target = accept->asked_target = base_span_text("coder");
    accept->source = base_span_text("analyst");
    accept->put.job.run = NULL;
}

static enum handoff_code accept_now(struct fixture *fixture, struct handoff_store_accept *accept)
{
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    accept->put.job.mailbox = &mailbox;
    accept->put.job.done = temp_nothing;
    handoff_store_accept(fixture->store, accept);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    return accept->put.job.error.code;
}

static void move_with(struct fixture *fixture, int64_t seq,
                      const struct handoff_attempt_record *record)
{
    struct handoff_store_move move = {.seq = seq, .attempts = record, .nattempts = record != NULL};
    struct base_mailbox mailbox;
    move.standing.state = HANDOFF_STATE_READY;
    move.standing.target = base_span_text("coder");
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    move.job.mailbox = &mailbox;
    move.job.done = temp_nothing;
    handoff_store_move(fixture->store, &move);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    assert_int_equal(move.job.error.code, HANDOFF_OK);
}

static struct handoff_stored_decision decision_on(const struct handoff_store_accept *accept,
                                                  int64_t at_ms, const char *who)
{
    return (struct handoff_stored_decision){.handoff = accept->put.id,
                                            .at_ms = at_ms,
                                            .action = HANDOFF_ACTION_REPLAY,
                                            .who = base_span_text(who),
                                            .reason = base_span_text("it is back"),
                                            .task_id = base_span_text("task-1"),
                                            .target = base_span_text("coder")};
}

struct seen {
    size_t count;
    int64_t first, last;
    char who[32], reason[32], by[32];
    bool has_replacement;
};

static void note(void *arg, const struct handoff_stored_decision *row)
{
    struct seen *seen = arg;
    seen->first = seen->count++ ? seen->first : row->number;
    seen->last = row->number;
    snprintf(seen->who, sizeof seen->who, "%.*s", (int)row->who.size, row->who.data);
    snprintf(seen->reason, sizeof seen->reason, "%.*s", (int)row->reason.size, row->reason.data);
    snprintf(seen->by, sizeof seen->by, "%.*s", (int)row->by.size, row->by.data);
    seen->has_replacement = row->replacement.bytes[0] != 0;
}

static struct seen visit(struct fixture *fixture, struct handoff_decision_filter filter)
{
    struct seen seen = {0};
    filter.limit = filter.limit ? filter.limit : 1000;
    filter.actions = filter.actions ? filter.actions : UINT32_MAX;
    assert_int_equal(handoff_store_visit_decisions(fixture->store, &filter, note, &seen, NULL),
                     HANDOFF_OK);
    return seen;
}

/* As after a commit that failed and was made all the same. */
static void test_a_write_that_is_repeated_records_it_once(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    accept_one(fixture, &accept);
    assert_int_equal(accept_now(fixture, &accept), HANDOFF_OK);
    const struct handoff_stored_decision row = decision_on(&accept, 1700000000000, "@operator");
    const struct handoff_attempt_record record = {.decision = &row};
    move_with(fixture, accept.seq, &record);
    move_with(fixture, accept.seq, &record);
    struct seen seen = visit(fixture, (struct handoff_decision_filter){.handoff = accept.put.id});
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.who, "@operator");
    assert_string_equal(seen.reason, "it is back");
    assert_string_equal(seen.by, "");
    assert_false(seen.has_replacement);
    temp_envelope_free(&accept.put);
}

static void test_an_accepted_replacement_has_its_decision(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept old, new;
    accept_one(fixture, &old);
    assert_int_equal(accept_now(fixture, &old), HANDOFF_OK);
    accept_one(fixture, &new);
    struct handoff_stored_decision row = decision_on(&old, 1700000000000, "alice");
    row.replacement = new.put.id;
    new.decision = &row;
    assert_int_equal(accept_now(fixture, &new), HANDOFF_OK);
    struct seen seen = visit(fixture, (struct handoff_decision_filter){.handoff = old.put.id});
    assert_int_equal(seen.count, 1);
    assert_true(seen.has_replacement);
    temp_envelope_free(&old.put);
    temp_envelope_free(&new.put);
}

static void test_one_that_is_not_accepted_leaves_no_decision(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    struct base_uuid gone = base_uuid_make(&fixture->ids);
    accept_one(fixture, &accept);
    const struct handoff_stored_decision row = decision_on(&accept, 1700000000000, "alice");
    accept.put.parents = &gone;
    accept.put.nparents = 1;
    accept.put.hop = 2;
    accept.decision = &row;
    assert_int_equal(accept_now(fixture, &accept), HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(visit(fixture, (struct handoff_decision_filter){0}).count, 0);
    temp_envelope_free(&accept.put);
}

static void test_filters(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    accept_one(fixture, &accept);
    assert_int_equal(accept_now(fixture, &accept), HANDOFF_OK);
    for (int i = 0; i < 4; i++) {
        struct handoff_stored_decision row =
            decision_on(&accept, 1700000000000 + i, i % 2 ? "alice" : "bob");
        row.action = i < 2 ? HANDOFF_ACTION_REPLAY : HANDOFF_ACTION_DISCARD;
        const struct handoff_attempt_record record = {.decision = &row};
        move_with(fixture, accept.seq, &record);
    }
    const struct handoff_decision_filter alice = {.who = base_span_text("alice")},
                                         discards = {.actions = 1 << HANDOFF_ACTION_DISCARD},
                                         since = {.since_ms = 1700000000001},
                                         until = {.until_ms = 1700000000001},
                                         task = {.task_id = base_span_text("task-1")},
                                         other = {.task_id = base_span_text("task-2")},
                                         first = {.oldest_first = true, .limit = 1};
    assert_int_equal(visit(fixture, alice).count, 2);
    assert_int_equal(visit(fixture, discards).count, 2);
    assert_int_equal(visit(fixture, since).count, 3);
    assert_int_equal(visit(fixture, until).count, 1);
    assert_int_equal(visit(fixture, task).count, 4);
    assert_int_equal(visit(fixture, other).count, 0);
    assert_string_equal(visit(fixture, first).who, "bob");
    const struct seen newest = visit(fixture, (struct handoff_decision_filter){0});
    assert_true(newest.first > newest.last);
    const struct handoff_decision_filter beyond = {.beyond = newest.first};
    assert_int_equal(visit(fixture, beyond).count, 3);
    temp_envelope_free(&accept.put);
}

static void test_they_go_when_their_time_has_come_and_not_before(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    accept_one(fixture, &accept);
    assert_int_equal(accept_now(fixture, &accept), HANDOFF_OK);
    for (int i = 0; i < MANY; i++) { /* more than a step removes */
        const int64_t at_ms = i < MANY - 1 ? 1700000000000 + i : 1700000000000 + HOUR_MS;
        const struct handoff_stored_decision row = decision_on(&accept, at_ms, "alice");
        const struct handoff_attempt_record record = {.decision = &row};
        move_with(fixture, accept.seq, &record);
    }
    assert_int_equal(visit(fixture, (struct handoff_decision_filter){0}).count, MANY);
    base_manual_clock_advance(&fixture->clock, HOUR_MS + MANY);
    while (visit(fixture, (struct handoff_decision_filter){0}).count > 1)
        move_with(fixture, accept.seq, NULL); /* retention follows a commit */
    assert_int_equal(visit(fixture, (struct handoff_decision_filter){0}).count, 1);
    temp_envelope_free(&accept.put);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_write_that_is_repeated_records_it_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_accepted_replacement_has_its_decision, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_one_that_is_not_accepted_leaves_no_decision, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_filters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_they_go_when_their_time_has_come_and_not_before,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
