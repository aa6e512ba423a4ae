/* SPDX-License-Identifier: Apache-2.0 */
/* Runbooks as HTML: each form that they use, and nothing of them that could become markup. */
#include <stdio.h>
#include <stdlib.h>

#include "exporter/status/markdown.h"
#include "tests/support/unit.h"

static void check_html(const char *text, const char *expected)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&bytes, &length);
    assert_non_null(out);
    exporter_markdown_html(out, text, "/runbooks/");
    assert_int_equal(fclose(out), 0);
    assert_string_equal(bytes, expected);
    free(bytes);
}

static void test_headings_and_paragraphs(void **state)
{
    (void)state;
    check_html("", "");
    check_html("# One\n\n## Two\n", "<h1>One</h1>\n<h2>Two</h2>\n");
    check_html("a\nb\n\nc", "<p>a\nb</p>\n<p>c</p>\n");
    check_html("a\n# One\nb\n", "<p>a</p>\n<h1>One</h1>\n<p>b</p>\n");
    check_html("#no heading\n", "<p>#no heading</p>\n");
}

static void test_lists_and_what_continues_an_item(void **state)
{
    (void)state;
    check_html("- a\n  more\n- b\n", "<ul><li>a\nmore</li>\n<li>b</li></ul>\n");
    check_html("1. a\n10. b\n", "<ol><li>a</li>\n<li>b</li></ol>\n");
    check_html("- a\n1. b\n", "<ul><li>a</li></ul>\n<ol><li>b</li></ol>\n");
    check_html("- a\nb\n", "<ul><li>a</li></ul>\n<p>b</p>\n");
    check_html("1.5 hours\n", "<p>1.5 hours</p>\n");
}

static void test_tables(void **state)
{
    (void)state;
    check_html("| a | b |\n|---|---|\n| `c` | d |\n\ne\n",
               "<table><thead>\n<tr><th> a </th><th> b </th></tr>\n</thead><tbody>\n"
               "<tr><td> <code>c</code> </td><td> d </td></tr>\n</tbody></table>\n<p>e</p>\n");
    check_html("| a |\n", "<table><thead>\n<tr><th> a </th></tr>\n</thead></table>\n");
}

static void test_code_is_kept_as_it_is(void **state)
{
    (void)state;
    check_html("```sh\na | b\n\n# c [d](e.md) `f`\n```\ng\n",
               "<pre><code>a | b\n\n# c [d](e.md) `f`\n</code></pre>\n<p>g</p>\n");
    check_html("```\nnever closed", "<pre><code>never closed\n</code></pre>\n");
}

static void test_links_lead_to_pages_and_nowhere_else(void **state)
{
    (void)state;
    check_html("see [Other](Other.md).\n", "<p>see <a href=\"/runbooks/Other\">Other</a>.</p>\n");
    check_html("[x](javascript:alert(1).md)\n", "<p>x.md)</p>\n");
    check_html("[x](../../etc/passwd.md)\n", "<p>x</p>\n");
    check_html("[x](.md) [y](\n", "<p>x [y](</p>\n");
    check_html("a [b] c ]( `d\n", "<p>a [b] c ]( `d</p>\n");
}

static void test_markup_is_text(void **state)
{
    (void)state;
    check_html("<b> & \"\n- <i>\n\n```\n<script>\n```\n",
               "<p>&lt;b&gt; &amp; &quot;</p>\n<ul><li>&lt;i&gt;</li></ul>\n"
               "<pre><code>&lt;script&gt;\n</code></pre>\n");
    check_html("# <u>\n`<s>` [<a>](B.md)\n", "<h1>&lt;u&gt;</h1>\n<p><code>&lt;s&gt;</code> <a "
                                             "href=\"/runbooks/B\">&lt;a&gt;</a></p>\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headings_and_paragraphs),
        cmocka_unit_test(test_lists_and_what_continues_an_item),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_code_is_kept_as_it_is),
        cmocka_unit_test(test_links_lead_to_pages_and_nowhere_else),
        cmocka_unit_test(test_markup_is_text),
    };
    return RUN_TESTS(tests);
}
