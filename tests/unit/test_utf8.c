/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 by RFC 3629, and repairing by Unicode's recommendation (chapter 3, tables 3-8 to 3-11). */
#include "tests/support/failing_memory.h"
#include "tests/support/unit.h"

#include "lib/base/utf8.h"

#include <string.h>

#define FFFD "\xef\xbf\xbd"

static const char *const valid[] = {
    "",
    "a",
    "\x7f",
    "\xc2\x80",
    "\xdf\xbf",
    "\xe0\xa0\x80",
    "\xed\x9f\xbf",
    "\xee\x80\x80",
    "\xef\xbf\xbf",
    "\xf0\x90\x80\x80",
    "\xf4\x8f\xbf\xbf",
    "eight or more bytes é of both",
};

static const struct {
    const char *broken, *repaired;
} broken[] = {
    {"\x80", FFFD},
    {"\xff", FFFD},
    {"\xc0\x80", FFFD FFFD},
    {"\xc1\xbf", FFFD FFFD},
    {"\xc3", FFFD},
    {"\xc3(", FFFD "("},
    {"\xe2\x82", FFFD},
    {"\xe2\x82"
     "a",
     FFFD "a"},
    {"\xe0\x9f\xbf", FFFD FFFD FFFD},
    {"\xed\xa0\x80", FFFD FFFD FFFD},
    {"\xf0\x8f\xbf\xbf", FFFD FFFD FFFD FFFD},
    {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD},
    {"\xf5\x80", FFFD FFFD},
    {"\xf0\x9f\x92 x", FFFD " x"},
    /* The standard's own examples. */
    {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A"},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", FFFD FFFD FFFD FFFD "A"},
    {"long ascii before it \xf0\x80 and behind", "long ascii before it " FFFD FFFD " and behind"},
};

static void test_valid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++)
        assert_int_equal(base_utf8_valid_length(valid[i], strlen(valid[i])), strlen(valid[i]));
    assert_int_equal(base_utf8_valid_length("a\0b\xff", 4), 3);
}

static void test_repair(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        size_t length = 0;
        char *repaired = base_utf8_repair(broken[i].broken, strlen(broken[i].broken), &length);

        assert_non_null(repaired);
        assert_int_equal(length, strlen(broken[i].repaired));
        assert_memory_equal(repaired, broken[i].repaired, length);
        assert_int_equal(base_utf8_valid_length(repaired, length), length);
        base_free(repaired);
    }
}

static void test_no_memory(void **state)
{
    size_t length;

    (void)state;
    failing_memory_at(1);
    assert_null(base_utf8_repair("\xff", 1, &length));
    failing_memory_at(0);
    assert_null(base_utf8_repair("\xff", SIZE_MAX / 2, &length));
}

/* Every code point, written by hand and read back. */
static void test_read(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x110000; code++) {
        uint8_t bytes[4];
        unsigned width = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4, read;

        if (code >= 0xd800 && code < 0xe000)
            continue;
        for (unsigned i = 0; i < width; i++)
            bytes[i] = (uint8_t)(0x80 | (code >> 6 * (width - 1 - i) & 0x3f));
        if (width == 1)
            bytes[0] = (uint8_t)code;
        else
            bytes[0] = (uint8_t)((0xf00u >> width) | code >> 6 * (width - 1));
        assert_int_equal(base_utf8_valid_length((const char *)bytes, width), width);
        assert_int_equal(base_utf8_read(bytes, &read), code);
        assert_int_equal(read, width);
    }
}

static void assert_utf8(const char *bytes, size_t length, size_t size, uint32_t expected)
{
    uint32_t character;

    assert_int_equal(base_utf8_next(bytes, length, &character), size);
    assert_int_equal(character, expected);
}

static void test_next(void **state)
{
    (void)state;
    assert_utf8("a", 1, 1, 'a');
    assert_utf8("\0", 1, 1, 0);
    assert_utf8("\xC3\xA9", 2, 2, 0xE9);
    assert_utf8("\xE2\x82\xAC", 3, 3, 0x20AC);
    assert_utf8("\xF0\x9F\x98\x80", 4, 4, 0x1F600);
    assert_utf8("\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF);
    assert_utf8("\xF4\x90\x80\x80", 4, 1, BASE_UTF8_INVALID); /* beyond Unicode */
    assert_utf8("\xC0\x80", 2, 1, BASE_UTF8_INVALID);         /* overlong */
    assert_utf8("\xE0\x80\x80", 3, 1, BASE_UTF8_INVALID);
    assert_utf8("\xF0\x80\x80\x80", 4, 1, BASE_UTF8_INVALID);
    assert_utf8("\xED\xA0\x80", 3, 1, BASE_UTF8_INVALID); /* a surrogate */
    assert_utf8("\xE2\x82", 2, 2, BASE_UTF8_INVALID);     /* cut: one subsequence */
    assert_utf8("\x80", 1, 1, BASE_UTF8_INVALID);
    assert_utf8("\xC3(", 2, 1, BASE_UTF8_INVALID);
    assert_utf8("\xFF", 1, 1, BASE_UTF8_INVALID);
}

static void test_cut(void **state)
{
    (void)state;
    static const char *const by_room[] = {NULL,        "",           "x",           "x",
                                          "x\xc3\xa9", "x\xc3\xa9y", "x\xc3\xa9yz", "x\xc3\xa9yz"};
    for (size_t room = 1; room < sizeof by_room / sizeof by_room[0]; room++) {
        char cut[8] = "-------";
        base_utf8_cut(cut, room, "x\xc3\xa9yz", 5);
        assert_string_equal(cut, by_room[room]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),     cmocka_unit_test(test_repair),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_read),
        cmocka_unit_test(test_next),      cmocka_unit_test(test_cut),
    };
    return RUN_TESTS(tests);
}
