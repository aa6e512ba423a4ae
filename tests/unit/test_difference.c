/* SPDX-License-Identifier: Apache-2.0 */
/* The difference of two texts: the lines that differ, a few beside them, and a bound. */
#include "client/calls/difference.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "tests/support/unit.h"

/* "-removed +added =same" of each line. */
static void assert_difference(const char *before, const char *after, const char *expected)
{
    struct base_buffer out = {0}, marks = {0};
    handoff_difference_write(&out, base_span_text(before), base_span_text(after));
    assert_false(out.failed);
    yyjson_doc *doc = yyjson_read(out.data, out.size, 0);
    size_t i, count;
    yyjson_val *line;
    assert_non_null(doc);
    base_buffer_text(&marks, "");
    yyjson_arr_foreach(yyjson_doc_get_root(doc), i, count, line)
    {
        const char *change = yyjson_get_str(yyjson_obj_get(line, "change"));
        base_buffer_byte(&marks, *change == 'r' ? '-' : *change == 'a' ? '+' : '=');
        base_buffer_text(&marks, yyjson_get_str(yyjson_obj_get(line, "line")));
    }
    assert_string_equal(marks.size ? marks.data : "", expected);
    yyjson_doc_free(doc);
    base_buffer_free(&out);
    base_buffer_free(&marks);
}

static void test_lines_that_differ(void **state)
{
    (void)state;
    assert_difference("", "", "");
    assert_difference("a\nb\n", "a\nb\n", "");
    assert_difference("", "a", "+a");
    assert_difference("a", "", "-a");
    assert_difference("a\nb\nc\n", "a\nx\nc\n", "=a-b+x=c");
    assert_difference("1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\nx\n6\n7\n", "=3=4-5+x=6=7");
    assert_difference("a\nb\nc\nd\n", "a\nc\nd\ne\n", "=a-b=c=d+e");
    assert_difference("\"\\\n", "<\n", "-\"\\+<");
}

static void test_too_much_is_replaced_as_a_whole(void **state)
{
    enum { LINES = 2000 };
    struct base_buffer before = {0}, after = {0}, out = {0};
    (void)state;
    for (int i = 0; i < LINES; i++) {
        base_buffer_printf(&before, "%d\n", i);
        base_buffer_printf(&after, "%d\n", i % 2 ? i : -i - 1);
    }
    handoff_difference_write(&out, base_buffer_span(&before), base_buffer_span(&after));
    yyjson_doc *doc = yyjson_read(out.data, out.size, 0);
    assert_non_null(doc);
    assert_in_range(yyjson_arr_size(yyjson_doc_get_root(doc)), 2 * LINES - 2, 2 * LINES);
    yyjson_doc_free(doc);
    base_buffer_free(&before);
    base_buffer_free(&after);
    base_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_that_differ),
        cmocka_unit_test(test_too_much_is_replaced_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
