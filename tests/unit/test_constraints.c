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
    {"{\"a\":1,\"b\":2}", "{\"b\":3,\"a\":\"1\"}", NULL, "b, a"},
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
    {"{\"max_retries\":-0.5}", "{\"max_retries\":-1}", NULL, "max_retries"},
    {"{\"max_retries\":-1}", "{\"max_retries\":3}", NULL, "max_retries"},
    {"{\"max_retries\":-1}", "{\"max_retries\":-1.0}", "{\"max_retries\":-1}", NULL},
    {"{\"max_cost\":0}", "{\"max_cost\":-0.0}", "{\"max_cost\":0}", NULL},
    {"{\"max_cost\":1e400}", "{\"max_cost\":1}", NULL, "max_cost"},
    {"{\"max_cost\":9007199254740993}", "{\"max_cost\":9007199254740992}",
     "{\"max_cost\":9007199254740992}", NULL},
    {"{\"max_cost\":9007199254740992}", "{\"max_cost\":9007199254740993}", NULL, "max_cost"},
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
    /* what is null at first is absent, so that a later hop can name it */
    {"{\"style\":null,\"a\":1}", "{}", "{\"a\":1}", NULL},
    {"{\"style\":null}", "{\"style\":\"plain\"}", "{\"style\":\"plain\"}", NULL},
    {"{\"limits\":{\"deadline\":null,\"in\":{\"x\":null}}}",
     "{\"limits\":{\"deadline\":\"2026-01-30T00:00:00Z\"}}",
     "{\"limits\":{\"in\":{},\"deadline\":\"2026-01-30T00:00:00Z\"}}", NULL},
    {"{\"limits\":{\"in\":{\"x\":null,\"y\":1}}}", "{}", "{\"limits\":{\"in\":{\"y\":1}}}", NULL},
    {"{\"a\":{\"x\":1}}", "{\"a\":{\"y\":null},\"b\":null}", "{\"a\":{\"x\":1}}", NULL},
    {"{\"list\":[{\"x\":null}]}", "{}", "{\"list\":[{\"x\":null}]}", NULL},
    /* digits and escapes pass through */
    {"{\"n\":123456789012345678901234567890.10,\"s\":\"\\u0001\\n\\\"\"}", "{}",
     "{\"n\":123456789012345678901234567890.10,\"s\":\"\\u0001\\n\\\"\"}", NULL},
};

static struct base_arena arena;

static int free_arena(void **state)
{
    (void)state;
    base_arena_free(&arena);
    return 0;
}

static yyjson_val *parse(const char *text)
{
    yyjson_doc *doc = NULL;
    if (!text)
        return NULL;
    assert_int_equal(base_json_read_in(&arena, base_span_text(text), "test", &doc, NULL),
                     HANDOFF_OK);
    return yyjson_doc_get_root(doc);
}

/* What they become; refused->names where that is not possible. */
static const char *join(const char *inherited, const char *added, unsigned how,
                        struct handoff_join_refusal *refusal)
{
    struct base_buffer out = {.arena = &arena};
    struct handoff_joined *joined = handoff_joined_begin(&arena);
    assert_true(handoff_joined_add(joined, parse(inherited), HANDOFF_JOIN_CHILD, refusal));
    assert_true(handoff_joined_add(joined, parse(added), how, refusal));
    handoff_joined_write(&out, joined);
    return out.data;
}

static void check_row(const struct row *row)
{
    struct handoff_join_refusal refusal;
    const char *joined = join(row->parent, row->child, HANDOFF_JOIN_CHILD, &refusal);
    if (row->merged) {
        assert_int_equal(refusal.count, 0);
        assert_string_equal(joined, row->merged);
    } else {
        assert_true(refusal.count > 0);
        assert_string_equal(refusal.names.data, row->refused);
    }
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
        struct handoff_join_refusal refusal;
        const char *joined =
            join(siblings[i].parent, siblings[i].child, HANDOFF_JOIN_SIBLING, &refusal);
        assert_int_equal(refusal.count, siblings[i].refused ? 1 : 0);
        if (siblings[i].refused)
            assert_string_equal(refusal.names.data, siblings[i].refused);
        else
            assert_string_equal(joined, siblings[i].merged);
    }
}

/* Ever the same rules, however many hops: what was joined is joined on. */
static void test_many_hops(void **state)
{
    (void)state;
    static const char *const hops[] = {
        "{\"must\":[\"a\"],\"limits\":{\"max_cost\":9,\"rules\":[1]}}",
        "{\"must\":[\"b\",\"a\"],\"limits\":{\"max_cost\":7}}",
        "{\"style\":\"plain\",\"limits\":{\"rules\":[2],\"zone\":{\"a\":1}}}",
        "{\"must\":[\" c \"],\"limits\":{\"max_cost\":7.0,\"zone\":{\"b\":2}}}"};
    struct base_buffer out = {.arena = &arena};
    struct handoff_join_refusal refusal;
    struct handoff_joined *joined = handoff_joined_begin(&arena);
    for (size_t i = 0; i < sizeof hops / sizeof *hops; i++)
        assert_true(handoff_joined_add(joined, parse(hops[i]), HANDOFF_JOIN_CHILD, &refusal));
    handoff_joined_write(&out, joined);
    assert_string_equal(out.data,
                        "{\"must\":[\"a\",\"b\",\" c \"],\"limits\":{\"max_cost\":7,\"rules\":"
                        "[1,2],\"zone\":{\"a\":1,\"b\":2}},\"style\":\"plain\"}");
    assert_true(handoff_joined_add(joined, parse("{\"must\":\"x\",\"limits\":{\"zone\":1}}"),
                                   HANDOFF_JOIN_CHILD, &refusal));
    assert_string_equal(refusal.names.data, "must, limits.zone");
}

/* Each of n hops adds one demand and one name: no hop copies those of the others. */
static void test_what_is_joined_is_not_copied_for_each_hop(void **state)
{
    (void)state;
    size_t held[2];
    for (int twice = 0; twice < 2; twice++) {
        struct handoff_join_refusal refusal;
        struct handoff_joined *joined = handoff_joined_begin(&arena);
        for (int hop = 0; hop < 4000 << twice; hop++)
            assert_true(handoff_joined_add(
                joined,
                parse(
                    base_arena_printf(&arena, "{\"rules\":[\"rule %d\"],\"name-%d\":1}", hop, hop)),
                HANDOFF_JOIN_CHILD, &refusal));
        held[twice] = arena.held;
        base_arena_free(&arena);
    }
    assert_true(held[1] < 3 * held[0]);
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
        {NULL, "{\"deadlines_\":1}", "constraints.deadlines_", "deadline"},
        {NULL, "{\"Must-Nots-_\":1}", "constraints.Must-Nots-_", "must_not"},
        {NULL, "{\"DEADLINE\":1}", "constraints.DEADLINE", "deadline"},
        {NULL, "{\"must-not\":[]}", "constraints.must-not", "must_not"},
        {NULL, "{\"deadlne\":1}", "constraints.deadlne", "deadline"},
        {NULL, "{\"max_tokns\":5}", "constraints.max_tokns", "max_tokens"},
        {NULL, "{\"guardrials\":[]}", "constraints.guardrials", "guardrails"},
        {NULL, "{\"headline\":\"at most 60 letters\"}", NULL, NULL},
        {"{\"deadlne\":1}", "{\"deadlne\":1}", NULL, NULL},
        {NULL, "{\"guardrail\":[]}", "constraints.guardrail", "guardrails"},
        {NULL, "{\"max_tokens\":5,\"deadline\":1,\"dead_line_s\":1}", "constraints.dead_line_s",
         "deadline"},
        {"{\"cost_limit\":1}", "{\"costLimits\":1}", "constraints.costLimits", "cost_limit"},
        {"{\"a\":{\"colour\":1}}", "{\"a\":{\"Colour\":1}}", "constraints.Colour", "colour"},
        /* of one request */
        {NULL, "{\"cost_limit\":1,\"a\":2,\"Cost-Limits\":3}", "constraints.Cost-Limits",
         "cost_limit"},
        {NULL, "{\"a\":{\"style\":1,\"Style\":1}}", "constraints.Style", "style"},
        {NULL, "{\"Max-Cost\":1,\"max_cost\":1}", "constraints.max_cost", "Max-Cost"},
        /* inside an object */
        {NULL, "{\"a\":{\"b\":{\"Must-Not\":[]}}}", "constraints.Must-Not", "must_not"},
        {NULL, "{\"a\":{\"Deadlines\":1}}", "constraints.Deadlines", "deadline"},
        {"{\"a\":{\"b\":{\"colour\":1}}}", "{\"a\":{\"b\":{\"colours\":1}}}", "constraints.colours",
         "colour"},
        {NULL, "{\"a\":{\"style\":1},\"b\":{\"Style\":1},\"styles\":{\"c\":1}}", NULL, NULL},
        {"{\"a\":1}", "{\"a\":{\"rules\":[1]}}", NULL, NULL},
        {"{\"Max-Tokens\":5}", "{\"max_tokens\":5}", NULL, NULL},
        {NULL, "{\"max_tokens\":5}", NULL, NULL},
        {NULL, "{\"max_token_cost\":5,\"line\":1,\"musty\":1,\"s\":1,\"_\":1}", NULL, NULL},
        {NULL, "{\"s_\":1,\"_\":1,\"deadlines_x\":1}", NULL, NULL},
        {NULL, "{\"s\":1,\"_s_\":1}", "constraints._s_", "s"},
        {NULL, "{\"model\":{\"maxTokens\":5}}", NULL, NULL},
        {"{\"style\":1}", "{\"style\":1}", NULL, NULL},
        {"{\"style\":1,\"Style\":2}", "{\"Style\":2}", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        struct handoff_error error = {0};
        enum handoff_code code = handoff_check_spelling(&arena, parse(spellings[i].constraints),
                                                        parse(spellings[i].inherited), &error);
        assert_int_equal(code, spellings[i].field ? HANDOFF_ERR_INVALID : HANDOFF_OK);
        if (spellings[i].field) {
            assert_string_equal(error.field, spellings[i].field);
            assert_ptr_equal(strstr(error.allowed, spellings[i].known), error.allowed);
        }
    }
}

static void test_a_value_is_found_by_its_path(void **state)
{
    (void)state;
    yyjson_val *root = parse("{\"a\":{\"b\":1,\"b.c\":2},\"a.b\":3,\"x\":[]}");
    static const struct {
        const char *path;
        int64_t value; /* 0: none */
    } paths[] = {{"a.b", 1}, {"a.b.c", 2}, {"a.c", 0}, {"x.y", 0}, {"", 0}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int64_t value = 0;
        base_json_whole(handoff_constraint_at(root, base_span_text(paths[i].path)), &value);
        assert_int_equal(value, paths[i].value);
    }
}

int main(void)
{
#define JOINING(test) cmocka_unit_test_teardown(test, free_arena)
    const struct CMUnitTest tests[] = {
        JOINING(test_many_hops),
        JOINING(test_what_is_joined_is_not_copied_for_each_hop),
        JOINING(test_a_request_adds_and_tightens),
        JOINING(test_siblings_keep_the_tighter_value),
        JOINING(test_a_key_that_only_looks_like_another_is_refused),
        JOINING(test_a_value_is_found_by_its_path),
    };
    return RUN_TESTS(tests);
}
