/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls say whether the spine is up: those that it was asked, and of those the ones that did
 * not fail for a reason of ours.
 */
#include "tests/support/unit.h"

#include <poll.h>
#include <sqlite3.h>
#include <string.h>

#include "client/client.h"
#include "tests/support/fake_spine.h"
#include "tests/support/temp_store.h"

static struct {
    char *directory;
    struct handoff_client *client;
    struct handoff_loop *loop;
    struct handoff_spine *embedded;
    struct fake_spine fake;
    enum handoff_code code;
    int answers;
    int asked, failed; /* events of the spine */
} fixture;

static void observe(void *observer, const struct handoff_event *event)
{
    (void)observer;
    if (event->kind != HANDOFF_EVENT_SPINE)
        return;
    fixture.asked++;
    fixture.failed += event->of.spine.failed;
}

static int open_client(void **state)
{
    (void)state;
    memset(&fixture, 0, sizeof fixture);
    fixture.directory = temp_directory();
    struct handoff_options options = {.storage_path = fixture.directory,
                                      .durability_none = true,
                                      .encoding = "estimate",
                                      .observe = observe};
    assert_int_equal(handoff_client_open(&fixture.client, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_loop_open(&fixture.loop, fixture.client, NULL), HANDOFF_OK);
    fixture.embedded = fixture.client->spine;
    fake_spine_init(&fixture.fake);
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    fixture.client->spine = fixture.client->assembler.spine = fixture.embedded;
    handoff_loop_close(&fixture.loop);
    handoff_client_close(&fixture.client);
    temp_remove(fixture.directory);
    return 0;
}

static void use_fake(enum handoff_code failure)
{
    fixture.fake.failure = failure;
    fixture.client->spine = fixture.client->assembler.spine = &fixture.fake.spine;
}

static void answered(void *context, const struct handoff_result *result)
{
    (void)context;
    fixture.code = result->error.code;
    fixture.answers++;
}

static void wait_for_answer(void)
{
    while (fixture.answers == 0)
        handoff_loop_wait(fixture.loop, 60000);
    fixture.answers = 0;
}

static void get_memory(const char *id)
{
    handoff_memory_get(fixture.loop, id, NULL, answered, NULL);
    wait_for_answer();
}

static void put_memory(void)
{
    static const char memory[] = "{\"content\":\"tabs\"}";
    handoff_memory_put(fixture.loop, "tabs", memory, sizeof memory - 1, NULL, answered, NULL);
    wait_for_answer();
    assert_int_equal(fixture.code, HANDOFF_OK);
}

static void assemble(const char *memories)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":\"t\"%s}", memories);
    const struct handoff_ask ask = {.body = body, .size = strlen(body)};
    handoff_envelope_assemble(fixture.loop, &ask, answered, NULL);
    wait_for_answer();
}

static bool is_up(void)
{
    struct handoff_stats stats;
    handoff_client_stats(fixture.client, &stats);
    return stats.spine_up;
}

/* A single failure is not enough. */
static void fail_until_down(void)
{
    for (int i = 0; i < HANDOFF_SPINE_DOWN_AFTER; i++) {
        assert_true(is_up());
        get_memory("m");
        assert_int_not_equal(fixture.code, HANDOFF_OK);
    }
    assert_false(is_up());
}

/* From another connection, as a fault of the disk would take it. */
static void break_memories(void)
{
    char path[512];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/handoff.db", fixture.directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 60000);
    assert_int_equal(sqlite3_exec(db, "DROP TABLE memories", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_a_handoff_without_memories_does_not_hide_a_dead_spine(void **state)
{
    (void)state;
    assemble(""); /* from here on it is known that nothing is pinned */
    assert_true(is_up());
    put_memory(); /* while there is none, nothing is looked for */
    break_memories();
    fail_until_down();
    assert_int_equal(fixture.failed, HANDOFF_SPINE_DOWN_AFTER);
    const int asked = fixture.asked;
    assemble("");
    assert_int_equal(fixture.code, HANDOFF_OK);
    assert_int_equal(fixture.asked, asked);
    assert_false(is_up());
}

static void test_what_is_short_here_is_no_failure_of_the_spine(void **state)
{
    static const enum handoff_code ours[] = {HANDOFF_ERR_OUT_OF_MEMORY, HANDOFF_ERR_SHUTTING_DOWN};
    (void)state;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        use_fake(ours[i]);
        get_memory("m");
        assert_int_equal(fixture.code, ours[i]);
        assemble(",\"memory_ids\":[\"m\"]");
        assert_int_equal(fixture.code, ours[i]);
    }
    assert_int_equal(fixture.asked, 0); /* nothing was learnt about it */
    assert_true(is_up());
    use_fake(HANDOFF_ERR_STORE_IO);
    fail_until_down();
    use_fake(HANDOFF_ERR_OUT_OF_MEMORY);
    get_memory("m");
    assert_false(is_up());
}

static void test_a_request_that_it_never_saw_does_not_count(void **state)
{
    (void)state;
    use_fake(HANDOFF_ERR_STORE_IO);
    fail_until_down();
    assert_int_equal(fixture.asked, HANDOFF_SPINE_DOWN_AFTER);
    get_memory("not fine");
    assert_int_equal(fixture.code, HANDOFF_ERR_INVALID);
    assert_int_equal(fixture.asked, HANDOFF_SPINE_DOWN_AFTER);
    assert_false(is_up());
}

static void test_a_refusal_is_an_answer(void **state)
{
    (void)state;
    use_fake(HANDOFF_ERR_STORE_IO);
    fail_until_down();
    use_fake(HANDOFF_ERR_NOT_FOUND);
    get_memory("m");
    assert_true(is_up());
    assert_int_equal(fixture.failed, HANDOFF_SPINE_DOWN_AFTER);
    use_fake(HANDOFF_ERR_STORE_IO);
    fail_until_down(); /* the answer between them made the failures before it count no more */
}

static void test_an_assembly_counts_as_one_question(void **state)
{
    (void)state;
    use_fake(HANDOFF_ERR_STORE_IO);
    for (int i = 0; i < HANDOFF_SPINE_DOWN_AFTER; i++) {
        assert_true(is_up());
        assemble(",\"memory_ids\":[\"m\"]");
        assert_int_equal(fixture.code, HANDOFF_OK); /* with what is missing */
    }
    assert_int_equal(fixture.asked, HANDOFF_SPINE_DOWN_AFTER);
    assert_int_equal(fixture.failed, HANDOFF_SPINE_DOWN_AFTER);
    assert_false(is_up());
    use_fake(HANDOFF_OK);
    assemble(",\"memory_ids\":[\"m\"]");
    assert_true(is_up());
}

#define WITH_CLIENT(test) cmocka_unit_test_setup_teardown(test, open_client, close_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CLIENT(test_a_handoff_without_memories_does_not_hide_a_dead_spine),
        WITH_CLIENT(test_what_is_short_here_is_no_failure_of_the_spine),
        WITH_CLIENT(test_a_request_that_it_never_saw_does_not_count),
        WITH_CLIENT(test_a_refusal_is_an_answer),
        WITH_CLIENT(test_an_assembly_counts_as_one_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
