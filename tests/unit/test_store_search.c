/* SPDX-License-Identifier: Apache-2.0 */
/* Searches of handoffs: a page looks at a bounded number of them, and the pages together at all;
   and an envelope that is reopened to be delivered. */
#include "tests/support/temp_store.h"
#include "tests/support/unit.h"

#include "client/store/handoffs.h"
#include "client/store/search.h"

enum { MANY = 12000, BOUND = 5000, RARE_EVERY = 3000 };

struct fixture {
    char *directory;
    struct handoff_store *store;
    struct base_uuid_source ids;
    struct base_arena arena;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.directory = temp_directory()};
    base_uuid_source_init(&fixture.ids, NULL, NULL);
    struct handoff_store_options options = {.path = fixture.directory,
                                            .durability = HANDOFF_DURABILITY_NONE};
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

static unsigned outstanding;

static void accepted_one(struct handoff_store_job *job)
{
    assert_int_equal(job->error.code, HANDOFF_OK);
    outstanding--;
}

static void fill(struct fixture *fixture, struct handoff_store_accept *accept, const char *source)
{
    memset(accept, 0, sizeof *accept);
    temp_envelope(&accept->put, &fixture->ids, "task-1", 200);
    accept->standing.state = HANDOFF_STATE_ACKNOWLEDGED;
    accept->standing.target = accept->asked_target = base_span_text("coder");
    accept->source = base_span_text(source);
}

/* A group at a time, so that the bodies do not add up. */
static void accept_many(struct fixture *fixture)
{
    enum { GROUP = 500 };
    struct handoff_store_accept *accepts = calloc(GROUP, sizeof *accepts);
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    for (int first = 0; first < MANY; first += GROUP) {
        outstanding = GROUP;
        for (int i = 0; i < GROUP; i++) {
            fill(fixture, &accepts[i], (first + i) % RARE_EVERY == 0 ? "rare" : "usual");
            accepts[i].put.job.mailbox = &mailbox;
            accepts[i].put.job.done = accepted_one;
            handoff_store_accept(fixture->store, &accepts[i]);
        }
        while (outstanding > 0)
            base_mailbox_wait(&mailbox, -1);
        for (int i = 0; i < GROUP; i++)
            free((void *)(uintptr_t)accepts[i].put.body.data);
    }
    base_mailbox_free(&mailbox);
    free(accepts);
}

static void test_a_page_examines_a_bounded_number(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_search search = {
        .states = UINT32_MAX, .source = base_span_text("rare"), .limit = 100};
    int pages = 0;
    size_t found = 0;
    accept_many(fixture);
    do {
        assert_int_equal(handoff_store_search(fixture->store, &search, &fixture->arena, NULL),
                         HANDOFF_OK);
        assert_true(search.count <= BOUND / RARE_EVERY + 1);
        found += search.count;
        pages++;
        search.after = search.next;
    } while (search.more);
    assert_int_equal(found, MANY / RARE_EVERY);
    assert_int_equal(pages, MANY / BOUND + 1);
}

static void test_what_has_an_index_is_one_page(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_search search = {.states = 1u << HANDOFF_STATE_PARKED, .limit = 100};
    accept_many(fixture);
    assert_int_equal(handoff_store_search(fixture->store, &search, &fixture->arena, NULL),
                     HANDOFF_OK);
    assert_int_equal(search.count, 0);
    assert_false(search.more);
    search = (struct handoff_store_search){.states = UINT32_MAX,
                                           .source = base_span_text("rare"),
                                           .task_id = base_span_text("task-1"),
                                           .limit = 100};
    assert_int_equal(handoff_store_search(fixture->store, &search, &fixture->arena, NULL),
                     HANDOFF_OK);
    assert_int_equal(search.count, MANY / RARE_EVERY);
    assert_false(search.more);
}

/* ---- reopening ------------------------------------------------------------------------------- */

static enum handoff_code run_job(struct fixture *fixture, struct handoff_store_accept *accept,
                                 bool put_only)
{
    struct base_mailbox mailbox;
    assert_int_equal(base_mailbox_init(&mailbox, NULL), HANDOFF_OK);
    accept->put.job.mailbox = &mailbox;
    accept->put.job.done = temp_nothing;
    if (put_only)
        handoff_store_put_envelope(fixture->store, &accept->put);
    else
        handoff_store_accept(fixture->store, accept);
    while (base_mailbox_wait(&mailbox, -1) == 0)
        ;
    base_mailbox_free(&mailbox);
    return accept->put.job.error.code;
}

static int64_t finished_at(struct fixture *fixture, const struct base_uuid *id)
{
    struct handoff_stored_envelope envelope;
    assert_int_equal(
        handoff_store_get_envelope(fixture->store, id, &fixture->arena, &envelope, NULL),
        HANDOFF_OK);
    return envelope.finished_ms;
}

static void test_a_finished_envelope_is_reopened_once(void **state)
{
    struct fixture *fixture = *state;
    struct handoff_store_accept accept;
    struct handoff_store_kept kept;
    fill(fixture, &accept, "analyst");
    accept.stored = true;
    assert_int_equal(run_job(fixture, &accept, false), HANDOFF_ERR_NOT_FOUND);
    accept.put.finished = true;
    assert_int_equal(run_job(fixture, &accept, true), HANDOFF_OK);
    assert_int_not_equal(finished_at(fixture, &accept.put.id), 0);
    accept.put.finished = false;
    assert_int_equal(run_job(fixture, &accept, false), HANDOFF_OK);
    assert_int_equal(finished_at(fixture, &accept.put.id), 0);
    assert_int_equal(run_job(fixture, &accept, false), HANDOFF_ERR_CONFLICT);
    handoff_store_kept(fixture->store, &kept);
    assert_int_equal(kept.oldest_row_ms, 0);
    free((void *)(uintptr_t)accept.put.body.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_page_examines_a_bounded_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_has_an_index_is_one_page, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_finished_envelope_is_reopened_once, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
