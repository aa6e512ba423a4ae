/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of memories that stand in a text, and words that only look like some; references.h. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/handoff.h"
#include "client/ledger/references.h"
#include "lib/base/json.h"

/* The ids in a text, one behind the other. */
static char *found_in(const char *text)
{
    struct base_arena arena;
    struct base_buffer out = {0};
    yyjson_val *ids, *id;
    uint64_t unsought;
    size_t i, n;
    const struct base_span texts[] = {base_span_text(text)};
    base_arena_init(&arena, 0);
    assert_int_equal(handoff_find_references(&arena, texts, 1, &ids, &unsought, NULL), HANDOFF_OK);
    assert_int_equal(unsought, 0);
    base_buffer_text(&out, "");
    yyjson_arr_foreach(ids, i, n, id)
    {
        base_buffer_text(&out, i ? " " : "");
        base_buffer_append(&out, yyjson_get_str(id), yyjson_get_len(id));
    }
    base_arena_free(&arena);
    return out.data;
}

static void test_ids_and_what_only_looks_like_some(void **state)
{
    (void)state;
    static const struct {
        const char *text, *ids;
    } rows[] = {
        {"", ""},
        {"Write the retry logic", ""},
        {"Use ms-4821.", "ms-4821"},
        {"(ms-4821), \"mem:7\"; task_12/note.3!", "ms-4821 mem:7 task_12 note.3"},
        {"0190aaaa-0000-7000-8000-000000000002", "0190aaaa-0000-7000-8000-000000000002"},
        {"well-known facts, a to-do, e.g. this", ""},
        {"on 2026-11-19 at 10:30, 192.168.0.1, 3.5", ""},
        {"http2 and x86 have no joint, -7 no letter", ""},
        {"caf\xc3\xa9-7 is one word, and none of ours", ""},
        /* ranges */
        {"memories ms-4821 through ms-4825.", "ms-4821 ms-4825 ms-4822 ms-4823 ms-4824"},
        {"ms-8 to ms-11 and doc-7", "ms-8 ms-11 doc-7 ms-9 ms-10"},
        {"ms-8..11, ms-1..ms-2", "ms-8 ms-11 ms-1 ms-2 ms-9 ms-10"},
        {"ms-098 to ms-101", "ms-098 ms-101 ms-099 ms-100"},
        {"from ms-1 to mem-3", "ms-1 mem-3"},
        {"ms-3 to ms-1", "ms-3"},
        {"ms-1 together with ms-3", "ms-1 ms-3"},
        {"ms-1 to 3", "ms-1"},
        {"ms-1 ...", "ms-1"},
        {"ms-1 through", "ms-1"},
        {"ms-a1b to ms-a1c", "ms-a1b ms-a1c"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *ids = found_in(rows[i].text);
        assert_string_equal(ids, rows[i].ids);
        free(ids);
    }
}

/* The ids in two texts, and how many are not among them. */
static size_t count_found(const char *one, const char *other, char third[32], char last[32],
                          uint64_t *unsought)
{
    struct base_arena arena;
    yyjson_val *ids;
    const struct base_span texts[] = {base_span_text(one), base_span_text(other)};
    base_arena_init(&arena, 0);
    assert_int_equal(handoff_find_references(&arena, texts, 2, &ids, unsought, NULL), HANDOFF_OK);
    snprintf(third, 32, "%s", yyjson_get_str(yyjson_arr_get(ids, 2)));
    snprintf(last, 32, "%s", yyjson_get_str(yyjson_arr_get_last(ids)));
    const size_t count = yyjson_arr_size(ids);
    base_arena_free(&arena);
    return count;
}

static void test_a_range_displaces_no_id_that_stands_in_the_text(void **state)
{
    (void)state;
    char third[32], last[32];
    uint64_t unsought;
    assert_int_equal(count_found("ms-1 to ms-999999 and doc-7", "more-1", third, last, &unsought),
                     HANDOFF_MENTIONED_MAX);
    assert_string_equal(third, "doc-7");
    assert_string_equal(last, "ms-997");
    assert_int_equal(unsought, 1000001 - HANDOFF_MENTIONED_MAX);
}

static void test_what_is_not_looked_for_is_counted(void **state)
{
    (void)state;
    struct base_buffer text = {0};
    char third[32], last[32];
    uint64_t unsought;
    for (int i = 1; i <= HANDOFF_MENTIONED_MAX + 20; i++)
        base_buffer_printf(&text, "doc-%d ", i);
    assert_int_equal(count_found(text.data, "ms-1..10", third, last, &unsought),
                     HANDOFF_MENTIONED_MAX);
    assert_string_equal(last, "doc-1000");
    assert_int_equal(unsought, 20 + 10);
    base_buffer_free(&text);
}

static void test_the_count_stays_a_number_that_json_has(void **state)
{
    (void)state;
    struct base_buffer text = {0};
    char third[32], last[32];
    uint64_t unsought;
    for (int i = 0; i < 20; i++)
        base_buffer_text(&text, "ms-1 to ms-999999999999999, ");
    count_found(text.data, "", third, last, &unsought);
    assert_int_equal(unsought, HANDOFF_UNSOUGHT_MAX);
    base_buffer_free(&text);
}

static void test_a_number_that_is_too_long_ends_no_range(void **state)
{
    (void)state;
    char *ids = found_in("ms-1 to ms-99999999999999999999");
    assert_string_equal(ids, "ms-1");
    free(ids);
}

/* None of them can exist, so the range ends there. */
static void test_a_range_ends_where_ids_would_be_too_long(void **state)
{
    (void)state;
    char text[HANDOFF_MEMORY_ID_MAX + 32], prefix[HANDOFF_MEMORY_ID_MAX];
    memset(prefix, 'm', sizeof prefix);
    snprintf(text, sizeof text, "%.*s-8..999999999999999", HANDOFF_MEMORY_ID_MAX - 2, prefix);
    char *ids = found_in(text);
    assert_int_equal(strlen(ids), 2 * HANDOFF_MEMORY_ID_MAX + 1);
    assert_string_equal(ids + strlen(ids) - 2, "-9");
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_and_what_only_looks_like_some),
        cmocka_unit_test(test_a_range_displaces_no_id_that_stands_in_the_text),
        cmocka_unit_test(test_what_is_not_looked_for_is_counted),
        cmocka_unit_test(test_the_count_stays_a_number_that_json_has),
        cmocka_unit_test(test_a_number_that_is_too_long_ends_no_range),
        cmocka_unit_test(test_a_range_ends_where_ids_would_be_too_long),
    };
    return RUN_TESTS(tests);
}
