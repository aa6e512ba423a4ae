/* SPDX-License-Identifier: Apache-2.0 */
/* The list of memories that a receiver lacked: what a change flags, recovers and refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "client/model/gaps.h"
#include "lib/base/json.h"

enum { AT_MS = 1000 };
#define AT "1970-01-01T00:00:01.000Z"

static struct base_buffer text;

static int clear_text(void **unused)
{
    (void)unused;
    base_buffer_free(&text);
    return 0;
}

/* Changes the list in `text`. */
static struct handoff_gaps_change changed(const char *lacking, const char *found)
{
    struct base_buffer out = {0};
    struct handoff_gaps_change change = {.kept = base_span(text.data, text.size),
                                         .lacking = base_span_text(lacking),
                                         .found = base_span_text(found),
                                         .agent = base_span_text("coder"),
                                         .at_ms = AT_MS};
    assert_int_equal(handoff_gaps_change(&change, &out, NULL), HANDOFF_OK);
    base_buffer_free(&text);
    text = out;
    return change;
}

static void assert_change(struct handoff_gaps_change change, size_t flagged, size_t recovered)
{
    assert_int_equal(change.flagged, flagged);
    assert_int_equal(change.recovered, recovered);
}

#define GAP(id) "{\"id\":\"" id "\",\"agent\":\"coder\",\"at\":\"" AT "\",\"recovered_at\":null}"
#define RECOVERED(id)                                                                              \
    "{\"id\":\"" id "\",\"agent\":\"coder\",\"at\":\"" AT "\",\"recovered_at\":\"" AT "\"}"

static void test_gaps_are_listed_as_they_came_and_once(void **unused)
{
    (void)unused;
    assert_change(changed("ms-2\nms-1\nms-2\n", NULL), 2, 0);
    assert_string_equal(text.data, "[" GAP("ms-2") "," GAP("ms-1") "]");
    assert_change(changed("ms-1\nms-10\n", NULL), 1, 0);
    assert_string_equal(text.data, "[" GAP("ms-2") "," GAP("ms-1") "," GAP("ms-10") "]");
}

static void test_a_repeat_changes_nothing(void **unused)
{
    (void)unused;
    assert_change(changed("ms-1\n*pinned\n", "ms-3\n"), 2, 1);
    assert_change(changed("ms-1\n*pinned\n", "ms-3\n"), 0, 0);
    assert_string_equal(text.data, "[" GAP("ms-1") "," GAP("*pinned") "," RECOVERED("ms-3") "]");
}

static void test_what_is_found_later_is_recovered_and_may_be_lacked_again(void **unused)
{
    (void)unused;
    changed("ms-1\n", NULL);
    assert_change(changed(NULL, "ms-1\n"), 0, 1);
    assert_string_equal(text.data, "[" RECOVERED("ms-1") "]");
    assert_change(changed("ms-1\n", NULL), 1, 0);
    assert_string_equal(text.data, "[" GAP("ms-1") "]");
}

/* "ms-0\nms-1\n..." */
static void list_many(struct base_buffer *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        base_buffer_printf(ids, "ms-%zu\n", i);
}

static void test_there_are_at_most_a_thousand(void **unused)
{
    (void)unused;
    struct base_buffer ids = {0}, out = {0};
    struct handoff_error error;
    list_many(&ids, HANDOFF_GAPS_MAX);
    assert_change(changed(ids.data, NULL), HANDOFF_GAPS_MAX, 0);
    struct handoff_gaps_change one_more = {.kept = base_buffer_span(&text),
                                           .lacking = base_span_text("one-more\n"),
                                           .agent = base_span_text("coder")};
    assert_int_equal(handoff_gaps_change(&one_more, &out, &error), HANDOFF_ERR_INVALID);
    assert_non_null(strstr(error.seen, "1001"));
    base_buffer_free(&ids);
    base_buffer_free(&out);
}

static void test_a_damaged_list_is_told(void **unused)
{
    (void)unused;
    struct base_buffer out = {0};
    struct handoff_gaps_change change = {.kept = base_span_text("[{"),
                                         .lacking = base_span_text("ms-1\n")};
    assert_int_equal(handoff_gaps_change(&change, &out, NULL), HANDOFF_ERR_STORE_CORRUPT);
    base_buffer_free(&out);
}

static void test_ids_are_read_from_texts_and_from_entries_of_missing(void **unused)
{
    (void)unused;
    static const char array[] =
        "[\"ms-1\", {\"id\": \"ms-2\", \"reason\": \"not_found\"}, 7, null, "
        "\"a b\", \"*pinned\", \"*all\", \"\", {\"name\": \"ms-3\"}]";
    struct base_buffer ids = {0};
    yyjson_doc *doc = yyjson_read(array, sizeof array - 1, 0);
    handoff_gaps_read_ids(yyjson_doc_get_root(doc), &ids);
    assert_string_equal(ids.data, "ms-1\nms-2\n*pinned\n");
    base_buffer_clear(&ids);
    handoff_gaps_read_ids(NULL, &ids);
    assert_int_equal(ids.size, 0);
    yyjson_doc_free(doc);
    base_buffer_free(&ids);
}

static void test_an_id_has_128_bytes_at_most(void **unused)
{
    (void)unused;
    char long_id[HANDOFF_GAP_ID_MAX + 1];
    memset(long_id, 'x', sizeof long_id);
    assert_true(handoff_gap_is_id(base_span(long_id, HANDOFF_GAP_ID_MAX)));
    assert_false(handoff_gap_is_id(base_span(long_id, HANDOFF_GAP_ID_MAX + 1)));
    assert_false(handoff_gap_is_id(base_span("a\0b", 3)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_gaps_are_listed_as_they_came_and_once, clear_text),
        cmocka_unit_test_teardown(test_a_repeat_changes_nothing, clear_text),
        cmocka_unit_test_teardown(test_what_is_found_later_is_recovered_and_may_be_lacked_again,
                                  clear_text),
        cmocka_unit_test_teardown(test_there_are_at_most_a_thousand, clear_text),
        cmocka_unit_test(test_a_damaged_list_is_told),
        cmocka_unit_test(test_ids_are_read_from_texts_and_from_entries_of_missing),
        cmocka_unit_test(test_an_id_has_128_bytes_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
