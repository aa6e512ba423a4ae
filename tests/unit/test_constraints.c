/* SPDX-License-Identifier: Apache-2.0 */
/* How constraints accumulate: one row for each rule of constraints.h. */
#include "tests/support/unit.h"

#include <string.h>

#include "client/ledger/constraints.h"
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
    {"{\"max_cost\":4000}", "{\"max_cost\":4001}", NULL, "max_cost"},
    {"{\"max_cost\":4000}", "{\"max_cost\":\"3000\"}", NULL, "max_cost"},
    /* a budget is no promise, but only the one at the top is that budget */
    {"{\"max_tokens\":4000}", "{\"max_tokens\":4001}", "{\"max_tokens\":4001}", NULL},
    {"{\"max_tokens\":4000}", "{\"max_tokens\":null}", NULL, "max_tokens"},
    {"{\"model\":{\"max_tokens\":4000}}", "{\"model\":{\"max_tokens\":4001}}", NULL,
     "model.max_tokens"},
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
    /* lists of demands are united, other lists are not */
    {"{\"do_not\":[\"a\",\"b\"]}", "{\"do_not\":[\"c\",\"b\",\"a\"]}",
     "{\"do_not\":[\"a\",\"b\",\"c\"]}", NULL},
    {"{\"do_not\":[\"a\",\"b\"]}", "{\"do_not\":[\"a\",\"c\"]}", "{\"do_not\":[\"a\",\"b\",\"c\"]}",
     NULL},
    {"{\"do_not\":[\"a\"]}", "{\"do_not\":[]}", "{\"do_not\":[\"a\"]}", NULL},
    {"{\"do_not\":[\"a\"]}", "{\"do_not\":[\" a \"]}", "{\"do_not\":[\"a\"]}", NULL},
    {"{\"a\":{\"rules\":[1]}}", "{\"a\":{\"rules\":[2]}}", "{\"a\":{\"rules\":[1,2]}}", NULL},
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

/* What they become; refused->names where that is not possible. */
static void join(const char *inherited, const char *added, unsigned how, struct base_buffer *out,
                 struct handoff_join_refusal *refusal)
{
    yyjson_doc *one = parse(inherited), *other = parse(added);
    handoff_join_constraints(out, yyjson_doc_get_root(one), yyjson_doc_get_root(other), how,
                             refusal);
    assert_false(out->failed);
    yyjson_doc_free(one);
    yyjson_doc_free(other);
}

static void check_row(const struct row *row)
{
    struct base_buffer out = {0};
    struct handoff_join_refusal refusal;
    join(row->parent, row->child, HANDOFF_JOIN_CHILD, &out, &refusal);
    if (row->merged) {
        assert_int_equal(refusal.count, 0);
        assert_string_equal(out.data, row->merged);
    } else {
        assert_true(refusal.count > 0);
        assert_string_equal(refusal.names.data, row->refused);
    }
    handoff_join_refusal_free(&refusal);
    base_buffer_free(&out);
}

static void test_a_request_adds_and_tightens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_row(&rows[i]);
}

/* Neither inherits from the other, so the tighter value holds, in whichever order they come. */
static void test_siblings_keep_the_tighter_value(void **state)
{
    (void)state;
    static const struct row siblings[] = {
        {"{\"max_cost\":4}", "{\"max_cost\":5}", "{\"max_cost\":4}", NULL},
        {"{\"max_cost\":5}", "{\"max_cost\":4}", "{\"max_cost\":4}", NULL},
        {"{\"min_tests\":4}", "{\"min_tests\":3}", "{\"min_tests\":4}", NULL},
        {"{\"deadline\":\"2026-01-01T00:00:00Z\"}", "{\"deadline\":\"2027-01-01T00:00:00Z\"}",
         "{\"deadline\":\"2026-01-01T00:00:00Z\"}", NULL},
        {"{\"must\":[1]}", "{\"must\":[2]}", "{\"must\":[1,2]}", NULL},
        {"{\"max_tokens\":1}", "{\"max_tokens\":2}", "{\"max_tokens\":2}", NULL},
        {"{\"style\":\"a\",\"x\":1}", "{\"style\":\"b\"}", NULL, "style"},
    };
    for (size_t i = 0; i < sizeof siblings / sizeof *siblings; i++) {
        struct base_buffer out = {0};
        struct handoff_join_refusal refusal;
        join(siblings[i].parent, siblings[i].child, HANDOFF_JOIN_SIBLING, &out, &refusal);
        assert_int_equal(refusal.count, siblings[i].refused ? 1 : 0);
        if (siblings[i].refused)
            assert_string_equal(refusal.names.data, siblings[i].refused);
        else
            assert_string_equal(out.data, siblings[i].merged);
        handoff_join_refusal_free(&refusal);
        base_buffer_free(&out);
    }
}

static void test_a_key_that_only_looks_like_another_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *inherited, *constraints;
        const char *field, *known; /* NULL: it is accepted */
    } spellings[] = {
        {NULL, "{\"Max-Tokens\":5}", "constraints.Max-Tokens", "max_tokens"},
        {NULL, "{\"maxTokens\":5}", "constraints.maxTokens", "max_tokens"},
        {NULL, "{\"deadlines\":[]}", "constraints.deadlines", "deadline"},
        {NULL, "{\"DEADLINE\":1}", "constraints.DEADLINE", "deadline"},
        {NULL, "{\"must-not\":[]}", "constraints.must-not", "must_not"},
        {NULL, "{\"guardrail\":[]}", "constraints.guardrail", "guardrails"},
        {NULL, "{\"max_tokens\":5,\"deadline\":1,\"dead_line_s\":1}", "constraints.dead_line_s",
         "deadline"},
        {"{\"cost_limit\":1}", "{\"costLimits\":1}", "constraints.costLimits", "cost_limit"},
        {"{\"a\":{\"colour\":1}}", "{\"a\":{\"Colour\":1}}", "constraints.Colour", "colour"},
        {NULL, "{\"max_tokens\":5}", NULL, NULL},
        {NULL, "{\"max_token_cost\":5,\"line\":1,\"musty\":1,\"s\":1,\"_\":1}", NULL, NULL},
        {NULL, "{\"model\":{\"maxTokens\":5}}", NULL, NULL},
        {"{\"style\":1}", "{\"style\":1}", NULL, NULL},
        {"{\"style\":1,\"Style\":2}", "{\"Style\":2}", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        struct handoff_error error = {0};
        yyjson_doc *inherited = parse(spellings[i].inherited);
        yyjson_doc *constraints = parse(spellings[i].constraints);
        enum handoff_code code = handoff_check_spelling(yyjson_doc_get_root(constraints),
                                                        yyjson_doc_get_root(inherited), &error);
        assert_int_equal(code, spellings[i].field ? HANDOFF_ERR_INVALID : HANDOFF_OK);
        if (spellings[i].field) {
            assert_string_equal(error.field, spellings[i].field);
            assert_ptr_equal(strstr(error.allowed, spellings[i].known), error.allowed);
        }
        yyjson_doc_free(inherited);
        yyjson_doc_free(constraints);
    }
}

static void test_a_value_is_found_by_its_path(void **state)
{
    (void)state;
    yyjson_doc *doc = parse("{\"a\":{\"b\":1,\"b.c\":2},\"a.b\":3,\"x\":[]}");
    static const struct {
        const char *path;
        int64_t value; /* 0: none */
    } paths[] = {{"a.b", 1}, {"a.b.c", 2}, {"a.c", 0}, {"x.y", 0}, {"", 0}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int64_t value = 0;
        base_json_whole(
            handoff_constraint_at(yyjson_doc_get_root(doc), base_span_text(paths[i].path)), &value);
        assert_int_equal(value, paths[i].value);
    }
    yyjson_doc_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_adds_and_tightens),
        cmocka_unit_test(test_siblings_keep_the_tighter_value),
        cmocka_unit_test(test_a_key_that_only_looks_like_another_is_refused),
        cmocka_unit_test(test_a_value_is_found_by_its_path),
    };
    return RUN_TESTS(tests);
}
