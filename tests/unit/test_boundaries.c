/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts that are found many at once are those of the splitter, which test_split.c knows from the
 * expressions: texts of everything that either treats specially, in every order and number. And
 * they are found where it matters: plain text needs the splitter rarely.
 */
#include "tests/support/property.h"
#include "tests/support/unit.h"

#include "lib/tokens/boundaries.h"

#include <string.h>

#define LONGEST 320

/* One by one, some often; the last row has more than a byte each. */
static const char *const characters[] = {
    "a",      "b",      "z",      "A",      "Z",        "@",      "[",         "`",
    "{",      "s",      "t",      "d",      "m",        "r",      "e",         "v",
    "l",      "S",      "T",      "L",      " ",        " ",      " ",         "\t",
    "\n",     "\n",     "\r",     "\v",     "\x1f",     "'",      "'",         "'",
    "/",      "/",      ".",      ",",      "\"",       "~",      "\x7f",      "\x01",
    "0",      "1",      "9",      ":",      "\u00e9",   "\u00c9", "\u00a0",    "\u0301",
    "\u3000", "\u4eba", "\u017f", "\u00bd", "\xc2\x85", "\u2028", "\U0001f600"};
#define CHARACTERS (sizeof(characters) / sizeof(characters[0]))

/* Of a few neighbours in the list, so that each meets each; some in runs. */
static size_t make_text(struct property *property, uint8_t *text)
{
    uint32_t first = property_below(property, CHARACTERS);
    uint32_t kinds = 2 + property_below(property, CHARACTERS - 2);
    uint32_t longest_run = 1 + property_below(property, 9);
    size_t length = 0, wanted = 1 + property_below(property, LONGEST / 2);

    while (length < wanted) {
        const char *next = characters[(first + property_below(property, kinds)) % CHARACTERS];
        size_t width = strlen(next);

        for (uint32_t run = 1 + property_below(property, longest_run); run > 0; run--) {
            if (length + width > LONGEST)
                return length;
            memcpy(text + length, next, width);
            length += width;
        }
    }
    return length;
}

/* Every cut is where the splitter cuts. Returns how many pieces were left to the splitter. */
static size_t follow_cuts(const uint8_t *text, size_t length, enum handoff_split_pattern pattern)
{
    handoff_split_function *split = handoff_split_for(pattern);
    const uint8_t *at = text, *end = text + length;
    size_t stuck = 0;

    while (at < end) {
        uint8_t window[HANDOFF_BOUNDARIES_WINDOW];
        size_t left = (size_t)(end - at);
        const uint8_t *from = at;

        memset(window, ' ', sizeof(window));
        memcpy(window, at, left < sizeof(window) ? left : sizeof(window));
        struct handoff_boundaries cuts = handoff_boundaries_find(window, left, pattern);
        for (uint64_t places = cuts.places; places; places &= places - 1) {
            at = split(at, end);
            assert_int_equal(at - from, __builtin_ctzll(places));
        }
        assert_true(cuts.stuck || at > from);
        if (cuts.stuck) {
            stuck++;
            at = split(at, end);
        }
    }
    return stuck;
}

static void test_cuts_are_those_of_the_splitter(void **state)
{
    struct property property = property_begin("cuts");
    uint8_t text[LONGEST];

    (void)state;
    for (int round = 0; round < 100000; round++) {
        size_t length = make_text(&property, text);

        follow_cuts(text, length, HANDOFF_SPLIT_O200K);
        follow_cuts(text, length, HANDOFF_SPLIT_CL100K);
    }
}

static size_t stuck_in(const char *text, enum handoff_split_pattern pattern)
{
    return follow_cuts((const uint8_t *)text, strlen(text), pattern);
}

static void test_plain_text_is_cut_at_once(void **state)
{
    static const char *const plain[] = {
        "The quick brown fox jumps over the lazy dog, and then (since nobody looked) once more.",
        "{\"task\":{\"intent\":\"move \\\"retry\\\" to net/http.c\",\"deadline\":20260131}}",
        "static int camelCase(void)\n{\n    return 1234567;  /* so many */\n}\n\nint HTMLDoc;\n",
        "    ",
        " a",
        "a ",
        "\n\n  x",
        "1",
        "!",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        assert_int_equal(stuck_in(plain[i], HANDOFF_SPLIT_O200K), 0);
        assert_int_equal(stuck_in(plain[i], HANDOFF_SPLIT_CL100K), 0);
    }
}

/* And where it does not know, it says so once for each place. */
static void test_doubts(void **state)
{
    (void)state;
    assert_int_equal(stuck_in("they don't know, do they", HANDOFF_SPLIT_O200K), 1);
    assert_int_equal(stuck_in("na\u00efve words, and others", HANDOFF_SPLIT_O200K), 1);
    assert_int_equal(stuck_in("\u00e9tat, and so on", HANDOFF_SPLIT_O200K), 1);
    assert_int_equal(stuck_in("'quoted' words of o200k", HANDOFF_SPLIT_O200K), 0);
    assert_int_equal(stuck_in("a line \nand another", HANDOFF_SPLIT_O200K), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts_are_those_of_the_splitter),
        cmocka_unit_test(test_plain_text_is_cut_at_once),
        cmocka_unit_test(test_doubts),
    };
    return RUN_TESTS(tests);
}
