/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes next: in the only pipeline, in a named one, and where nobody does. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "client/agents/pipelines.h"
#include "tests/support/failing_memory.h"

static const char *const payments[] = {"researcher", "analyst", "coder", "reviewer"};
static const char *const hotfix[] = {"coder", "operator"};
static const char *const alone[] = {"hermit"};
static const struct handoff_pipeline_options options[] = {
    {"alone", alone, 1}, {"hotfix", hotfix, 2}, {"payments", payments, 4}};

static struct handoff_pipelines pipelines;
static struct base_arena arena;
static struct handoff_error error;

static void configure(size_t count)
{
    struct handoff_pipeline_set *set = NULL;
    assert_int_equal(handoff_pipeline_set_new(&set, options, count, &error), HANDOFF_OK);
    handoff_pipelines_put_in_force(&pipelines, &set);
    assert_null(set);
}

static int set_up(void **state)
{
    (void)state;
    base_arena_init(&arena, 0);
    handoff_pipelines_init(&pipelines);
    configure(3);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    handoff_pipelines_free(&pipelines);
    base_arena_free(&arena);
    return 0;
}

/* "analyst", or the field and the code that refuse. */
static const char *next(const char *pipeline, const char *source)
{
    static char text[160];
    struct base_span found = {0};
    enum handoff_code code = handoff_pipelines_next(&pipelines, base_span_text(pipeline),
                                                    base_span_text(source), &arena, &found, &error);
    if (code == HANDOFF_OK)
        snprintf(text, sizeof text, "%s", found.data);
    else
        snprintf(text, sizeof text, "%s %s", handoff_code_name(code), error.field);
    return text;
}

static void test_the_only_pipeline_needs_no_name(void **state)
{
    (void)state;
    assert_string_equal(next(NULL, "researcher"), "analyst");
    assert_string_equal(next(NULL, "analyst"), "coder");
    assert_string_equal(next("payments", "analyst"), "coder");
}

static void test_one_of_several_is_named(void **state)
{
    (void)state;
    assert_string_equal(next("payments", "coder"), "reviewer");
    assert_string_equal(next("hotfix", "coder"), "operator");
    assert_string_equal(next(NULL, "coder"), "invalid_request pipeline");
    assert_string_equal(error.allowed, "hotfix, payments");
}

static void test_the_last_has_no_next(void **state)
{
    (void)state;
    assert_string_equal(next(NULL, "reviewer"), "no_next_agent source_agent");
    assert_string_equal(error.seen, "reviewer");
    assert_string_equal(next("hotfix", "operator"), "no_next_agent source_agent");
    assert_string_equal(next(NULL, "hermit"), "no_next_agent source_agent");
    assert_int_equal(handoff_code_class(HANDOFF_ERR_NO_NEXT_AGENT), HANDOFF_CLASS_REFUSED);
}

static void test_who_is_in_none(void **state)
{
    (void)state;
    assert_string_equal(next(NULL, "stranger"), "invalid_request source_agent");
    assert_string_equal(error.seen, "stranger");
    assert_string_equal(next("hotfix", "researcher"), "invalid_request source_agent");
    assert_string_equal(error.allowed, "coder, operator");
    assert_string_equal(next("nightly", "coder"), "invalid_request pipeline");
    assert_string_equal(error.seen, "nightly");
}

static void test_a_reload_is_in_force_at_once(void **state)
{
    (void)state;
    configure(2);
    assert_string_equal(next(NULL, "coder"), "operator");
    assert_string_equal(next(NULL, "analyst"), "invalid_request source_agent");
    configure(0);
    assert_string_equal(next(NULL, "coder"), "invalid_request source_agent");
}

static void test_many_names_are_cut(void **state)
{
    (void)state;
    enum { MANY = 40 };
    char names[MANY][24];
    struct handoff_pipeline_options many[MANY];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "a-long-pipeline-%02zu", i);
        many[i] = (struct handoff_pipeline_options){names[i], hotfix, 2};
    }
    struct handoff_pipeline_set *set = NULL;
    assert_int_equal(handoff_pipeline_set_new(&set, many, MANY, &error), HANDOFF_OK);
    handoff_pipelines_put_in_force(&pipelines, &set);
    assert_string_equal(next(NULL, "coder"), "invalid_request pipeline");
    assert_string_equal(error.allowed,
                        "a-long-pipeline-00, a-long-pipeline-01, a-long-pipeline-02, "
                        "a-long-pipeline-03, ...");
}

static void test_memory_that_ends_leaves_what_was_in_force(void **state)
{
    (void)state;
    struct handoff_pipeline_set *set = NULL;
    enum handoff_code code;
    long n = 0;
    do {
        failing_memory_at(++n);
        code = handoff_pipeline_set_new(&set, options, 2, &error);
        failing_memory_at(0);
        assert_true(code == HANDOFF_OK || code == HANDOFF_ERR_OUT_OF_MEMORY);
        assert_true((code == HANDOFF_OK) == (set != NULL));
    } while (code != HANDOFF_OK);
    assert_true(n > 1);
    assert_string_equal(next("payments", "coder"), "reviewer");
    handoff_pipeline_set_free(&set);
    assert_null(set);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_only_pipeline_needs_no_name),
        TEST(test_one_of_several_is_named),
        TEST(test_the_last_has_no_next),
        TEST(test_who_is_in_none),
        TEST(test_a_reload_is_in_force_at_once),
        TEST(test_many_names_are_cut),
        TEST(test_memory_that_ends_leaves_what_was_in_force),
    };
    return RUN_TESTS(tests);
}
