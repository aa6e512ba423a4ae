/* SPDX-License-Identifier: Apache-2.0 */
/* Where text is cut, alternative by alternative of the two expressions; bars mark the cuts. */
#include "tests/support/unit.h"

#include "lib/tokens/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(handoff_split_function *split, const char *marked)
{
    char text[256], cut[512];
    size_t length = 0, written = 0;

    for (const char *c = marked; *c; c++)
        if (*c != '|')
            text[length++] = *c;
    const uint8_t *at = (const uint8_t *)text, *end = at + length;
    while (at < end) {
        const uint8_t *stop = split(at, end);

        assert_true(stop > at && stop <= end);
        if (written > 0)
            cut[written++] = '|';
        memcpy(cut + written, at, (size_t)(stop - at));
        written += (size_t)(stop - at);
        at = stop;
    }
    cut[written] = '\0';
    assert_string_equal(cut, marked);
}

static const char *const both[] = {
    /* a word takes one character before it that is neither letter, number nor newline */
    "one| two| three",
    "(word|)",
    "\tx",
    "--|a",
    "\n|a",
    "1|a",
    "\u00a0a",
    /* numbers by threes, of any script, without a space before them */
    "1",
    "123|456|7",
    " |1",
    "½12|3",
    "x|1|y",
    "١٢٣|٤",
    /* everything else with a space before it and newlines behind */
    "!",
    " !?",
    "a|!\n\n|b",
    " ...\r\n\r\n|x",
    "!| ?",
    /* white space up to the last newline, then all but the last, then all */
    "a|  | b",
    "a|   ",
    "a| \n \n|  | b",
    "a| |\u00a0b",
    "\t|\tx",
    "a|\r\n|b",
    "  |\u2003|!",
    "  | !",
};

static const char *const cl100k[] = {
    "don|'t| I|'ll|'VE|'s",
    "'s|ail",
    "x|'ſ|y",
    "camelCaseWORD",
    "/\n|/",
    "é",
    "e|\u0301",
    "'\u0301|s",
    "aʰB",
    "'r",
    "'LL|ol",
    "'Lol",
};

static const char *const o200k[] = {
    /* capitals, then small letters; contractions belong to the word */
    "don't| I'll|'VE's",
    "x's|ail",
    "x'ſ|y",
    "camel|Case|WORD",
    "HTMLDoc",
    "ǅx",
    "ABC",
    /* marks and modifier letters go with either half; what is given back is the least */
    "é",
    "e\u0301",
    "A\u0301|B",
    "\u0301|AB",
    "\u0301ABc",
    " \u0301A\u0301|B",
    "aʰ|B",
    "Aʰ|B",
    "人Ab",
    "人|A",
    /* a slash may follow a newline */
    "!\n/|x",
    "/\n/\n//",
};

static void test_cuts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
        expect(handoff_split_cl100k, both[i]);
        expect(handoff_split_o200k, both[i]);
    }
    for (size_t i = 0; i < sizeof(cl100k) / sizeof(cl100k[0]); i++)
        expect(handoff_split_cl100k, cl100k[i]);
    for (size_t i = 0; i < sizeof(o200k) / sizeof(o200k[0]); i++)
        expect(handoff_split_o200k, o200k[i]);
}

static void test_patterns(void **state)
{
    (void)state;
    assert_ptr_equal(handoff_split_for(HANDOFF_SPLIT_CL100K), handoff_split_cl100k);
    assert_ptr_equal(handoff_split_for(HANDOFF_SPLIT_O200K), handoff_split_o200k);
    assert_null(handoff_split_for(0));
    assert_null(handoff_split_for(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_patterns),
    };
    return RUN_TESTS(tests);
}
