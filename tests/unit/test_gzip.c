/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed in pieces of any size, read back by zlib as one gzip file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/exposition/gzip.h"
#include "tests/support/unit.h"

enum { ROOM = 1 << 20 };

static size_t compress_in_pieces(const char *text, size_t length, size_t in_piece, size_t out_piece,
                                 unsigned char *out)
{
    struct exposition_gzip *gzip = exposition_gzip_new();
    assert_non_null(gzip);
    size_t consumed = 0;
    size_t produced = 0;
    bool finished = false;
    while (!finished) {
        size_t offered = length - consumed < in_piece ? length - consumed : in_piece;
        const bool last = consumed + offered == length;
        assert_true(produced + out_piece <= ROOM);
        const struct exposition_gzip_step step =
            exposition_gzip_run(gzip, text + consumed, offered, out + produced, out_piece, last);
        assert_true(step.consumed <= offered);
        assert_true(step.produced <= out_piece);
        consumed += step.consumed;
        produced += step.produced;
        finished = step.finished;
    }
    assert_int_equal(consumed, length);
    exposition_gzip_free(&gzip);
    assert_null(gzip);
    return produced;
}

static size_t decompress(unsigned char *in, size_t length, char *out)
{
    z_stream stream = {.next_in = in, .avail_in = (uInt)length};
    stream.next_out = (Bytef *)out;
    stream.avail_out = ROOM;
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK); /* +16: nothing but gzip */
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.avail_in, 0); /* and nothing behind it */
    inflateEnd(&stream);
    return stream.total_out;
}

static void check(const char *text, size_t length, size_t in_piece, size_t out_piece)
{
    unsigned char *packed = malloc(ROOM);
    char *back = malloc(ROOM);
    assert_non_null(packed);
    assert_non_null(back);
    const size_t size = compress_in_pieces(text, length, in_piece, out_piece, packed);
    assert_int_equal(decompress(packed, size, back), length);
    assert_memory_equal(back, text, length);
    free(packed);
    free(back);
}

static void test_any_cut_gives_the_same_text(void **state)
{
    static const size_t pieces[] = {1, 7, 100, 4096, 65536};
    (void)state;
    char *text = malloc(70000);
    assert_non_null(text);
    for (size_t i = 0; i < 70000; i++)
        text[i] = (char)(i * 2654435761u >> 13); /* no pattern that would make it easy */
    for (size_t in = 0; in < sizeof pieces / sizeof *pieces; in++) {
        for (size_t out = 0; out < sizeof pieces / sizeof *pieces; out++)
            check(text, 70000, pieces[in], pieces[out]);
    }
    free(text);
}

static void test_nothing_is_a_valid_file_too(void **state)
{
    (void)state;
    check("", 0, 1, 1);
    check("", 0, 100, 100);
    check("x", 1, 1, 100);
}

static void test_metrics_shrink(void **state)
{
    (void)state;
    char *text = malloc(100000);
    unsigned char *packed = malloc(ROOM);
    assert_non_null(text);
    assert_non_null(packed);
    size_t length = 0;
    for (int i = 0; length < 90000; i++)
        length +=
            (size_t)sprintf(text + length,
                            "handoff_attempts_total{target_agent=\"agent-%d\",result=\"ack\"} "
                            "%d\n",
                            i, i * 31);
    assert_true(compress_in_pieces(text, length, 65536, 32000, packed) * 5 < length);
    free(text);
    free(packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut_gives_the_same_text),
        cmocka_unit_test(test_nothing_is_a_valid_file_too),
        cmocka_unit_test(test_metrics_shrink),
    };
    return RUN_TESTS(tests);
}
