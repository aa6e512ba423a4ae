/* SPDX-License-Identifier: Apache-2.0 */
/* Text stays text, between tags and in attributes. */
#include <stdio.h>
#include <stdlib.h>

#include "exporter/status/html.h"
#include "tests/support/unit.h"

static void check(const char *text, const char *expected)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&bytes, &length);
    assert_non_null(out);
    exporter_html_text(out, text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(bytes, expected);
    free(bytes);
}

static void test_every_special_byte_is_escaped(void **state)
{
    (void)state;
    check("", "");
    check("plain text, \xe2\x82\xac too", "plain text, \xe2\x82\xac too");
    check("\"><script>alert('x')</script>&amp;",
          "&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_special_byte_is_escaped)};
    return RUN_TESTS(tests);
}
