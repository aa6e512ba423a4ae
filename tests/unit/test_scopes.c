/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of scopes: what they are read from, what they see, and what a chain makes of them. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "client/assemble/inherit_scopes.h"
#include "client/spine/scopes.h"
#include "tests/support/failing_memory.h"

static struct base_arena arena;
static struct handoff_error error;
static yyjson_doc *doc;

static int clear(void **state)
{
    (void)state;
    base_arena_free(&arena);
    yyjson_doc_free(doc);
    doc = NULL;
    return 0;
}

static struct handoff_scopes scopes(const char *text)
{
    struct handoff_scopes made;
    assert_int_equal(handoff_scopes_of_text(text, "scope", &arena, &made, &error), HANDOFF_OK);
    return made;
}

/* "(all)", or the names with commas. */
static const char *print(const struct handoff_scopes *set)
{
    static char text[512];
    text[0] = '\0';
    for (size_t i = 0; i < set->count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s", i ? "," : "",
                 (int)set->names[i].size, set->names[i].data);
    return set->all ? "(all)" : text;
}

static enum handoff_code read_json(const char *json, struct handoff_scopes *set)
{
    yyjson_doc_free(doc);
    doc = yyjson_read(json, strlen(json), 0);
    assert_non_null(doc);
    return handoff_scopes_of_json(yyjson_doc_get_root(doc), "scope", &arena, set, &error);
}

/* ---- reading -------------------------------------------------------------------------------- */

static void test_text_is_a_sorted_set(void **state)
{
    static const char *const cases[][2] = {
        {NULL, "(all)"},
        {"", ""},
        {"user:alice", "user:alice"},
        {"b,a,b,aa", "a,aa,b"},
        {"A,a/@-_.:", "A,a/@-_.:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct handoff_scopes set = scopes(cases[i][0]);
        assert_string_equal(print(&set), cases[i][1]);
    }
}

static void test_what_is_no_scope_is_refused(void **state)
{
    static const char *const bad[] = {",", "a,", ",a", "a b", "a,b\n", "\xc3\xa4", "a=b", "*"};
    char name[HANDOFF_SCOPE_MAX + 2];
    struct handoff_scopes set;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(handoff_scopes_of_text(bad[i], "scope", &arena, &set, &error),
                         HANDOFF_ERR_INVALID);
        assert_string_equal(error.field, "scope");
        assert_string_equal(error.allowed, HANDOFF_SCOPE_ALLOWED);
    }
    memset(name, 'n', sizeof name);
    assert_true(handoff_scope_is_valid(name, HANDOFF_SCOPE_MAX));
    assert_false(handoff_scope_is_valid(name, HANDOFF_SCOPE_MAX + 1));
    assert_false(handoff_scope_is_valid("a\0b", 3));
    assert_int_equal(
        handoff_scopes_of_text("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "scope", &arena, &set, &error),
        HANDOFF_ERR_INVALID);
    assert_string_equal(error.seen, "17");
    assert_string_equal(error.allowed, "up to 16");
}

static void test_json_is_a_name_or_a_list(void **state)
{
    static const char *const good[][2] = {
        {"\"\"", ""}, {"[]", ""}, {"\"team:red\"", "team:red"}, {"[\"b\",\"a\",\"b\"]", "a,b"}};
    static const char *const bad[] = {"1", "{}", "[1]", "[\"\"]", "\"a b\"", "[[\"a\"]]", "true"};
    struct handoff_scopes set;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(read_json(good[i][0], &set), HANDOFF_OK);
        assert_string_equal(print(&set), good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(read_json(bad[i], &set), HANDOFF_ERR_INVALID);
    assert_int_equal(handoff_scopes_of_json(NULL, "scope", &arena, &set, &error), HANDOFF_OK);
    assert_string_equal(print(&set), "");
}

static void test_without_memory(void **state)
{
    struct handoff_scopes set;
    enum handoff_code code;
    long n = 1;
    (void)state;
    do {
        base_arena_free(&arena);
        base_arena_init(&arena, 16);
        failing_memory_at(n++);
        code = handoff_scopes_of_text("user:alice,user:bob", "scope", &arena, &set, &error);
        failing_memory_at(0);
    } while (code == HANDOFF_ERR_OUT_OF_MEMORY);
    assert_int_equal(code, HANDOFF_OK);
    assert_true(n > 2);
}

/* ---- seeing and storing --------------------------------------------------------------------- */

static void test_who_sees_and_stores_what(void **state)
{
    static const struct {
        const char *scopes, *memory;
        bool sees, stores;
    } cases[] = {
        {NULL, "", true, true},   {NULL, "a", true, true},    {"", "", true, true},
        {"", "a", false, false},  {"a,b", "", true, false},   {"a,b", "a", true, true},
        {"a,b", "b", true, true}, {"a,b", "c", false, false}, {"ab", "a", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct handoff_scopes set = scopes(cases[i].scopes);
        struct base_span memory = base_span_text(cases[i].memory);
        assert_int_equal(handoff_scopes_see(&set, memory), cases[i].sees);
        assert_int_equal(handoff_scopes_may_store(&set, memory), cases[i].stores);
    }
}

static void test_allowed_scopes_are_shown_as_far_as_there_is_room(void **state)
{
    char text[400];
    (void)state;
    struct handoff_scopes set = scopes("b,a");
    handoff_scopes_allow(&set, &error);
    assert_string_equal(error.allowed, "a, b");
    set = scopes("");
    handoff_scopes_allow(&set, &error);
    assert_string_equal(error.allowed, "only shared memories");
    memset(text, 'x', sizeof text);
    text[100] = text[201] = text[302] = ',';
    text[399] = '\0';
    set = scopes(text);
    handoff_scopes_allow(&set, &error);
    assert_non_null(strstr(error.allowed, "xxx..."));
}

/* ---- inheriting ------------------------------------------------------------------------------ */

struct rule {
    const char *asked;      /* NULL: the request has no scope */
    const char *parents[3]; /* up to NULL */
    const char *bound;      /* NULL: not bound */
    enum handoff_code code;
    const char *result; /* or what was seen */
};

static void assert_rule(const struct rule *rule)
{
    struct handoff_scopes asked, parents[3], result;
    const struct handoff_scopes bound = scopes(rule->bound);
    size_t nparents = 0;
    if (rule->asked)
        asked = scopes(rule->asked);
    for (; nparents < 3 && rule->parents[nparents]; nparents++)
        parents[nparents] = scopes(rule->parents[nparents]);
    enum handoff_code code = handoff_inherit_scopes(rule->asked ? &asked : NULL, parents, nparents,
                                                    &bound, &arena, &result, &error);
    assert_int_equal(code, rule->code);
    assert_string_equal(code == HANDOFF_OK ? print(&result) : error.seen, rule->result);
}

static void test_a_chain_begins(void **state)
{
    static const struct rule rules[] = {
        {NULL, {NULL}, NULL, HANDOFF_OK, ""},
        {"a,b", {NULL}, NULL, HANDOFF_OK, "a,b"},
        {"", {NULL}, NULL, HANDOFF_OK, ""},
        {NULL, {NULL}, "a,b", HANDOFF_OK, "a,b"},
        {"a", {NULL}, "a,b", HANDOFF_OK, "a"},
        {"", {NULL}, "a,b", HANDOFF_OK, ""},
        {"a,c", {NULL}, "a,b", HANDOFF_ERR_FORBIDDEN, "c"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        assert_rule(&rules[i]);
}

static void test_no_hop_widens(void **state)
{
    static const struct rule rules[] = {
        {NULL, {"a,b"}, NULL, HANDOFF_OK, "a,b"},
        {NULL, {""}, NULL, HANDOFF_OK, ""},
        {"a", {"a,b"}, NULL, HANDOFF_OK, "a"},
        {"", {"a,b"}, NULL, HANDOFF_OK, ""},
        {"a,b", {"a,b"}, NULL, HANDOFF_OK, "a,b"},
        {"a,c", {"a,b"}, NULL, HANDOFF_ERR_SCOPE_WIDENED, "c"},
        {"a", {""}, NULL, HANDOFF_ERR_SCOPE_WIDENED, "a"},
        /* not by a token either */
        {NULL, {""}, "a", HANDOFF_OK, ""},
        {NULL, {"a,b"}, "b,c", HANDOFF_OK, "b"},
        {NULL, {"a"}, "c", HANDOFF_OK, ""},
        {"b", {"a,b"}, "b,c", HANDOFF_OK, "b"},
        {"c", {"a,b"}, "b,c", HANDOFF_ERR_SCOPE_WIDENED, "c"},
        {"a", {"a,b"}, "b,c", HANDOFF_ERR_FORBIDDEN, "a"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        assert_rule(&rules[i]);
}

static void test_a_fan_in_has_one_set_of_scopes(void **state)
{
    static const struct rule rules[] = {
        {NULL, {"a,b", "b,a", "a,b"}, NULL, HANDOFF_OK, "a,b"},
        {NULL, {"", ""}, NULL, HANDOFF_OK, ""},
        {"a", {"a,b", "a,b"}, NULL, HANDOFF_OK, "a"},
        {NULL, {"a", "a,b"}, NULL, HANDOFF_ERR_SCOPE_CONFLICT, ""},
        {NULL, {"a", "a", ""}, NULL, HANDOFF_ERR_SCOPE_CONFLICT, ""},
        {"a", {"a", "b"}, NULL, HANDOFF_ERR_SCOPE_CONFLICT, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        assert_rule(&rules[i]);
    assert_string_equal(error.field, "previous_id");
}

#define WITH_ARENA(test) cmocka_unit_test_teardown(test, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(test_text_is_a_sorted_set),
        WITH_ARENA(test_what_is_no_scope_is_refused),
        WITH_ARENA(test_json_is_a_name_or_a_list),
        WITH_ARENA(test_without_memory),
        WITH_ARENA(test_who_sees_and_stores_what),
        WITH_ARENA(test_allowed_scopes_are_shown_as_far_as_there_is_room),
        WITH_ARENA(test_a_chain_begins),
        WITH_ARENA(test_no_hop_widens),
        WITH_ARENA(test_a_fan_in_has_one_set_of_scopes),
    };
    return RUN_TESTS(tests);
}
