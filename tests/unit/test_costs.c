/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory that is counted when it is put costs what it costs when it is sent, whenever it was made
 * and whether it is pinned; with both published vocabularies, and not where a tokenizer cannot
 * promise that.
 */
#include "client/assemble/costs.h"
#include "tests/support/unit.h"

static const struct base_span tags[] = {{"x", 1}, {"\"quoted\" tag", 12}};

static struct handoff_memory memory_number(int number)
{
    static const char *const contents[] = {"The bank retries three times.", "'ve \"quoted\"\n\n",
                                           "12345 \xc3\xa4\xe2\x82\xac", " ", "true"};
    return (struct handoff_memory){.id = base_span_text(number % 2 ? "ms-1" : "a:b.C_9"),
                                   .content = base_span_text(contents[number % 5]),
                                   .summary =
                                       base_span_text(number % 3 ? "What the bank does" : NULL),
                                   .tags = tags,
                                   .tag_count = (size_t)number % 3,
                                   .importance = (enum handoff_importance)(number % 4)};
}

static void check_memory(const struct handoff_assembler *assembler, struct base_arena *arena,
                         int number)
{
    struct handoff_counter counter = {.tokenizer = assembler->tokenizer, .scratch.arena = arena};
    struct handoff_spine_put put = {.memory = memory_number(number)};
    const struct handoff_memory *memory = &put.memory;
    struct handoff_segment_memory show = {.id = memory->id,
                                          .content = memory->content,
                                          .summary = memory->summary,
                                          .priority = handoff_importance_name(memory->importance),
                                          .pinned = number % 7 < 3,
                                          .created_ms = number * INT64_C(77777777777)};
    assert_true(handoff_segment_tags(arena, memory, &show.tags));
    handoff_cost_put(assembler, arena, &put);
    assert_int_equal(put.tokens[HANDOFF_RENDERING_FULL],
                     handoff_cost_of_memory(&counter, &show, HANDOFF_FORM_FULL));
    assert_int_equal(put.tokens[HANDOFF_RENDERING_ID],
                     handoff_cost_of_memory(&counter, &show, HANDOFF_FORM_REFERENCE));
    assert_int_equal(
        put.tokens[HANDOFF_RENDERING_SUMMARY],
        memory->summary.data ? handoff_cost_of_memory(&counter, &show, HANDOFF_FORM_SUMMARY) : 0);
}

static void test_a_put_is_counted_as_it_is_sent(void **state)
{
    static const char *const encodings[] = {"o200k_base", "cl100k_base"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct handoff_tokenizer *tokenizer =
            handoff_tokenizer_open_encoding(encodings[i], NULL, NULL);
        if (!tokenizer)
            skip();
        struct handoff_assembler assembler = {.tokenizer = tokenizer, .memory_max_bytes = 1000};
        struct base_arena arena = {0};
        assert_int_equal(handoff_assembler_prepare(&assembler, NULL), HANDOFF_OK);
        assert_true(assembler.counts_puts);
        for (int number = 0; number < 420; number++)
            check_memory(&assembler, &arena, number);
        base_arena_free(&arena);
        handoff_tokenizer_close(&tokenizer);
    }
}

static void test_an_estimate_is_left_for_later(void **state)
{
    struct handoff_assembler assembler = {.tokenizer = handoff_tokenizer_estimate(),
                                          .memory_max_bytes = 1000};
    struct handoff_spine_put put = {.memory = memory_number(1)};
    struct base_arena arena = {0};
    (void)state;
    assert_int_equal(handoff_assembler_prepare(&assembler, NULL), HANDOFF_OK);
    handoff_cost_put(&assembler, &arena, &put);
    if (!assembler.counts_puts)
        assert_int_equal(put.tokens[HANDOFF_RENDERING_FULL], 0);
    base_arena_free(&arena);
}

static void test_what_is_never_sent_whole_is_not_counted_whole(void **state)
{
    struct handoff_tokenizer *tokenizer = handoff_tokenizer_open_encoding("o200k_base", NULL, NULL);
    struct handoff_assembler assembler = {.tokenizer = tokenizer, .memory_max_bytes = 10};
    struct handoff_spine_put put = {.memory = memory_number(5)};
    struct base_arena arena = {0};
    (void)state;
    if (!tokenizer)
        skip();
    assert_int_equal(handoff_assembler_prepare(&assembler, NULL), HANDOFF_OK);
    handoff_cost_put(&assembler, &arena, &put);
    assert_int_equal(put.tokens[HANDOFF_RENDERING_FULL], 0);
    assert_true(put.tokens[HANDOFF_RENDERING_SUMMARY] > 0);
    base_arena_free(&arena);
    handoff_tokenizer_close(&tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_put_is_counted_as_it_is_sent),
        cmocka_unit_test(test_an_estimate_is_left_for_later),
        cmocka_unit_test(test_what_is_never_sent_whole_is_not_counted_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
