/* SPDX-License-Identifier: Apache-2.0 */
/* Text from outside in quotes. */
#include "lib/base/quote.h"
#include "tests/support/unit.h"

#include <string.h>

static void test_quote(void **state)
{
    struct base_quoted quoted;
    char flood[400];

    (void)state;
    assert_string_equal(base_quote(&quoted, "15 parsecs", 10), "\"15 parsecs\"");
    assert_string_equal(base_quote(&quoted, "", 0), "\"\"");
    assert_string_equal(base_quote(&quoted, "a\n\x1B\xFF\"\\", 6), "\"a\\x0A\\x1B\\xFF\\\"\\\\\"");
    assert_string_equal(base_quote(&quoted, "\xC3\xA9\xC2\x9B", 4), "\"\xC3\xA9\\xC2\\x9B\"");
    /* a character of four bytes that is cut after three, at every place of the last step */
    for (size_t lead = 0; lead < sizeof(quoted.text); lead++) {
        memset(flood, 'a', lead);
        memcpy(flood + lead, "\xF0\x9F\x98", 3);
        base_quote(&quoted, flood, lead + 3);
        assert_in_range(strlen(quoted.text), 2, sizeof(quoted.text) - 1);
    }
    /* every way to fill it stays inside and is marked as cut */
    for (size_t lead = 0; lead < 16; lead++) {
        memset(flood, 'a', lead);
        for (size_t i = lead; i < sizeof(flood); i++) {
            flood[i] = (i - lead) % 2 == 0 ? '\xC2' : '\x85';
        }
        base_quote(&quoted, flood, sizeof(flood));
        size_t length = strlen(quoted.text);
        assert_in_range(length, 100, sizeof(quoted.text) - 1);
        assert_string_equal(quoted.text + length - 4, "...\"");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quote),
    };
    return RUN_TESTS(tests);
}
