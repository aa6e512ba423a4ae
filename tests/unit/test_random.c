/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes are cut from blocks: no piece comes twice, in no thread and in no child. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/random.h"

enum { PIECES = 400, PIECE = 16 }; /* many blocks */

typedef unsigned char piece[PIECE];

static void draw(void *bytes, size_t size)
{
    base_random_system.fill(&base_random_system, bytes, size);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, PIECE);
}

static void assert_all_differ(piece *pieces, size_t count)
{
    qsort(pieces, count, PIECE, by_bytes);
    for (size_t i = 1; i < count; i++)
        assert_memory_not_equal(pieces[i - 1], pieces[i], PIECE);
}

static void *draw_many(void *pieces)
{
    for (size_t i = 0; i < PIECES; i++)
        draw(((piece *)pieces)[i], PIECE);
    return NULL;
}

static void test_no_piece_comes_twice(void **state)
{
    (void)state;
    static piece pieces[2 * PIECES];
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, draw_many, pieces + PIECES), 0);
    draw_many(pieces);
    pthread_join(other, NULL);
    assert_all_differ(pieces, 2 * PIECES);
}

static void test_every_byte_of_every_size_is_drawn(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 10, 24, 255, 256, 257, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char drawn[1001] = {0}, any[1001] = {0};
        for (int round = 0; round < 64; round++) { /* a byte is zero 64 times in 2^-512 */
            draw(drawn, sizes[i]);
            for (size_t at = 0; at < sizeof any; at++)
                any[at] |= drawn[at];
        }
        assert_null(memchr(any, 0, sizes[i]));
        assert_int_equal(any[sizes[i]], 0); /* and none beyond */
    }
}

static void test_a_child_draws_others(void **state)
{
    (void)state;
    static piece pieces[3];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    draw(pieces[0], PIECE); /* there is a block, and it is begun */
    pid_t child = fork();
    if (child == 0) {
        draw(pieces[1], PIECE);
        _exit(write(ends[1], pieces[1], PIECE) == PIECE ? 0 : 1);
    }
    assert_true(child > 0);
    draw(pieces[2], PIECE);
    assert_int_equal(read(ends[0], pieces[1], PIECE), PIECE);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
    assert_all_differ(pieces, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_piece_comes_twice),
        cmocka_unit_test(test_every_byte_of_every_size_is_drawn),
        cmocka_unit_test(test_a_child_draws_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
