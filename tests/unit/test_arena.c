/* SPDX-License-Identifier: Apache-2.0 */
/* The arena and the buffer: alignment, no overlap, growth, failure of every allocation. */
#include "tests/support/unit.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/buffer.h"
#include "tests/support/failing_memory.h"

static void test_pieces_are_aligned_and_apart(void **state)
{
    struct base_arena arena;
    unsigned char *pieces[300];
    (void)state;
    base_arena_init(&arena, 64);
    for (unsigned i = 0; i < 300; i++) {
        pieces[i] = base_arena_alloc(&arena, i);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
        memset(pieces[i], (int)(i & 0xFF), i);
    }
    for (unsigned i = 0; i < 300; i++)
        for (unsigned j = 0; j < i; j++)
            assert_int_equal(pieces[i][j], i & 0xFF);
    base_arena_free(&arena);
}

static void test_large_and_impossible_sizes(void **state)
{
    struct base_arena arena;
    (void)state;
    base_arena_init(&arena, 0);
    char *large = base_arena_calloc(&arena, 3, 1 << 20);
    assert_non_null(large);
    assert_int_equal(large[(3 << 20) - 1], 0);
    assert_null(base_arena_alloc(&arena, SIZE_MAX));
    assert_null(base_arena_alloc(&arena, SIZE_MAX - 8));
    assert_null(base_arena_calloc(&arena, SIZE_MAX / 2, 3));
    assert_null(base_arena_copy(&arena, "x", SIZE_MAX));
    base_arena_free(&arena);
}

/* The last piece grows where it is while its block has room; every other one is moved. */
static void test_pieces_grow(void **state)
{
    struct base_arena arena;
    (void)state;
    base_arena_init(&arena, 1024);
    char *last = base_arena_resize(&arena, NULL, 0, 10);
    memcpy(last, "0123456789", 10);
    assert_ptr_equal(base_arena_resize(&arena, last, 10, 200), last);
    assert_ptr_equal(base_arena_resize(&arena, last, 200, 20), last);
    assert_memory_equal(last, "0123456789", 10);
    char *behind = base_arena_alloc(&arena, 8);
    char *moved = base_arena_resize(&arena, last, 20, 100);
    assert_ptr_not_equal(moved, last);
    assert_memory_equal(moved, "0123456789", 10);
    memset(moved, 'm', 100);
    memset(behind, 'b', 8);
    char *large = base_arena_resize(&arena, moved, 100, 5000); /* the block has no such room */
    assert_ptr_not_equal(large, moved);
    for (int i = 0; i < 100; i++)
        assert_int_equal(large[i], 'm');
    failing_memory_at(1);
    assert_null(base_arena_resize(&arena, large, 5000, 50000));
    failing_memory_at(0);
    assert_int_equal(large[99], 'm');
    assert_null(base_arena_resize(&arena, large, 5000, SIZE_MAX));
    base_arena_free(&arena);
}

static void test_reset_keeps_one_block(void **state)
{
    struct base_arena arena = {0}; /* zeroed is empty */
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_non_null(base_arena_alloc(&arena, 1000));
    base_arena_reset(&arena);
    size_t held = arena.held;
    assert_true(held > 0);
    char *text = base_arena_printf(&arena, "%s-%d", "ms", 4821);
    assert_string_equal(text, "ms-4821");
    assert_string_equal(base_arena_copy(&arena, "a\0b", 3), "a");
    assert_int_equal(arena.held, held);
    base_arena_free(&arena);
    assert_int_equal(arena.held, 0);
}

static void test_no_memory(void **state)
{
    struct base_arena arena;
    struct base_buffer buffer = {0};
    (void)state;
    base_arena_init(&arena, 0);
    failing_memory_at(1);
    assert_null(base_arena_strdup(&arena, "x"));
    assert_string_equal(base_arena_strdup(&arena, "y"), "y");
    failing_memory_at(1);
    base_buffer_text(&buffer, "x");
    assert_true(buffer.failed);
    base_buffer_text(&buffer, "y"); /* sticks, although there would be memory */
    assert_true(buffer.failed);
    assert_int_equal(buffer.size, 0);
    failing_memory_at(0);
    base_buffer_clear(&buffer);
    base_buffer_text(&buffer, "z");
    assert_string_equal(buffer.data, "z");
    base_buffer_free(&buffer);
    base_arena_free(&arena);
}

static void test_buffer_appends(void **state)
{
    struct base_buffer buffer = {0};
    (void)state;
    assert_int_equal(base_buffer_span(&buffer).size, 0);
    for (int i = 0; i < 1000; i++) {
        base_buffer_printf(&buffer, "%d", i % 10);
        base_buffer_byte(&buffer, ',');
    }
    base_buffer_append(&buffer, "", 0);
    assert_int_equal(buffer.size, 2000);
    assert_int_equal(buffer.data[2000], '\0');
    assert_memory_equal(buffer.data + 1996, "8,9,", 4);
    memcpy(base_buffer_reserve(&buffer, 3), "end", 3);
    base_buffer_grow(&buffer, 3);
    assert_string_equal(buffer.data + 2000, "end");
    base_buffer_free(&buffer);
    base_buffer_free(&buffer);
}

static void test_buffer_limit(void **state)
{
    struct base_buffer buffer = {.limit = 5};
    (void)state;
    base_buffer_text(&buffer, "12345");
    assert_false(buffer.failed);
    base_buffer_byte(&buffer, '6');
    assert_true(buffer.failed);
    assert_int_equal(buffer.size, 5);
    assert_null(base_buffer_reserve(&buffer, SIZE_MAX));
    base_buffer_free(&buffer);
}

/* Numbers at their limits, and a buffer that grows in an arena. */
static void test_buffer_in_an_arena(void **state)
{
    struct base_arena arena = {0};
    struct base_buffer buffer = {.arena = &arena};
    static const int64_t numbers[] = {0, 9, 10, -1, INT64_MAX, INT64_MIN};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char expected[24];
        snprintf(expected, sizeof expected, "%lld", (long long)numbers[i]);
        base_buffer_clear(&buffer);
        base_buffer_number(&buffer, numbers[i]);
        assert_string_equal(buffer.data, expected);
    }
    base_buffer_clear(&buffer);
    for (int i = 0; i < 5000; i++)
        base_buffer_byte(&buffer, (char)('a' + i % 26));
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buffer.data[i], 'a' + i % 26);
    base_buffer_free(&buffer);
    assert_null(buffer.data);
    failing_memory_at(1);
    base_buffer_reserve(&buffer, 1 << 20);
    assert_true(buffer.failed);
    failing_memory_at(0);
    base_arena_free(&arena);
}

/* ---- spare blocks ---------------------------------------------------------------------------- */

enum { LARGE = 1000 * 1000, MANY = 20 };

static void test_a_large_block_is_used_again(void **state)
{
    struct base_arena arena;
    (void)state;
    base_arena_init(&arena, 0);
    char *first = base_arena_alloc(&arena, LARGE);
    assert_non_null(first);
    memset(first, 'x', LARGE);
    base_arena_free(&arena);
    char *again = base_arena_calloc(&arena, 1, LARGE);
    assert_ptr_equal(again, first);
    assert_int_equal(again[LARGE - 1], 0);
    base_arena_free(&arena);
}

/* How many large blocks there are without asking the C library for one. */
static size_t count_spare_blocks(void)
{
    static struct base_arena arenas[MANY];
    size_t count = 0;
    failing_memory_at(1);
    while (count < MANY && base_arena_alloc(&arenas[count], LARGE))
        count++;
    failing_memory_at(0);
    for (size_t i = 0; i < count; i++)
        base_arena_free(&arenas[i]);
    return count;
}

static void test_no_more_than_a_few_are_kept(void **state)
{
    static struct base_arena arenas[MANY];
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        assert_non_null(base_arena_alloc(&arenas[i], LARGE));
    for (size_t i = 0; i < MANY; i++)
        base_arena_free(&arenas[i]);
    assert_in_range(count_spare_blocks(), 1, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_aligned_and_apart),
        cmocka_unit_test(test_large_and_impossible_sizes),
        cmocka_unit_test(test_pieces_grow),
        cmocka_unit_test(test_reset_keeps_one_block),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_buffer_appends),
        cmocka_unit_test(test_buffer_limit),
        cmocka_unit_test(test_buffer_in_an_arena),
        cmocka_unit_test(test_a_large_block_is_used_again),
        cmocka_unit_test(test_no_more_than_a_few_are_kept),
    };
    return RUN_TESTS(tests);
}
