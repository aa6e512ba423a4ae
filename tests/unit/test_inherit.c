/* SPDX-License-Identifier: Apache-2.0 */
/* What a child may make of its parent's constraints: one row per rule of inherit.h. */
#include "tests/support/unit.h"

#include <string.h>

#include "client/assemble/constraints.h"
#include "lib/base/json.h"

struct row {
    const char *parent, *child;
    const char *merged;  /* NULL: refused ... */
    const char *refused; /* ... with these names */
};

static const struct row rows[] = {
    {"{}", "{}", "{}", NULL},
    {"{\"a\":1}", NULL, "{\"a\":1}", NULL},
    {NULL, "{\"a\":1.10}", "{\"a\":1.10}", NULL},
    /* added, repeated, left out */
    {"{\"a\":1}", "{\"b\":[true,null]}", "{\"a\":1,\"b\":[true,null]}", NULL},
    {"{\"a\":{\"x\":1,\"y\":2}}", "{\"a\":{\"y\":2.0,\"x\":1}}", "{\"a\":{\"x\":1,\"y\":2}}", NULL},
    {"{\"style\":\"s\",\"b\":1}", "{\"b\":1}", "{\"style\":\"s\",\"b\":1}", NULL},
    /* dropped or changed */
    {"{\"a\":1}", "{\"a\":null}", NULL, "a"},
    {"{\"a\":1,\"b\":2}", "{\"b\":3,\"a\":\"1\"}", NULL, "a, b"},
    {"{\"security\":\"no plaintext\"}", "{\"security\":\"\"}", NULL, "security"},
    {"{\"a\":{\"x\":1}}", "{\"a\":[]}", NULL, "a"},
    {"{\"ok\":true}", "{\"ok\":false}", NULL, "ok"},
    /* numbers with a meaning */
    {"{\"max_tokens\":4000}", "{\"max_tokens\":3000}", "{\"max_tokens\":3000}", NULL},
    {"{\"max_tokens\":4000}", "{\"max_tokens\":4001}", NULL, "max_tokens"},
    {"{\"max_tokens\":4000}", "{\"max_tokens\":\"3000\"}", NULL, "max_tokens"},
    {"{\"max_cost\":1.5}", "{\"max_cost\":1.25}", "{\"max_cost\":1.25}", NULL},
    {"{\"max_retries\":3}", "{\"max_retries\":0}", "{\"max_retries\":0}", NULL},
    {"{\"max_retries\":3}", "{\"max_retries\":-1}", NULL, "max_retries"},
    {"{\"max_retries\":0}", "{\"max_retries\":-0.5}", NULL, "max_retries"},
    {"{\"max_celsius\":-10}", "{\"max_celsius\":-20}", "{\"max_celsius\":-20}", NULL},
    {"{\"min_coverage\":0.8}", "{\"min_coverage\":0.9}", "{\"min_coverage\":0.9}", NULL},
    {"{\"min_coverage\":0.8}", "{\"min_coverage\":0.7}", NULL, "min_coverage"},
    {"{\"retries\":3}", "{\"retries\":2}", NULL, "retries"},
    /* deadlines are compared as times, not as texts */
    {"{\"deadline\":\"2026-01-30T00:00:00Z\"}", "{\"deadline\":\"2026-01-29T23:59:59Z\"}",
     "{\"deadline\":\"2026-01-29T23:59:59Z\"}", NULL},
    {"{\"deadline\":\"2026-01-30T00:00:00Z\"}", "{\"deadline\":\"2026-01-30T01:00:00+02:00\"}",
     "{\"deadline\":\"2026-01-30T01:00:00+02:00\"}", NULL},
    {"{\"deadline\":\"2026-01-30T00:00:00Z\"}", "{\"deadline\":\"2026-01-30T00:00:01Z\"}", NULL,
     "deadline"},
    {"{\"deadline\":\"2026-01-30T00:00:00Z\"}", "{\"deadline\":\"soon\"}", NULL, "deadline"},
    /* lists of demands grow, other lists do not */
    {"{\"do_not\":[\"a\",\"b\"]}", "{\"do_not\":[\"c\",\"b\",\"a\"]}",
     "{\"do_not\":[\"c\",\"b\",\"a\"]}", NULL},
    {"{\"do_not\":[\"a\",\"b\"]}", "{\"do_not\":[\"a\",\"c\"]}", NULL, "do_not"},
    {"{\"do_not\":[\"a\"]}", "{\"do_not\":[]}", NULL, "do_not"},
    {"{\"do_not\":[]}", "{\"do_not\":\"nothing\"}", NULL, "do_not"},
    {"{\"languages\":[\"c\"]}", "{\"languages\":[\"c\",\"rust\"]}", NULL, "languages"},
    /* inside objects the same rules hold, and the name is the whole path */
    {"{\"limits\":{\"max_cost\":5,\"a\":1}}", "{\"limits\":{\"max_cost\":4,\"b\":2}}",
     "{\"limits\":{\"max_cost\":4,\"a\":1,\"b\":2}}", NULL},
    {"{\"limits\":{\"max_cost\":5,\"a\":1}}", "{\"limits\":{\"max_cost\":6,\"a\":null}}", NULL,
     "limits.max_cost, limits.a"},
    /* digits and escapes pass through */
    {"{\"n\":123456789012345678901234567890.10,\"s\":\"\\u0001\\n\\\"\"}", "{}",
     "{\"n\":123456789012345678901234567890.10,\"s\":\"\\u0001\\n\\\"\"}", NULL},
};

static yyjson_doc *parse(const char *text)
{
    yyjson_doc *doc = NULL;
    if (text)
        assert_int_equal(base_json_read(base_span_text(text), "test", &doc, NULL), HANDOFF_OK);
    return doc;
}

static void check_row(const struct row *row)
{
    struct base_buffer out = {0};
    struct handoff_error error = {0};
    yyjson_doc *parent = parse(row->parent), *child = parse(row->child);
    enum handoff_code code = handoff_inherit_constraints(&out, yyjson_doc_get_root(parent),
                                                         yyjson_doc_get_root(child), &error);
    if (row->merged) {
        assert_int_equal(code, HANDOFF_OK);
        assert_string_equal(out.data, row->merged);
    } else {
        assert_int_equal(code, HANDOFF_ERR_CONSTRAINT_LOOSENED);
        assert_string_equal(error.field, "constraints");
        assert_string_equal(error.seen, row->refused);
    }
    yyjson_doc_free(parent);
    yyjson_doc_free(child);
    base_buffer_free(&out);
}

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_row(&rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules)};
    return RUN_TESTS(tests);
}
