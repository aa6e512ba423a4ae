/* SPDX-License-Identifier: Apache-2.0 */
/* Text stays text, between tags and in attributes. */
#include <stdio.h>
#include <stdlib.h>

#include "exporter/status/html.h"
#include "tests/support/unit.h"

static void check_by(void (*write)(FILE *out, const char *text), const char *text,
                     const char *expected)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&bytes, &length);
    assert_non_null(out);
    write(out, text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(bytes, expected);
    free(bytes);
}

static void check(const char *text, const char *expected)
{
    check_by(exporter_html_text, text, expected);
}

static void test_the_value_of_a_parameter_ends_where_it_ends(void **state)
{
    (void)state;
    check_by(exporter_html_url_value, "coder-1.b_~", "coder-1.b_~");
    check_by(exporter_html_url_value, "a&b=c #\"'<%/?\xe2\x82\xac",
             "a%26b%3Dc%20%23%22%27%3C%25%2F%3F%E2%82%AC");
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_special_byte_is_escaped),
        cmocka_unit_test(test_the_value_of_a_parameter_ends_where_it_ends)};
    return RUN_TESTS(tests);
}
