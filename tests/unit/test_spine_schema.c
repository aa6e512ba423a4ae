/* SPDX-License-Identifier: Apache-2.0 */
/* A store of the schema before scopes: its memories become shared, and go on where they were. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "client/store/sqlite/data_dir.h"
#include "client/store/sqlite/database.h"
#include "client/store/sqlite/migrate.h"
#include "tests/support/temp_spine.h"

static char *directory, path[512];

static int set_up(void **state)
{
    (void)state;
    directory = temp_directory();
    snprintf(path, sizeof path, "%s/%s", directory, HANDOFF_STORE_FILE);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    temp_remove(directory);
    return 0;
}

/* Three memories, of which the last was removed: the next seq is 4. */
static void make_old_store(void)
{
    struct handoff_db db = {0};
    struct handoff_error error;
    assert_int_equal(handoff_db_open(&db, path, HANDOFF_DB_WRITE, NULL, &error), HANDOFF_OK);
    assert_int_equal(handoff_migrate(&db, HANDOFF_SCHEMA_SCOPES - 1, &error), HANDOFF_OK);
    assert_int_equal(
        handoff_db_exec(&db,
                        "INSERT INTO memories (id, importance, pinned, created_at, updated_at,"
                        " tags, content, agent) VALUES"
                        " ('a', 1, 1, 1000, 1000, '', 'The bank retries.', 'analyst'),"
                        " ('b', 1, 0, 2000, 2000, '', 'The bank waits.', NULL),"
                        " ('c', 1, 0, 3000, 3000, '', 'The bank closes.', NULL);"
                        "DELETE FROM memories WHERE id = 'c';",
                        &error),
        HANDOFF_OK);
    handoff_db_close(&db);
}

static void assert_sound(int64_t memories)
{
    struct handoff_store_report report;
    struct handoff_error error;
    assert_int_equal(handoff_store_check(directory, &report, &error), HANDOFF_OK);
    assert_string_equal(report.problem, "");
    assert_int_equal(report.problems, 0);
    assert_int_equal(report.memories, memories);
}

static void test_memories_of_before_are_shared_and_found(void **state)
{
    (void)state;
    make_old_store();
    struct temp_spine temp;
    temp_spine_open_at(&temp, directory);
    struct handoff_spine_resolve resolve = {.arena = &temp.arena,
                                            .ids = (struct base_span[]){base_span_text("a")},
                                            .id_count = 1,
                                            .pins = true,
                                            .recent = 5,
                                            .query = base_span_text("bank")};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    assert_int_equal(resolve.found_count, 2);
    assert_int_equal(resolve.missing_count, 0);
    assert_true(resolve.found[0].relevance > 0 && resolve.found[1].relevance > 0);
    temp_spine_end_at(&temp);
    assert_sound(2);
}

static void test_a_version_never_comes_back(void **state)
{
    (void)state;
    make_old_store();
    struct temp_spine temp;
    temp_spine_open_at(&temp, directory);
    struct handoff_spine_put put = {
        .memory = {.id = base_span_text("d"), .content = base_span_text("The bank opens.")}};
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    assert_int_equal(put.memory.version, 4); /* 3 was the removed one's */
    temp_spine_end_at(&temp);
    assert_sound(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memories_of_before_are_shared_and_found, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_version_never_comes_back, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
