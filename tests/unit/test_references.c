/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of memories that stand in a text, and words that only look like some; references.h. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ledger/references.h"
#include "lib/base/json.h"

/* The ids in a text, one behind the other. */
static char *found_in(const char *text)
{
    struct base_arena arena;
    struct base_buffer out = {0};
    yyjson_val *ids, *id;
    size_t i, n;
    const struct base_span texts[] = {base_span_text(text)};
    base_arena_init(&arena, 0);
    assert_int_equal(handoff_find_references(&arena, texts, 1, &ids, NULL), HANDOFF_OK);
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
        {"memories ms-4821 through ms-4825.", "ms-4821 ms-4822 ms-4823 ms-4824 ms-4825"},
        {"ms-8 to ms-11", "ms-8 ms-9 ms-10 ms-11"},
        {"ms-8..11, ms-1..ms-2", "ms-8 ms-9 ms-10 ms-11 ms-1 ms-2"},
        {"ms-098 to ms-101", "ms-098 ms-099 ms-100 ms-101"},
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

static void test_ids_of_one_request_are_bounded(void **state)
{
    (void)state;
    struct base_arena arena;
    yyjson_val *ids;
    const struct base_span texts[] = {base_span_text("ms-1 to ms-999999999999"),
                                      base_span_text("more-1")};
    base_arena_init(&arena, 0);
    assert_int_equal(handoff_find_references(&arena, texts, 2, &ids, NULL), HANDOFF_OK);
    assert_int_equal(yyjson_arr_size(ids), HANDOFF_MENTIONED_MAX);
    base_arena_free(&arena);
}

static void test_a_number_that_is_too_long_ends_no_range(void **state)
{
    (void)state;
    char *ids = found_in("ms-1 to ms-99999999999999999999");
    assert_string_equal(ids, "ms-1");
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_and_what_only_looks_like_some),
        cmocka_unit_test(test_ids_of_one_request_are_bounded),
        cmocka_unit_test(test_a_number_that_is_too_long_ends_no_range),
    };
    return RUN_TESTS(tests);
}
