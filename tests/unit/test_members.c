/* SPDX-License-Identifier: Apache-2.0 */
/* Members as they stand in the text of an object: what is found is what a reader finds. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/members.h"

static const char *const names[] = {"a", "b"};

static bool find(const char *text, struct base_span values[2], size_t *members)
{
    return base_json_find_members(base_span_text(text), names, values, 2, members);
}

static void assert_text(struct base_span found, const char *expected)
{
    if (!expected) {
        assert_null(found.data);
        return;
    }
    assert_non_null(found.data);
    assert_int_equal(found.size, strlen(expected));
    assert_memory_equal(found.data, expected, found.size);
}

static void assert_found(const char *text, size_t count, const char *a, const char *b)
{
    struct base_span values[2];
    size_t members;
    assert_true(find(text, values, &members));
    assert_int_equal(members, count);
    assert_text(values[0], a);
    assert_text(values[1], b);
}

static void test_values_of_each_kind(void **state)
{
    (void)state;
    assert_found("{}", 0, NULL, NULL);
    assert_found(" \n{ } ", 0, NULL, NULL);
    assert_found("{\"a\":1}", 1, "1", NULL);
    assert_found("{\"a\":-1.5e+10,\"b\":null}", 2, "-1.5e+10", "null");
    assert_found("{ \"b\" : \"x y\" ,\t\"a\" : true }", 2, "true", "\"x y\"");
    assert_found("{\"a\":{\"b\":[1,{\"a\":2}]},\"b\":[[],{}]}", 2, "{\"b\":[1,{\"a\":2}]}",
                 "[[],{}]");
    assert_found("{\"c\":[\"a\",\"b\"],\"a\":\"\"}", 2, "\"\"", NULL);
}

static void test_of_a_name_that_comes_twice_the_first(void **state)
{
    (void)state;
    assert_found("{\"a\":1,\"b\":2,\"a\":3}", 3, "1", "2");
}

static void test_quotes_and_brackets_within_strings(void **state)
{
    (void)state;
    assert_found("{\"c\":\"\\\"}, \\\\\",\"a\":\"{[\\\\\\\"]}\"}", 2, "\"{[\\\\\\\"]}\"", NULL);
    assert_found("{\"a\":[\"]\",\"\\\\\"],\"b\":{\"x\":\"}\"}}", 2, "[\"]\",\"\\\\\"]",
                 "{\"x\":\"}\"}");
}

static void test_what_has_to_be_read(void **state)
{
    static const char *const texts[] = {
        "",          " ",          "[]",          "\"a\"",           "{",
        "{\"a",      "{\"a\"",     "{\"a\":",     "{\"a\":}",        "{\"a\":1",
        "{\"a\":1,", "{\"a\":1,}", "{\"a\":\"x",  "{\"a\":\"x\\\"}", "{\"a\":[1}",
        "{\"a\" 1}", "{a:1}",      "{1:1}",       "{\"\\u0061\":1}", "{\"c\":1 2}",
        "{} x",      "{}{}",       "{\"a\":1} x", "{\"a\":1}}"};
    struct base_span values[2];
    size_t members;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (find(texts[i], values, &members))
            fail_msg("%s was not refused", texts[i]);
    }
    assert_false(base_json_find_members(base_span(NULL, 0), names, values, 2, &members));
}

/* Each beginning of a text is looked at in memory of its exact size, where a step too far is found.
 */
static void test_stays_within_the_text(void **state)
{
    static const char text[] = "{\"c\":[{\"x\":\"\\\\\\\"\"},1.5,null],\"a\":\"b\",\"b\":{}}";
    (void)state;
    for (size_t size = 0; size < sizeof text; size++) {
        struct base_span values[2];
        size_t members;
        char *room = malloc(size ? size : 1);
        assert_non_null(room);
        memcpy(room, text, size);
        assert_int_equal(base_json_find_members(base_span(room, size), names, values, 2, &members),
                         size == sizeof text - 1);
        free(room);
    }
}

/* What is found is what a reader finds, for texts that have much nested in them. */
static void test_finds_what_a_reader_finds(void **state)
{
    static const char *const parts[] = {"1",    "\"q\\\"\"", "[]",         "{\"a\":[2,\"]\"]}",
                                        "[{}]", "\"\\\\\"",  "{\"b\":{}}", "-0.5"};
    enum { PARTS = sizeof parts / sizeof *parts };
    (void)state;
    for (size_t i = 0; i < (size_t)PARTS * PARTS; i++) {
        char text[128];
        struct base_span values[2];
        size_t members;
        yyjson_doc *doc;
        snprintf(text, sizeof text, "{\"x\":%s,\"a\" : %s , \"b\":%s}", parts[(i + 3) % PARTS],
                 parts[i % PARTS], parts[i / PARTS]);
        assert_true(find(text, values, &members));
        assert_int_equal(base_json_read(base_span_text(text), "text", &doc, NULL), HANDOFF_OK);
        assert_int_equal(yyjson_obj_size(yyjson_doc_get_root(doc)), members);
        for (size_t k = 0; k < 2; k++) {
            yyjson_doc *part;
            assert_int_equal(base_json_read(values[k], "part", &part, NULL), HANDOFF_OK);
            assert_true(yyjson_equals(yyjson_doc_get_root(part),
                                      yyjson_obj_get(yyjson_doc_get_root(doc), names[k])));
            yyjson_doc_free(part);
        }
        yyjson_doc_free(doc);
    }
}

static void test_plain_strings(void **state)
{
    (void)state;
    assert_text(base_json_plain_string(base_span_text("\"\"")), "");
    assert_text(base_json_plain_string(base_span_text("\"x y\"")), "x y");
    assert_text(base_json_plain_string(base_span_text("\"x\\ny\"")), NULL);
    assert_text(base_json_plain_string(base_span_text("12")), NULL);
    assert_text(base_json_plain_string(base_span_text("\"")), NULL);
    assert_text(base_json_plain_string(base_span(NULL, 0)), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_each_kind),
        cmocka_unit_test(test_of_a_name_that_comes_twice_the_first),
        cmocka_unit_test(test_quotes_and_brackets_within_strings),
        cmocka_unit_test(test_what_has_to_be_read),
        cmocka_unit_test(test_stays_within_the_text),
        cmocka_unit_test(test_finds_what_a_reader_finds),
        cmocka_unit_test(test_plain_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
