/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's half of the ledger: an envelope's ancestors in order, what a request continues, what
 * is known of tasks without a read, and that no retention takes an ancestor from what is left.
 */
#include "client/store/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/store/channels.h"
#include "client/store/handoffs.h"
#include "client/store/parties.h"
#include "client/store/sqlite/migrate.h"
#include "client/store/sqlite/retained_size.h"
#include "client/store/sqlite/retention.h"
#include "lib/base/arena.h"
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"
#include "tests/support/wait.h"

static struct base_uuid_source ids;

static struct fixture {
    char *directory;
    char database[512];
    struct base_manual_clock clock; /* near the times at which what is here finishes */
    struct handoff_store *store;    /* NULL while `db` is open */
    struct handoff_db db;
    struct base_arena arena;
    struct handoff_error error;
    struct handoff_contribution *list; /* of the last ledger */
    size_t count;
    struct handoff_continued continued;
} fixture;

static void open_store(void)
{
    /* no step of its own: the tests make them */
    const struct handoff_store_options options = {
        .path = fixture.directory, .clock = &fixture.clock.clock, .retention_every_ms = 1 << 30};
    handoff_db_close(&fixture.db);
    assert_int_equal(handoff_store_open(&fixture.store, &options, &fixture.error), HANDOFF_OK);
}

static void open_database(void)
{
    handoff_store_close(&fixture.store);
    assert_int_equal(
        handoff_db_open(&fixture.db, fixture.database, HANDOFF_DB_WRITE, NULL, &fixture.error),
        HANDOFF_OK);
}

static int set_up(void **state)
{
    (void)state;
    base_manual_clock_init(&fixture.clock, 30000);
    fixture.directory = temp_directory();
    snprintf(fixture.database, sizeof fixture.database, "%s/handoff.db", fixture.directory);
    base_arena_init(&fixture.arena, 0);
    open_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    handoff_db_close(&fixture.db);
    handoff_store_close(&fixture.store);
    base_arena_free(&fixture.arena);
    temp_remove(fixture.directory);
    return 0;
}

static int64_t ask(const char *sql)
{
    int64_t number;
    assert_int_equal(handoff_db_number(&fixture.db, sql, &number, &fixture.error), HANDOFF_OK);
    return number;
}

static void assert_sound(void)
{
    struct handoff_store_report report;
    assert_int_equal(handoff_store_check(fixture.directory, &report, &fixture.error), HANDOFF_OK);
    assert_string_equal(report.problem, "");
}

/* ---- handoffs -------------------------------------------------------------------------------- */

struct made {
    struct base_uuid id;
    int64_t seq, hop;
    struct base_uuid root;
    char text[32]; /* what it contributed */
};

/* What the next one has; a test sets what it needs. */
struct wanted {
    const char *task, *source, *target;
    const struct made *parents[4]; /* the newest first */
    const struct base_uuid *replaces;
    bool plain; /* as an older version stored it: without a contribution */
};

static struct made made_with(const struct wanted *wanted, struct handoff_store_put_envelope *put,
                             struct base_uuid parents[4])
{
    static int number;
    struct made made = {.hop = 1};
    temp_envelope(put, &ids, wanted->task ? wanted->task : "task", 100);
    snprintf(made.text, sizeof made.text, "{\"summary\":\"%d\"}", ++number);
    for (size_t i = 0; i < 4 && wanted->parents[i]; i++) {
        parents[put->nparents++] = wanted->parents[i]->id;
        if (wanted->parents[i]->hop >= made.hop)
            made.hop = wanted->parents[i]->hop + 1;
    }
    made.id = put->id;
    put->parents = parents;
    put->hop = made.hop;
    if (wanted->replaces)
        put->replaces = *wanted->replaces;
    return made;
}

static enum handoff_code run(struct handoff_store_job *job,
                             void (*submit)(struct handoff_store *store, void *job))
{
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    job->mailbox = &mailbox;
    job->done = temp_nothing;
    submit(fixture.store, job);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    fixture.error = job->error;
    return job->error.code;
}

static void submit_accept(struct handoff_store *store, void *job)
{
    handoff_store_accept(store, job);
}

static void submit_move(struct handoff_store *store, void *job)
{
    handoff_store_move(store, job);
}

static enum handoff_code try_to_accept(struct wanted wanted, struct made *made)
{
    struct base_uuid parents[4];
    struct handoff_store_accept accept = {0};
    *made = made_with(&wanted, &accept.put, parents);
    if (!wanted.plain)
        accept.put.contribution = base_span_text(made->text);
    accept.source = base_span_text(wanted.source ? wanted.source : "planner");
    accept.asked_target = accept.standing.target =
        base_span_text(wanted.target ? wanted.target : "coder");
    accept.standing.state = HANDOFF_STATE_READY;
    enum handoff_code code = run(&accept.put.job, submit_accept);
    made->seq = accept.seq;
    made->root = accept.root;
    temp_envelope_free(&accept.put);
    return code;
}

static struct made accept(struct wanted wanted)
{
    struct made made;
    assert_int_equal(try_to_accept(wanted, &made), HANDOFF_OK);
    return made;
}

static struct made assemble(struct wanted wanted)
{
    struct base_uuid parents[4];
    struct handoff_store_put_envelope put;
    struct made made = made_with(&wanted, &put, parents);
    put.contribution = base_span_text(made.text);
    put.source = base_span_text(wanted.source);
    put.target = base_span_text(wanted.target);
    put.finished = true;
    assert_int_equal(temp_put(fixture.store, &put), HANDOFF_OK);
    temp_envelope_free(&put);
    return made;
}

static void settle(const struct made *made, enum handoff_state state, const char *target)
{
    static int64_t now_ms = 1000;
    struct handoff_store_move move = {
        .seq = made->seq,
        .standing = {.state = (int)state, .target = base_span_text(target), .settled_ms = ++now_ms},
        .over = state == HANDOFF_STATE_ACKNOWLEDGED || state == HANDOFF_STATE_DISCARDED};
    assert_int_equal(run(&move.job, submit_move), HANDOFF_OK);
}

static void finish(const struct made *made)
{
    settle(made, HANDOFF_STATE_ACKNOWLEDGED, "coder");
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum handoff_code get_ledger(const struct made *const *of, size_t count)
{
    struct base_uuid wanted[8];
    for (size_t i = 0; i < count; i++)
        wanted[i] = of[i]->id;
    return handoff_store_get_ledger(fixture.store, wanted, count, &fixture.arena, &fixture.list,
                                    &fixture.count, &fixture.error);
}

static void assert_text(struct base_span found, const char *expected)
{
    assert_int_equal(found.size, strlen(expected));
    assert_memory_equal(found.data, expected, found.size);
}

static void assert_ledger(const struct made *of, const struct made *const *expected, size_t count)
{
    assert_int_equal(get_ledger(&of, 1), HANDOFF_OK);
    assert_int_equal(fixture.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct handoff_contribution *found = &fixture.list[i];
        assert_memory_equal(&found->id, &expected[i]->id, sizeof found->id);
        assert_int_equal(found->hop, expected[i]->hop);
        assert_text(found->text, expected[i]->text);
        assert_text(found->task_id, "task");
        assert_text(found->source, "planner");
        assert_text(found->target, "coder");
    }
}

#define ASSERT_LEDGER(of, ...)                                                                     \
    do {                                                                                           \
        const struct made *const expected[] = {__VA_ARGS__};                                       \
        assert_ledger(of, expected, sizeof expected / sizeof *expected);                           \
    } while (0)

static void test_a_ledger_has_all_ancestors_oldest_first(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){0});
    const struct made b = accept((struct wanted){.parents = {&a}});
    const struct made sibling = accept((struct wanted){.parents = {&a}});
    const struct made c = accept((struct wanted){.parents = {&b}});
    ASSERT_LEDGER(&a, &a);
    ASSERT_LEDGER(&sibling, &a, &sibling);
    ASSERT_LEDGER(&c, &a, &b, &c);
    assert_int_equal(fixture.list[0].nparents, 0);
    assert_int_equal(fixture.list[2].nparents, 1);
    assert_memory_equal(fixture.list[2].parents, &b.id, sizeof b.id);
    assert_false(fixture.list[0].envelope_is_gone);
    assert_sound();
}

static void test_with_fan_in_each_ancestor_is_there_once(void **state)
{
    (void)state;
    const struct made root = accept((struct wanted){0});
    const struct made left = accept((struct wanted){.parents = {&root}});
    const struct made right = accept((struct wanted){.parents = {&root}});
    const struct made join = accept((struct wanted){.parents = {&right, &left}});
    assert_int_equal(join.hop, 3);
    ASSERT_LEDGER(&join, &root, &left, &right, &join);
    assert_int_equal(fixture.list[3].nparents, 2);
    assert_memory_equal(&fixture.list[3].parents[0], &right.id, sizeof right.id);
    assert_memory_equal(&fixture.list[3].parents[1], &left.id, sizeof left.id);
    const struct made *both[] = {&left, &right};
    assert_int_equal(get_ledger(both, 2), HANDOFF_OK);
    assert_int_equal(fixture.count, 3);
}

static void test_a_wide_fan_in(void **state)
{
    struct made parents[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        parents[i] = accept((struct wanted){0});
    const struct made join =
        accept((struct wanted){.parents = {&parents[3], &parents[2], &parents[1], &parents[0]}});
    ASSERT_LEDGER(&join, &parents[0], &parents[1], &parents[2], &parents[3], &join);
    assert_int_equal(fixture.list[4].nparents, 4);
}

static void test_an_envelope_that_is_not_there_has_no_ledger(void **state)
{
    char text[BASE_UUID_TEXT];
    (void)state;
    const struct made a = accept((struct wanted){0});
    const struct made none = {.id = base_uuid_make(&ids)};
    const struct made *both[] = {&a, &none};
    assert_int_equal(get_ledger(both, 2), HANDOFF_ERR_NOT_FOUND);
    base_uuid_format(&none.id, text);
    assert_non_null(strstr(fixture.error.seen, text));
}

static void test_a_child_of_a_removed_parent_is_not_stored(void **state)
{
    struct made child;
    (void)state;
    const struct made none = {.id = base_uuid_make(&ids)};
    assert_int_equal(try_to_accept((struct wanted){.parents = {&none}}, &child),
                     HANDOFF_ERR_NOT_FOUND);
    const struct made *alone[] = {&child};
    assert_int_equal(get_ledger(alone, 1), HANDOFF_ERR_NOT_FOUND);
    assert_sound();
}

static void test_the_target_is_who_has_it(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){0});
    settle(&a, HANDOFF_STATE_ACKNOWLEDGED, "reviewer");
    const struct made *alone[] = {&a};
    assert_int_equal(get_ledger(alone, 1), HANDOFF_OK);
    assert_text(fixture.list[0].target, "reviewer");
}

static void assert_chain(const struct made *of, const struct made *root,
                         const struct made *previous)
{
    static const struct base_uuid nil;
    struct handoff_stored stored;
    assert_int_equal(
        handoff_store_get_handoff(fixture.store, &of->id, &fixture.arena, &stored, &fixture.error),
        HANDOFF_OK);
    assert_memory_equal(&stored.root, root ? &root->id : &nil, sizeof nil);
    assert_memory_equal(&stored.previous, previous ? &previous->id : &nil, sizeof nil);
    assert_memory_equal(&of->root, &stored.root, sizeof nil);
}

static void test_a_handoff_knows_its_root_and_its_newest_parent(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){0});
    const struct made b = accept((struct wanted){.parents = {&a}});
    const struct made c = accept((struct wanted){0});
    const struct made d = accept((struct wanted){.parents = {&c, &b}});
    assert_chain(&a, NULL, NULL);
    assert_chain(&b, &a, &a);
    assert_chain(&d, &a, &c);
}

static void test_a_replaced_one_is_marked_where_it_was_continued_before(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){0});
    const struct made b = accept((struct wanted){.parents = {&a}});
    const struct made c = accept((struct wanted){.parents = {&b}});
    ASSERT_LEDGER(&c, &a, &b, &c);
    assert_false(fixture.list[1].replaced);
    const struct made instead = accept((struct wanted){.parents = {&a}, .replaces = &b.id});
    ASSERT_LEDGER(&instead, &a, &instead);
    ASSERT_LEDGER(&c, &a, &b, &c);
    assert_true(fixture.list[1].replaced);
    assert_false(fixture.list[0].replaced || fixture.list[2].replaced);
    assert_sound();
}

static void test_what_was_replaced_meanwhile_is_neither_continued_nor_replaced_again(void **state)
{
    struct made made;
    (void)state;
    const struct made a = accept((struct wanted){0});
    const struct made b = accept((struct wanted){.parents = {&a}});
    const struct made other = accept((struct wanted){.parents = {&a}, .replaces = &b.id});
    assert_int_equal(try_to_accept((struct wanted){.parents = {&b}}, &made), HANDOFF_ERR_CONFLICT);
    assert_int_equal(try_to_accept((struct wanted){.parents = {&a}, .replaces = &b.id}, &made),
                     HANDOFF_ERR_CONFLICT);
    accept((struct wanted){.parents = {&other}});
    assert_sound();
}

static void test_an_edit_keeps_a_parent_that_was_replaced(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){0});
    const struct made b = accept((struct wanted){.parents = {&a}});
    const struct made c = accept((struct wanted){.parents = {&b}});
    accept((struct wanted){.parents = {&a}, .replaces = &b.id});
    const struct made edited = accept((struct wanted){.parents = {&b}, .replaces = &c.id});
    ASSERT_LEDGER(&edited, &a, &b, &edited);
    assert_sound();
}

/* ---- what a request continues ------------------------------------------------------------------
 */

static const struct handoff_continued *find_continued(const char *task, const char *agent)
{
    assert_int_equal(handoff_store_find_continued(fixture.store, base_span_text(task),
                                                  base_span_text(agent), &fixture.arena,
                                                  &fixture.continued, &fixture.error),
                     HANDOFF_OK);
    return &fixture.continued;
}

static void assert_continued(const char *agent, const struct made *const *expected, size_t count)
{
    const struct handoff_continued *found = find_continued("task", agent);
    assert_int_equal(found->nids, count);
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(&found->ids[i], &expected[i]->id, sizeof *found->ids);
    assert_true(found->is_known && found->is_party);
}

#define ASSERT_CONTINUED(agent, ...)                                                               \
    do {                                                                                           \
        const struct made *const expected[] = {__VA_ARGS__};                                       \
        assert_continued(agent, expected, sizeof expected / sizeof *expected);                     \
    } while (0)

static void test_an_agent_continues_all_that_nothing_continues(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.source = "planner", .target = "coder"});
    const struct made b = accept((struct wanted){.source = "planner", .target = "coder"});
    const struct made c = accept((struct wanted){.source = "planner", .target = "tester"});
    accept((struct wanted){.task = "other", .target = "coder"});
    ASSERT_CONTINUED("coder", &b, &a);
    ASSERT_CONTINUED("tester", &c);
    const struct made d =
        accept((struct wanted){.source = "coder", .target = "tester", .parents = {&a}});
    ASSERT_CONTINUED("coder", &b);
    ASSERT_CONTINUED("tester", &d, &c);
}

static void test_where_all_is_continued_it_is_the_newest(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.target = "coder"});
    const struct made b = accept((struct wanted){.target = "coder"});
    accept((struct wanted){.source = "coder", .target = "tester", .parents = {&b, &a}});
    ASSERT_CONTINUED("coder", &b);
}

static void test_who_took_it_over_continues_it(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.target = "coder"});
    settle(&a, HANDOFF_STATE_ACKNOWLEDGED, "substitute");
    ASSERT_CONTINUED("substitute", &a);
    ASSERT_CONTINUED("coder", &a);
}

static void test_what_was_only_assembled_is_continued_by_its_target(void **state)
{
    (void)state;
    const struct made a = assemble((struct wanted){.source = "planner", .target = "coder"});
    ASSERT_CONTINUED("coder", &a);
    assert_true(find_continued("task", "planner")->began_it);
    assert_int_equal(find_continued("task", "planner")->nids, 0);
    assert_false(find_continued("task", "stranger")->is_party);
}

static enum handoff_code deliver(const struct made *made, const char *target)
{
    struct handoff_store_accept accept = {.stored = true, .put = {.id = made->id}};
    accept.source = base_span_text("coder");
    accept.asked_target = accept.standing.target = base_span_text(target);
    accept.standing.state = HANDOFF_STATE_READY;
    return run(&accept.put.job, submit_accept);
}

static void test_what_was_only_assembled_continues_nothing_until_it_is_delivered(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.target = "coder"});
    const struct made b = accept((struct wanted){.target = "coder"});
    const struct made draft =
        assemble((struct wanted){.source = "coder", .target = "tester", .parents = {&b, &a}});
    ASSERT_CONTINUED("coder", &b, &a);
    ASSERT_CONTINUED("tester", &draft);
    assert_int_equal(deliver(&draft, "tester"), HANDOFF_OK);
    ASSERT_CONTINUED("coder", &b);
    ASSERT_CONTINUED("tester", &draft);
    const struct made c = accept((struct wanted){.target = "coder"});
    ASSERT_CONTINUED("coder", &c);
    assert_sound();
}

static void test_a_handoff_beside_one_that_was_only_assembled_closes_its_parents(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.target = "coder"});
    const struct made b = accept((struct wanted){.target = "coder"});
    assemble((struct wanted){.source = "coder", .target = "tester", .parents = {&b, &a}});
    accept((struct wanted){.source = "coder", .target = "tester", .parents = {&b, &a}});
    ASSERT_CONTINUED("coder", &b);
    assemble((struct wanted){.source = "coder", .target = "tester", .parents = {&b}});
    ASSERT_CONTINUED("coder", &b);
    assert_sound();
}

static void test_a_replaced_one_is_not_continued(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.target = "coder"});
    const struct made instead = accept((struct wanted){.target = "coder", .replaces = &a.id});
    ASSERT_CONTINUED("coder", &instead);
    const struct made edited = accept((struct wanted){.target = "coder", .replaces = &instead.id});
    ASSERT_CONTINUED("coder", &edited);
    assert_sound();
}

static void test_a_task_whose_first_envelope_was_replaced_begins_with_the_edit(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.source = "planner", .target = "coder"});
    const struct made once = accept((struct wanted){.target = "coder", .replaces = &a.id});
    const struct made twice = accept((struct wanted){.target = "coder", .replaces = &once.id});
    assert_memory_equal(&find_continued("task", "planner")->first, &twice.id, sizeof twice.id);
    assert_true(fixture.continued.began_it);
}

static void test_who_began_a_task_is_a_party_and_others_are_not(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.source = "planner", .target = "coder"});
    accept((struct wanted){.source = "joiner", .target = "tester"});
    const struct handoff_continued *found = find_continued("task", "planner");
    assert_true(found->is_known && found->is_party && found->began_it);
    assert_int_equal(found->nids, 0);
    assert_memory_equal(&found->first, &a.id, sizeof a.id);
    found = find_continued("task", "joiner");
    assert_true(found->is_known && !found->is_party && !found->began_it);
    assert_false(find_continued("another", "planner")->is_known);
}

static struct made wait_for_alternate(void)
{
    const struct made a = accept((struct wanted){.target = "coder"});
    accept((struct wanted){.target = "tester"}); /* from the second one on, agents are listed */
    settle(&a, HANDOFF_STATE_READY, "substitute");
    return a;
}

static void test_an_alternate_that_lost_it_again_has_nothing_to_continue(void **state)
{
    (void)state;
    const struct made a = wait_for_alternate();
    ASSERT_CONTINUED("substitute", &a);
    settle(&a, HANDOFF_STATE_READY, "another");
    ASSERT_CONTINUED("another", &a);
    ASSERT_CONTINUED("coder", &a);
    assert_false(find_continued("task", "substitute")->is_party);
}

static void test_an_alternate_that_was_tried_may_go_on_where_nothing_is_open(void **state)
{
    struct handoff_attempt_record tried = {
        .attempt = {.number = 1, .target = base_span_text("substitute")}};
    (void)state;
    const struct made a = wait_for_alternate();
    struct handoff_store_move move = {
        .seq = a.seq,
        .standing = {.state = HANDOFF_STATE_READY, .target = base_span_text("coder")},
        .attempts = &tried,
        .nattempts = 1};
    assert_int_equal(run(&move.job, submit_move), HANDOFF_OK);
    ASSERT_CONTINUED("substitute", &a);
    const struct made b = accept((struct wanted){.target = "substitute"});
    ASSERT_CONTINUED("substitute", &b);
    assert_sound();
}

static void test_a_list_that_lacks_an_agent_is_noticed(void **state)
{
    struct handoff_store_report report;
    (void)state;
    accept((struct wanted){.target = "coder"});
    accept((struct wanted){.target = "tester"});
    open_database();
    assert_sound();
    assert_int_equal(
        handoff_db_exec(&fixture.db, "DELETE FROM addressed WHERE agent = 'coder'", &fixture.error),
        HANDOFF_OK);
    assert_int_equal(handoff_store_check(fixture.directory, &report, &fixture.error), HANDOFF_OK);
    assert_non_null(strstr(report.problem, "who was addressed"));
}

/* Since the last call, on the reader that a lone caller gets again and again. */
static int64_t steps_of_reader(void)
{
    int64_t steps = 0;
    struct handoff_db *db = handoff_store_reader(fixture.store, &fixture.error);
    assert_non_null(db);
    for (sqlite3_stmt *each = NULL; (each = sqlite3_next_stmt(db->sqlite, each));)
        steps += sqlite3_stmt_status(each, SQLITE_STMTSTATUS_VM_STEP, 1);
    handoff_store_reader_done(fixture.store, db);
    return steps;
}

static int64_t steps_to_continue(const char *agent, size_t count)
{
    steps_of_reader();
    assert_int_equal(find_continued("task", agent)->nids, count);
    return steps_of_reader();
}

static void fan_out(int envelopes)
{
    for (int i = 0; i < envelopes; i++)
        accept((struct wanted){.source = "planner", .target = "coder"});
}

static void test_what_a_request_continues_is_found_in_any_task_in_as_many_steps(void **state)
{
    enum { FEW = 10, MANY = 10000 };
    (void)state;
    accept((struct wanted){.task = "small", .source = "planner", .target = "coder"});
    fan_out(FEW / 2);
    accept((struct wanted){.source = "planner", .target = "tester"});
    fan_out(FEW / 2);
    const int64_t none = steps_to_continue("planner", 0);
    const int64_t open = steps_to_continue("tester", 1);
    fan_out(MANY);
    assert_true(steps_to_continue("planner", 0) <= none);
    assert_true(steps_to_continue("tester", 1) <= open);
    find_continued("small", "coder"); /* looks through those that wait for the index of tasks */
    assert_true(steps_of_reader() < MANY);
}

/* ---- tasks that may be known ------------------------------------------------------------------
 */

static bool may_know(const char *task)
{
    return handoff_store_may_know_task(fixture.store, base_span_text(task));
}

/* The writer reads the store when it has nothing else to do; from then on an unknown task is one.
 */
static void wait_until_tasks_are_read(void)
{
    WAIT_UNTIL(!may_know("unknown"), "the writer has read which tasks there are");
}

static void test_a_task_may_be_known_from_its_first_commit_on(void **state)
{
    (void)state;
    wait_until_tasks_are_read();
    assert_false(may_know("task"));
    accept((struct wanted){0});
    assert_true(may_know("task"));
    assert_false(may_know("task2"));
}

static void test_tasks_are_known_after_a_restart(void **state)
{
    char name[32];
    enum { TASKS = 2500 }; /* more than one batch of the index, and some that wait for it */
    (void)state;
    for (int i = 0; i < TASKS; i++) {
        snprintf(name, sizeof name, "task-%08x", (unsigned)i * 2654435761u);
        accept((struct wanted){.task = name});
    }
    handoff_store_close(&fixture.store);
    open_store();
    wait_until_tasks_are_read();
    for (int i = 0; i < TASKS; i++) {
        snprintf(name, sizeof name, "task-%08x", (unsigned)i * 2654435761u);
        assert_true(may_know(name));
    }
    assert_false(may_know("task-"));
}

/* ---- publications ---------------------------------------------------------------------------- */

enum { RECEIVERS = 3 };
static const char *const receivers[RECEIVERS] = {"coder", "tester", "writer"};

static size_t ndone;

static void count_done(struct handoff_store_job *job)
{
    assert_int_equal(job->error.code, HANDOFF_OK);
    ndone++;
}

static void join(struct handoff_store_unit *unit, struct base_mailbox *mailbox,
                 struct handoff_store_job *job)
{
    job->unit = unit;
    job->mailbox = mailbox;
    job->done = count_done;
}

static void join_delivery(struct handoff_store_accept *accept, const struct made *of,
                          const struct handoff_store_put_envelope *put, const char *receiver)
{
    static const char nothing[] = "{}";
    *accept = (struct handoff_store_accept){
        .put = {.id = base_uuid_make(&ids),
                .task_id = put->task_id,
                .created_ms = put->created_ms,
                .shares = of->id,
                .parents = &of->id,
                .nparents = 1,
                .hop = 1,
                .contribution = base_span_text(nothing)},
        .publication = of->id,
        .source = put->source,
        .asked_target = base_span_text(receiver),
        .standing = {.state = HANDOFF_STATE_READY, .target = base_span_text(receiver)}};
    memcpy(accept->put.digest, put->digest, sizeof put->digest);
}

/* In one commit, to all receivers. plain: without a contribution. */
static struct made publish_as(bool plain, struct made deliveries[RECEIVERS])
{
    struct base_uuid parents[4];
    struct base_mailbox mailbox;
    struct handoff_store_unit unit = {0};
    struct handoff_store_accept *accepts = calloc(RECEIVERS, sizeof *accepts);
    struct handoff_store_publish publish = {
        .channel = base_span_text("news"), .source = base_span_text("planner"), .at_ms = 100};
    struct made made = made_with(&(struct wanted){.source = "planner"}, &publish.put, parents);
    publish.put.source = publish.source;
    publish.put.target = base_span_text("broadcast");
    if (!plain)
        publish.put.contribution = base_span_text(made.text);
    publish.deliveries = RECEIVERS;
    assert_non_null(accepts);
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    join(&unit, &mailbox, &publish.put.job);
    handoff_store_publish(fixture.store, &publish);
    for (size_t i = 0; i < RECEIVERS; i++) {
        join_delivery(&accepts[i], &made, &publish.put, receivers[i]);
        join(&unit, &mailbox, &accepts[i].put.job);
        handoff_store_accept(fixture.store, &accepts[i]);
    }
    ndone = 0;
    handoff_store_submit_unit(fixture.store, &unit, NULL);
    while (ndone < RECEIVERS + 1)
        base_mailbox_wait(&mailbox, -1);
    base_mailbox_free(&mailbox);
    temp_envelope_free(&publish.put);
    made.seq = publish.seq;
    for (size_t i = 0; i < RECEIVERS; i++)
        deliveries[i] = (struct made){
            .id = accepts[i].put.id, .seq = accepts[i].seq, .hop = 1, .root = accepts[i].root};
    free(accepts);
    return made;
}

static struct made publish(struct made deliveries[RECEIVERS])
{
    return publish_as(false, deliveries);
}

static int64_t count_addressed(void)
{
    int64_t count;
    struct handoff_db *db = handoff_store_reader(fixture.store, &fixture.error);
    assert_non_null(db);
    assert_int_equal(
        handoff_db_number(db, "SELECT count(*) FROM addressed", &count, &fixture.error),
        HANDOFF_OK);
    handoff_store_reader_done(fixture.store, db);
    return count;
}

static void test_receivers_continue_their_deliveries_of_a_task_that_is_not_listed(void **state)
{
    struct made deliveries[RECEIVERS];
    (void)state;
    const struct made publication = publish(deliveries);
    assert_int_equal(count_addressed(), 0);
    for (size_t i = 0; i < RECEIVERS; i++) {
        ASSERT_CONTINUED(receivers[i], &deliveries[i]);
        assert_memory_equal(&deliveries[i].root, &publication.id, sizeof publication.id);
    }
    assert_true(find_continued("task", "planner")->began_it);
    assert_false(find_continued("task", "stranger")->is_party);
    settle(&deliveries[1], HANDOFF_STATE_READY, "substitute");
    ASSERT_CONTINUED("substitute", &deliveries[1]);
    ASSERT_CONTINUED("tester", &deliveries[1]);
    assert_int_equal(count_addressed(), 0);
    assert_sound();
}

static void test_what_continues_a_delivery_lists_the_publication_with_all_others(void **state)
{
    struct made deliveries[RECEIVERS];
    (void)state;
    publish(deliveries);
    const struct made next = accept(
        (struct wanted){.source = "coder", .target = "reviewer", .parents = {&deliveries[0]}});
    assert_true(count_addressed() > 0);
    ASSERT_CONTINUED("reviewer", &next);
    ASSERT_CONTINUED("coder", &deliveries[0]);
    ASSERT_CONTINUED("tester", &deliveries[1]);
    ASSERT_CONTINUED("writer", &deliveries[2]);
    assert_sound();
}

static void test_deliveries_of_what_contributed_nothing_have_it_in_their_ledgers(void **state)
{
    struct made deliveries[RECEIVERS];
    (void)state;
    publish_as(true, deliveries);
    ASSERT_CONTINUED("coder", &deliveries[0]);
    assert_sound();
}

static void test_a_publication_in_a_listed_task_is_listed(void **state)
{
    struct made first[RECEIVERS], second[RECEIVERS];
    (void)state;
    publish(first);
    publish(second);
    for (size_t i = 0; i < RECEIVERS; i++)
        ASSERT_CONTINUED(receivers[i], &second[i], &first[i]);
    assert_sound();
}

static void test_a_delivery_that_another_task_continues_is_still_the_newest(void **state)
{
    struct made deliveries[RECEIVERS];
    (void)state;
    publish(deliveries);
    accept((struct wanted){.task = "other", .parents = {&deliveries[0]}});
    ASSERT_CONTINUED("coder", &deliveries[0]); /* as the newest, where none is open */
    ASSERT_CONTINUED("tester", &deliveries[1]);
    assert_sound();
}

/* ---- retention --------------------------------------------------------------------------------
 */

static struct handoff_retention_removed step(struct handoff_retention limits)
{
    struct handoff_retention_removed removed;
    open_database();
    assert_int_equal(
        handoff_retention_step(&fixture.db, limits, INT64_C(1) << 50, &removed, &fixture.error),
        HANDOFF_OK);
    assert_sound();
    return removed;
}

static const struct handoff_retention by_age = {.age_ms = 1};

static void test_ancestors_outlive_their_bodies_and_rows_under_a_live_chain(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){0});
    const struct made b = accept((struct wanted){.parents = {&a}});
    const struct made c = accept((struct wanted){.parents = {&b}});
    finish(&a);
    finish(&b);
    assert_int_equal(step((struct handoff_retention){.body_bytes = 1}).bodies, 2);
    open_store();
    ASSERT_LEDGER(&c, &a, &b, &c);
    assert_int_equal(step(by_age).envelopes, 2);
    assert_int_equal(ask("SELECT rows FROM kept"), 0); /* what is live makes nothing else go */
    open_store();
    ASSERT_LEDGER(&c, &a, &b, &c);
    assert_true(fixture.list[0].envelope_is_gone);
    assert_memory_equal(fixture.list[1].parents, &a.id, sizeof a.id);
    finish(&c);
    open_database();
    const int64_t all = ask("SELECT rows FROM kept");
    assert_true(all > 3 * (int64_t)strlen(a.text) + INT64_C(2) * HANDOFF_RETAINED_ORPHAN_ROW);
    open_store();
    assert_int_equal(step(by_age).envelopes, 1);
    assert_int_equal(ask("SELECT count(*) FROM contributions"), 0);
    assert_int_equal(ask("SELECT count(*) FROM lineage"), 0);
    assert_int_equal(ask("SELECT rows FROM kept"), 0);
}

static void test_a_parked_child_keeps_its_parents(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){0});
    const struct made b = accept((struct wanted){.parents = {&a}});
    finish(&a);
    settle(&b, HANDOFF_STATE_PARKED, "coder");
    assert_int_equal(step(by_age).envelopes, 1);
    open_store();
    ASSERT_LEDGER(&b, &a, &b);
}

static void test_siblings_go_one_by_one_and_the_parent_with_the_last(void **state)
{
    (void)state;
    const struct made root = accept((struct wanted){0});
    const struct made first = accept((struct wanted){.parents = {&root}});
    const struct made second = accept((struct wanted){.parents = {&root}});
    finish(&root);
    finish(&second);
    assert_int_equal(step(by_age).envelopes, 2);
    assert_int_equal(ask("SELECT count(*) FROM contributions"), 2);
    open_store();
    ASSERT_LEDGER(&first, &root, &first);
    finish(&first);
    assert_int_equal(step(by_age).envelopes, 1);
    assert_int_equal(ask("SELECT count(*) FROM contributions"), 0);
}

static void test_removing_what_was_only_assembled_does_not_continue_its_parents(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.target = "coder"});
    const struct made b = accept((struct wanted){.target = "coder"});
    const struct made draft =
        assemble((struct wanted){.source = "coder", .target = "tester", .parents = {&b, &a}});
    accept((struct wanted){.source = "tester", .target = "writer", .parents = {&draft}});
    assert_int_equal(step(by_age).envelopes, 1);
    open_store();
    ASSERT_CONTINUED("coder", &b, &a);
}

static void test_removing_a_handoff_leaves_its_parents_continued(void **state)
{
    (void)state;
    const struct made a = accept((struct wanted){.target = "coder"});
    const struct made b = accept((struct wanted){.target = "coder"});
    const struct made c =
        accept((struct wanted){.source = "coder", .target = "tester", .parents = {&b, &a}});
    accept((struct wanted){.source = "tester", .target = "writer", .parents = {&c}});
    settle(&c, HANDOFF_STATE_ACKNOWLEDGED, "tester");
    assert_int_equal(step(by_age).envelopes, 1);
    open_store();
    ASSERT_CONTINUED("coder", &b);
}

static void test_what_retention_removed_from_a_chain_is_continued_by_its_agents(void **state)
{
    bool is_party;
    (void)state;
    const struct made a = accept((struct wanted){.source = "planner", .target = "coder"});
    const struct made b =
        accept((struct wanted){.source = "coder", .target = "tester", .parents = {&a}});
    settle(&a, HANDOFF_STATE_ACKNOWLEDGED, "substitute");
    assert_int_equal(step(by_age).envelopes, 1);
    assert_sound();
    open_store();
    ASSERT_CONTINUED("coder", &a);
    ASSERT_CONTINUED("substitute", &a);
    ASSERT_CONTINUED("tester", &b);
    assert_true(find_continued("task", "planner")->began_it);
    assert_memory_equal(&find_continued("task", "planner")->first, &a.id, sizeof a.id);
    assert_false(find_continued("task", "stranger")->is_party);
    assert_int_equal(handoff_store_is_party(fixture.store, &a.id, base_span_text("coder"),
                                            &is_party, &fixture.error),
                     HANDOFF_OK);
    assert_true(is_party);
    const struct made c = accept((struct wanted){.parents = {&a}});
    const struct made edit = accept((struct wanted){.parents = {&a}, .replaces = &b.id});
    assert_int_equal(get_ledger((const struct made *const[]){&c, &edit}, 2), HANDOFF_OK);
    assert_int_equal(fixture.count, 3);
    assert_true(fixture.list[0].envelope_is_gone);
    assert_memory_equal(&fixture.list[0].id, &a.id, sizeof a.id);
    assert_int_equal(get_ledger((const struct made *const[]){&a}, 1), HANDOFF_OK);
    assert_int_equal(fixture.count, 1);
    assert_sound();
}

static void test_an_envelope_that_is_wrongly_taken_for_handed_off_is_noticed(void **state)
{
    struct handoff_store_report report;
    (void)state;
    const struct made a = accept((struct wanted){.target = "coder"});
    assemble((struct wanted){.source = "coder", .target = "tester", .parents = {&a}});
    open_database();
    assert_sound();
    assert_int_equal(
        handoff_db_exec(&fixture.db, "UPDATE contributions SET handed_off = 1", &fixture.error),
        HANDOFF_OK);
    assert_int_equal(handoff_store_check(fixture.directory, &report, &fixture.error), HANDOFF_OK);
    assert_non_null(strstr(report.problem, "which envelopes were handed off"));
}

/* ---- a store of before ------------------------------------------------------------------------
 */

/* 1 and 2 are for the coder; 3 is only assembled and continues both, 4 is handed off and continues
   2, and 5 is all that is left of a handoff that continued 1. */
static const char chain_of_before[] =
    "INSERT INTO envelopes (seq, id, task_id, created_at, digest, cut_at, cut_size, body) VALUES"
    " (1, zeroblob(16), 'task', 1, zeroblob(32), 0, 0, ''),"
    " (2, randomblob(16), 'task', 2, zeroblob(32), 0, 0, ''),"
    " (3, randomblob(16), 'task', 3, zeroblob(32), 0, 0, ''),"
    " (4, randomblob(16), 'task', 4, zeroblob(32), 0, 0, ''),"
    " (6, randomblob(16), 'task', 4, zeroblob(32), 0, 0, '');"
    "INSERT INTO handoffs (seq, state, source, asked_target, target, pattern, deadline_at, due_at)"
    " SELECT value, 0, 'planner', 'coder', 'coder', 0, 0, 0 FROM json_each('[1,2,4,6]');"
    "INSERT INTO contributions (seq, hop, source, target, charged_to) VALUES (1, 1, NULL, NULL, "
    "NULL),"
    " (2, 1, NULL, NULL, NULL), (3, 2, 'coder', 'tester', NULL), (4, 2, NULL, NULL, NULL),"
    " (5, 2, 'coder', 'tester', 6), (6, 3, NULL, NULL, NULL);"
    "INSERT INTO addressed (task_id, agent, open, seq)"
    " SELECT task_id, agent, open, seq FROM addresses;";

static const char lineage_of_before[] =
    "INSERT INTO lineage (child, place, parent) VALUES (3, 0, 2), (3, 1, 1), (%s)";

static int64_t open_after_migration(const char *lineage)
{
    char sql[256];
    const int before = HANDOFF_SCHEMA_HANDED_OFF - 1;
    handoff_store_close(&fixture.store);
    temp_remove(fixture.directory);
    fixture.directory = temp_directory();
    snprintf(fixture.database, sizeof fixture.database, "%s/handoff.db", fixture.directory);
    open_database();
    snprintf(sql, sizeof sql, lineage_of_before, lineage);
    assert_int_equal(handoff_migrate(&fixture.db, before, &fixture.error), HANDOFF_OK);
    assert_int_equal(handoff_db_exec(&fixture.db, chain_of_before, &fixture.error), HANDOFF_OK);
    assert_int_equal(handoff_db_exec(&fixture.db, sql, &fixture.error), HANDOFF_OK);
    assert_int_equal(handoff_migrate(&fixture.db, handoff_migrate_newest(), &fixture.error),
                     HANDOFF_OK);
    return ask("SELECT coalesce(sum(seq), 0) FROM addressed"
               " WHERE agent = 'coder' AND open = 1 AND seq < 3");
}

static void test_in_a_store_of_before_what_was_only_assembled_continues_nothing(void **state)
{
    (void)state;
    assert_int_equal(open_after_migration("4, 0, 2"), 1);
    handoff_db_close(&fixture.db);
    assert_int_equal(open_after_migration("5, 0, 1"), 2);
}

/* ---- a model -----------------------------------------------------------------------------------
 */

enum { NODES = 60, ROUNDS = 40 };

struct node {
    struct made made;
    int parents[2];
    bool there, over;
};

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

/* What of it a ledger must have: itself and its ancestors, whatever retention took of them. */
static void mark_ancestors(const struct node *nodes, int of, bool marked[NODES])
{
    if (marked[of])
        return;
    marked[of] = true;
    for (int i = 0; i < 2; i++) {
        if (nodes[of].parents[i] >= 0)
            mark_ancestors(nodes, nodes[of].parents[i], marked);
    }
}

static void assert_as_the_model_says(const struct node *nodes, int count, unsigned seed)
{
    bool needed[NODES] = {false};
    int64_t expected = 0;
    for (int i = 0; i < count; i++) {
        bool marked[NODES] = {false};
        size_t size = 0;
        if (!nodes[i].there)
            continue;
        mark_ancestors(nodes, i, marked);
        const struct made *alone[] = {&nodes[i].made};
        assert_int_equal(get_ledger(alone, 1), HANDOFF_OK);
        for (int k = 0; k < count; k++) {
            size += marked[k];
            needed[k] |= marked[k];
        }
        if (fixture.count != size)
            fail_msg("seed %u: the ledger of %d has %zu contributions, not %zu", seed, i,
                     fixture.count, size);
    }
    for (int k = 0; k < count; k++)
        expected += needed[k];
    open_database();
    assert_int_equal(ask("SELECT count(*) FROM contributions"), expected);
    open_store();
}

static struct node grow(const struct node *nodes, int count, unsigned *seed)
{
    struct node node = {.parents = {-1, -1}, .there = true};
    struct wanted wanted = {0};
    for (int i = 0; i < 2 && count > 0; i++) {
        const int parent = (int)(next_random(seed) % (unsigned)count);
        if (!nodes[parent].there || nodes[parent].made.hop >= 12)
            continue;
        node.parents[i] = parent;
        wanted.parents[wanted.parents[0] != NULL] = &nodes[parent].made;
    }
    node.made = accept(wanted);
    return node;
}

static void follow_a_random_history(unsigned seed)
{
    struct node nodes[NODES];
    const unsigned begun = seed;
    for (int count = 0; count < NODES;) {
        nodes[count] = grow(nodes, count, &seed);
        count++;
        const unsigned some = next_random(&seed) % (unsigned)count;
        if (nodes[some].there && !nodes[some].over && next_random(&seed) % 4 < 3) {
            finish(&nodes[some].made);
            nodes[some].over = true;
        }
        if (next_random(&seed) % 6 > 0 && count < NODES)
            continue;
        const bool bodies = next_random(&seed) % 3 == 0;
        step(bodies ? (struct handoff_retention){.body_bytes = 1} : by_age);
        for (int i = 0; i < count && !bodies; i++)
            nodes[i].there = nodes[i].there && !nodes[i].over;
        open_store();
        assert_as_the_model_says(nodes, count, begun);
    }
}

static void test_no_retention_takes_an_ancestor_from_what_is_left(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= ROUNDS; seed++) {
        follow_a_random_history(seed * 7919);
        tear_down(NULL);
        set_up(NULL);
    }
}

/* ---- older versions ---------------------------------------------------------------------------
 */

static void assert_stands_in(const struct made *child, const struct made *old)
{
    const struct made *alone[] = {child};
    assert_int_equal(get_ledger(alone, 1), HANDOFF_OK);
    assert_int_equal(fixture.count, 2);
    assert_memory_equal(&fixture.list[0].id, &old->id, sizeof old->id);
    assert_null(fixture.list[0].text.data);
    assert_non_null(fixture.list[0].body.data);
    assert_int_equal(fixture.list[0].hop, 0);
    assert_text(fixture.list[0].source, "planner");
}

/* It contributed nothing: its body stands for it, and is kept for its child. */
static void test_the_body_of_an_older_version_stands_in(void **state)
{
    (void)state;
    const struct made old = accept((struct wanted){.plain = true});
    const struct made *alone[] = {&old};
    assert_int_equal(get_ledger(alone, 1), HANDOFF_OK);
    assert_int_equal(fixture.count, 1);
    assert_non_null(fixture.list[0].body.data);
    const struct made child = accept((struct wanted){.parents = {&old}});
    assert_stands_in(&child, &old);
    finish(&old);
    assert_int_equal(step((struct handoff_retention){.body_bytes = 1}).bodies, 1);
    open_store();
    assert_stands_in(&child, &old);
    assert_int_equal(step(by_age).envelopes, 1);
    open_store();
    assert_stands_in(&child, &old);
    finish(&child);
    assert_int_equal(step(by_age).envelopes, 1);
    assert_int_equal(ask("SELECT count(*) FROM contributions"), 0);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_a_ledger_has_all_ancestors_oldest_first),
        WITH_STORE(test_with_fan_in_each_ancestor_is_there_once),
        WITH_STORE(test_a_wide_fan_in),
        WITH_STORE(test_an_envelope_that_is_not_there_has_no_ledger),
        WITH_STORE(test_a_child_of_a_removed_parent_is_not_stored),
        WITH_STORE(test_the_target_is_who_has_it),
        WITH_STORE(test_a_handoff_knows_its_root_and_its_newest_parent),
        WITH_STORE(test_a_replaced_one_is_marked_where_it_was_continued_before),
        WITH_STORE(test_what_was_replaced_meanwhile_is_neither_continued_nor_replaced_again),
        WITH_STORE(test_an_edit_keeps_a_parent_that_was_replaced),
        WITH_STORE(test_an_agent_continues_all_that_nothing_continues),
        WITH_STORE(test_where_all_is_continued_it_is_the_newest),
        WITH_STORE(test_who_took_it_over_continues_it),
        WITH_STORE(test_what_was_only_assembled_is_continued_by_its_target),
        WITH_STORE(test_what_was_only_assembled_continues_nothing_until_it_is_delivered),
        WITH_STORE(test_a_handoff_beside_one_that_was_only_assembled_closes_its_parents),
        WITH_STORE(test_a_replaced_one_is_not_continued),
        WITH_STORE(test_a_task_whose_first_envelope_was_replaced_begins_with_the_edit),
        WITH_STORE(test_who_began_a_task_is_a_party_and_others_are_not),
        WITH_STORE(test_an_alternate_that_lost_it_again_has_nothing_to_continue),
        WITH_STORE(test_an_alternate_that_was_tried_may_go_on_where_nothing_is_open),
        WITH_STORE(test_a_list_that_lacks_an_agent_is_noticed),
        WITH_STORE(test_receivers_continue_their_deliveries_of_a_task_that_is_not_listed),
        WITH_STORE(test_what_continues_a_delivery_lists_the_publication_with_all_others),
        WITH_STORE(test_deliveries_of_what_contributed_nothing_have_it_in_their_ledgers),
        WITH_STORE(test_a_publication_in_a_listed_task_is_listed),
        WITH_STORE(test_a_delivery_that_another_task_continues_is_still_the_newest),
        WITH_STORE(test_what_a_request_continues_is_found_in_any_task_in_as_many_steps),
        WITH_STORE(test_a_task_may_be_known_from_its_first_commit_on),
        WITH_STORE(test_tasks_are_known_after_a_restart),
        WITH_STORE(test_ancestors_outlive_their_bodies_and_rows_under_a_live_chain),
        WITH_STORE(test_a_parked_child_keeps_its_parents),
        WITH_STORE(test_siblings_go_one_by_one_and_the_parent_with_the_last),
        WITH_STORE(test_removing_what_was_only_assembled_does_not_continue_its_parents),
        WITH_STORE(test_removing_a_handoff_leaves_its_parents_continued),
        WITH_STORE(test_what_retention_removed_from_a_chain_is_continued_by_its_agents),
        WITH_STORE(test_an_envelope_that_is_wrongly_taken_for_handed_off_is_noticed),
        WITH_STORE(test_in_a_store_of_before_what_was_only_assembled_continues_nothing),
        WITH_STORE(test_no_retention_takes_an_ancestor_from_what_is_left),
        WITH_STORE(test_the_body_of_an_older_version_stands_in),
    };
    base_uuid_source_init(&ids, NULL, NULL);
    return RUN_TESTS(tests);
}
