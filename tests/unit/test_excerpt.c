/* SPDX-License-Identifier: Apache-2.0 */
/* The excerpt of an envelope: short in its row, whole in an answer, and known by its form. */
#include "tests/support/unit.h"

#include "client/envelope/excerpt.h"

#include <string.h>

static struct handoff_excerpt_value value_of(const char *envelope, const char *value)
{
    const char *found = strstr(envelope, value);
    assert_non_null(found);
    return (struct handoff_excerpt_value){(uint32_t)(found - envelope), (uint32_t)strlen(value)};
}

static const char envelope[] =
    "{\"memory_refs\":[\"m\\n1\",\"]\"],\"missing\":[{\"id\":\"x\"}],"
    "\"completeness\":{\"requested\":34,\"included\":12,\"ratio\":0.3529}}";

static struct base_span copy_excerpt(struct base_arena *arena)
{
    const struct handoff_excerpt excerpt = {
        .memory_refs = value_of(envelope, "[\"m\\n1\",\"]\"]"),
        .missing = value_of(envelope, "[{\"id\":\"x\"}]"),
        .requested = value_of(envelope, "34"),
        .included = value_of(envelope, "12"),
        .ratio = value_of(envelope, "0.3529"),
    };
    struct base_span lines = handoff_excerpt_copy(&excerpt, base_span_text(envelope), 1664, arena);
    assert_non_null(lines.data);
    return lines;
}

static void test_an_answer_has_the_values_under_their_names(void **state)
{
    (void)state;
    struct base_arena arena = {0};
    struct base_buffer out = {0};
    handoff_excerpt_write(&out, copy_excerpt(&arena));
    assert_string_equal(out.data,
                        "\"envelope_version\":\"2.1\",\"token_count\":1664,"
                        "\"memory_refs\":[\"m\\n1\",\"]\"],\"missing\":[{\"id\":\"x\"}],"
                        "\"completeness\":{\"requested\":34,\"included\":12,\"ratio\":0.3529}");
    base_buffer_free(&out);
    base_arena_free(&arena);
}

/* Every handoff writes its row twice, so what is the same in every row is not in it. */
static void test_a_row_has_the_values_alone(void **state)
{
    (void)state;
    struct base_arena arena = {0};
    struct base_span lines = copy_excerpt(&arena);
    static const char expected[] =
        "\"2.1\"\n1664\n[\"m\\n1\",\"]\"]\n[{\"id\":\"x\"}]\n34\n12\n0.3529";
    assert_int_equal(lines.size, sizeof expected - 1);
    assert_memory_equal(lines.data, expected, lines.size);
    base_arena_free(&arena);
}

static void test_a_row_in_another_form_is_not_taken(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",
        "\n\n\n\n\n\n",
        "\"2.1\"\n1664\n[]\n[]\n0\n0\n",
        "\"2.1\"\n1664\n[]\n[]\n0\n0",
        "\"2.1\"\n1664\n[]\n[]\n0\n0\n1\n2",
        "\"envelope_version\":\"2.1\",\"token_count\":1664,\"memory_refs\":[],\"missing\":[],"
        "\"completeness\":{\"requested\":0,\"included\":0,\"ratio\":1}",
    };
    struct base_span ours = base_span_text("\"2.1\"\n1664\n[]\n[]\n0\n0\n1");
    assert_true(base_span_equal(handoff_excerpt_of_row(ours), ours));
    assert_null(handoff_excerpt_of_row(base_span(NULL, 0)).data);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(handoff_excerpt_of_row(base_span_text(others[i])).data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_has_the_values_under_their_names),
        cmocka_unit_test(test_a_row_has_the_values_alone),
        cmocka_unit_test(test_a_row_in_another_form_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
