/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes in the embedded spine: what each caller finds, lists, stores, pins and removes. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/spine/embedded/place.h"
#include "client/store/sqlite/database.h"
#include "tests/support/temp_spine.h"

static struct temp_spine temp;

static struct base_span span(const char *text)
{
    return base_span_text(text);
}

/* Of names with commas; NULL is everything. */
static struct handoff_scopes scopes(const char *text)
{
    struct handoff_scopes set;
    assert_int_equal(handoff_scopes_of_text(text, "scope", &temp.arena, &set, &temp.error),
                     HANDOFF_OK);
    return set;
}

static int set_up(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, (struct handoff_memory_limits){0});
    return 0;
}

static int tear_down(void **state)
{
    struct handoff_store_report report;
    (void)state;
    handoff_spine_close(&temp.spine);
    handoff_store_close(&temp.store);
    assert_int_equal(handoff_store_check(temp.directory, &report, &temp.error), HANDOFF_OK);
    assert_string_equal(report.problem, "");
    temp_spine_close(&temp);
    return 0;
}

/* bound, scope and task may be NULL. */
static enum handoff_code put(const char *bound, const char *id, const char *scope, const char *task)
{
    char text[64];
    (void)snprintf(text, sizeof text, "the bank retries %s", id); /* no two are the same */
    struct handoff_spine_put call = {.memory = {.id = span(id), .content = span(text)},
                                     .scopes = scopes(bound),
                                     .scope = base_span_text(scope),
                                     .task_id = base_span_text(task)};
    enum handoff_code code = temp_put_call(&temp, &call);
    if (code == HANDOFF_OK && scope)
        assert_true(base_span_equal(call.memory.scope, span(scope)));
    return code;
}

static enum handoff_code pin(const char *bound, const char *id, bool pinned)
{
    struct handoff_spine_pin call = {.id = span(id), .scopes = scopes(bound), .pinned = pinned};
    return TEMP_SPINE_CALL(&temp, handoff_spine_pin, &call);
}

static enum handoff_code forget(const char *bound, const char *id)
{
    struct handoff_spine_remove call = {.id = span(id), .scopes = scopes(bound)};
    return TEMP_SPINE_CALL(&temp, handoff_spine_remove, &call);
}

static char found_ids[512];

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The ids, sorted, with a blank between. */
static const char *join_ids(char **ids, size_t count)
{
    found_ids[0] = '\0';
    qsort(ids, count, sizeof *ids, compare_ids);
    for (size_t i = 0; i < count; i++)
        snprintf(found_ids + strlen(found_ids), sizeof found_ids - strlen(found_ids), "%s%s",
                 i ? " " : "", ids[i]);
    return found_ids;
}

static const char *resolve(struct handoff_spine_resolve *call)
{
    char *ids[64];
    call->arena = &temp.arena;
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, call), HANDOFF_OK);
    for (size_t i = 0; i < call->found_count; i++)
        ids[i] = base_arena_copy(&temp.arena, call->found[i].memory.id.data,
                                 call->found[i].memory.id.size);
    return join_ids(ids, call->found_count);
}

static const char *list(const char *names, bool pinned_only)
{
    struct handoff_spine_list call = {
        .arena = &temp.arena, .limit = 3, .scopes = scopes(names), .pinned_only = pinned_only};
    char *ids[64];
    size_t count = 0;
    do {
        assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_list, &call), HANDOFF_OK);
        for (size_t i = 0; i < call.count; i++)
            ids[count++] =
                base_arena_copy(&temp.arena, call.memories[i].id.data, call.memories[i].id.size);
        call.cursor = call.next;
    } while (call.next.data);
    return join_ids(ids, count);
}

/* Two in each of a, b, and shared; the first of each is pinned. */
static void fill(void)
{
    static const char *const names[] = {"a", "", "b"};
    for (int i = 0; i < 6; i++) {
        char id[16];
        snprintf(id, sizeof id, "%s%d", *names[i % 3] ? names[i % 3] : "s", i / 3);
        assert_int_equal(put(NULL, id, names[i % 3], NULL), HANDOFF_OK);
        if (i < 3)
            assert_int_equal(pin(NULL, id, true), HANDOFF_OK);
    }
}

/* ---- finding --------------------------------------------------------------------------------- */

static const struct visible {
    const char *scopes, *all, *pinned;
} visible[] = {
    {"", "s0 s1", "s0"},           {"a", "a0 a1 s0 s1", "a0 s0"},
    {"b", "b0 b1 s0 s1", "b0 s0"}, {"a,b", "a0 a1 b0 b1 s0 s1", "a0 b0 s0"},
    {"c", "s0 s1", "s0"},          {"a,c", "a0 a1 s0 s1", "a0 s0"},
};

#define EACH(cases) (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)

static void test_ids_resolve_in_visible_scopes_alone(void **state)
{
    struct base_span ids[] = {span("a0"), span("a1"), span("b0"),  span("b1"),
                              span("s0"), span("s1"), span("none")};
    (void)state;
    fill();
    for
        EACH(visible)
        {
            struct handoff_spine_resolve call = {
                .scopes = scopes(visible[i].scopes), .ids = ids, .id_count = 7};
            assert_string_equal(resolve(&call), visible[i].all);
            assert_int_equal(call.found_count + call.missing_count, 7);
        }
    struct handoff_spine_resolve call = {.scopes = scopes(NULL), .ids = ids, .id_count = 7};
    assert_string_equal(resolve(&call), "a0 a1 b0 b1 s0 s1");
}

static void test_pins_are_those_of_visible_scopes(void **state)
{
    (void)state;
    fill();
    for
        EACH(visible)
        {
            struct handoff_spine_resolve call = {.scopes = scopes(visible[i].scopes), .pins = true};
            assert_string_equal(resolve(&call), visible[i].pinned);
        }
}

/* A caller that sees no pin must not hide those of others. */
static void test_a_pin_of_another_scope_is_not_forgotten(void **state)
{
    (void)state;
    assert_int_equal(put(NULL, "a0", "a", NULL), HANDOFF_OK);
    assert_int_equal(pin(NULL, "a0", true), HANDOFF_OK);
    /* as after a start: it is unknown whether there are pins */
    char *directory = temp.directory;
    temp_spine_end_at(&temp);
    temp_spine_open_at(&temp, directory);
    temp.directory = directory;
    struct handoff_spine_resolve other = {.scopes = scopes("b"), .pins = true};
    assert_string_equal(resolve(&other), "");
    struct handoff_spine_resolve own = {.scopes = scopes("a"), .pins = true};
    assert_string_equal(resolve(&own), "a0");
}

static void test_what_is_found_is_visible(void **state)
{
    (void)state;
    fill();
    for
        EACH(visible)
        {
            struct handoff_spine_resolve newest = {.scopes = scopes(visible[i].scopes),
                                                   .recent = 20};
            assert_string_equal(resolve(&newest), visible[i].all);
            struct handoff_spine_resolve search = {
                .scopes = scopes(visible[i].scopes), .recent = 20, .query = span("bank")};
            assert_string_equal(resolve(&search), visible[i].all);
            for (size_t k = 0; k < search.found_count; k++)
                assert_true(search.found[k].relevance > 0);
        }
}

static void test_lists_have_what_is_visible(void **state)
{
    (void)state;
    fill();
    for
        EACH(visible)
        {
            assert_string_equal(list(visible[i].scopes, false), visible[i].all);
            assert_string_equal(list(visible[i].scopes, true), visible[i].pinned);
        }
    assert_string_equal(list(NULL, false), "a0 a1 b0 b1 s0 s1");
    assert_string_equal(list(NULL, true), "a0 b0 s0");
}

/* The newest first, whatever their scopes. */
static void test_a_list_is_in_the_order_of_recency(void **state)
{
    static const char *const expected[] = {"b1", "s1", "a1", "b0", "s0", "a0"};
    static const char *const callers[] = {NULL, "a,b"};
    (void)state;
    fill();
    for
        EACH(callers)
        {
            struct handoff_spine_list call = {
                .arena = &temp.arena, .limit = 10, .scopes = scopes(callers[i])};
            assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_list, &call), HANDOFF_OK);
            assert_int_equal(call.count, 6);
            for (size_t k = 0; k < call.count; k++)
                assert_true(base_span_equal(call.memories[k].id, span(expected[k])));
        }
}

/* How many others have a word changes neither what is relevant nor how much. */
static void test_others_do_not_change_the_ranking(void **state)
{
    double before[2];
    (void)state;
    struct handoff_spine_put rare = {
        .memory = {.id = span("rare"), .content = span("zebra crossing of the bank")},
        .scopes = scopes(NULL),
        .scope = span("a")};
    assert_int_equal(temp_put_call(&temp, &rare), HANDOFF_OK);
    assert_int_equal(put(NULL, "common", "a", NULL), HANDOFF_OK);
    for (int round = 0; round < 2; round++) {
        struct handoff_spine_resolve call = {.arena = &temp.arena,
                                             .scopes = scopes("a"),
                                             .ids =
                                                 (struct base_span[]){span("rare"), span("common")},
                                             .id_count = 2,
                                             .query = span("zebra bank")};
        assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &call), HANDOFF_OK);
        assert_int_equal(call.found_count, 2);
        for (size_t k = 0; k < 2; k++) {
            if (round == 1)
                assert_float_equal(call.found[k].relevance, before[k], 0.001);
            before[k] = call.found[k].relevance;
        }
        for (int i = 0; i < 700; i++) {
            char id[16];
            snprintf(id, sizeof id, "z%d", i);
            struct handoff_spine_put other = {
                .memory = {.id = span(id), .content = span("zebra zebra zebra zebra")},
                .scopes = scopes(NULL),
                .scope = span("b")};
            assert_int_equal(temp_put_call(&temp, &other), HANDOFF_OK);
        }
    }
}

static void test_a_scope_finds_the_words_that_are_found_where_all_is_shared(void **state)
{
    static const char *const texts[] = {"\xc3\x9c"
                                        "berweisung wiederholen",
                                        "getUserById(ms-4821)",
                                        "caf\xc3\xa9\xe2\x80\x94"
                                        "bar",
                                        "z 17zbank", "\xe6\x94\xaf\xe4\xbb\x98"};
    static const char *const queries[] = {"uberweisung",
                                          "GETUSERBYID",
                                          "4821",
                                          "Cafe\xe2\x80\x94"
                                          "bar",
                                          "bar",
                                          "17zbank",
                                          "bank",
                                          "\xe6\x94\xaf\xe4\xbb\x98",
                                          "wiederhol"};
    enum { TEXTS = 5 };
    (void)state;
    for (int scoped = 0; scoped < 2; scoped++) {
        for (int i = 0; i < TEXTS; i++) {
            char id[16], text[64];
            snprintf(id, sizeof id, "%s%d", scoped ? "a" : "s", i);
            snprintf(text, sizeof text, "%s %s", texts[i], id); /* no two are the same */
            struct handoff_spine_put call = {
                .memory = {.id = span(id),
                           .content = span(text),
                           .summary = span("sum"),
                           .tags = (struct base_span[]){span("tag one")},
                           .tag_count = 1},
                .scopes = scopes(NULL),
                .scope = span(scoped ? "a" : "")};
            assert_int_equal(temp_put_call(&temp, &call), HANDOFF_OK);
        }
    }
    for
        EACH(queries)
        {
            struct handoff_spine_resolve call = {.arena = &temp.arena,
                                                 .scopes = scopes("a"),
                                                 .recent = 20,
                                                 .query = span(queries[i])};
            bool found[2][TEXTS] = {{false}};
            assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &call), HANDOFF_OK);
            for (size_t k = 0; k < call.found_count; k++) {
                const char *id = call.found[k].memory.id.data;
                found[id[0] == 'a'][id[1] - '0'] = call.found[k].relevance > 0;
            }
            assert_memory_equal(found[0], found[1], sizeof found[0]);
            assert_int_equal(memchr(found[0], true, TEXTS) != NULL,
                             strcmp(queries[i], "bank") != 0 &&
                                 strcmp(queries[i], "wiederhol") != 0);
        }
}

static void test_memories_of_the_task_are_found_first(void **state)
{
    char id[16];
    (void)state;
    assert_int_equal(put(NULL, "own-old", "", "task-1"), HANDOFF_OK);
    assert_int_equal(put(NULL, "own-a", "a", "task-1"), HANDOFF_OK);
    assert_int_equal(put(NULL, "own-b", "b", "task-1"), HANDOFF_OK);
    for (int i = 0; i < 40; i++) {
        base_manual_clock_advance(&temp.clock, 1000);
        snprintf(id, sizeof id, "n%d", i);
        assert_int_equal(put(NULL, id, i % 2 ? "a" : "", i % 3 ? "task-2" : NULL), HANDOFF_OK);
    }
    struct handoff_spine_resolve call = {
        .scopes = scopes("a"), .recent = 2, .task = span("task-1"), .query = span("bank")};
    assert_string_equal(resolve(&call), "own-a own-old");
    assert_int_equal(call.found[0].origin, HANDOFF_ORIGIN_RECENT | HANDOFF_ORIGIN_TASK);
    call.query = span("");
    assert_string_equal(resolve(&call), "own-a own-old");
    call.recent = 1000;
    resolve(&call);
    assert_int_equal(call.found_count, 42);
}

/* ---- changing -------------------------------------------------------------------------------- */

static void test_who_stores_where(void **state)
{
    static const struct {
        const char *bound, *scope; /* NULL: not told */
        enum handoff_code code;
        const char *stored;
    } cases[] = {
        {NULL, NULL, HANDOFF_OK, ""},
        {NULL, "", HANDOFF_OK, ""},
        {NULL, "x", HANDOFF_OK, "x"},
        {"a", NULL, HANDOFF_OK, "a"},
        {"a", "a", HANDOFF_OK, "a"},
        {"a", "", HANDOFF_ERR_FORBIDDEN, ""},
        {"a", "x", HANDOFF_ERR_FORBIDDEN, ""},
        {"a,b", NULL, HANDOFF_ERR_INVALID, ""},
        {"a,b", "b", HANDOFF_OK, "b"},
        {"a,b", "", HANDOFF_ERR_FORBIDDEN, ""},
        {NULL, "a b", HANDOFF_ERR_INVALID, ""},
    };
    (void)state;
    for
        EACH(cases)
        {
            struct handoff_spine_put call = {.memory = {.id = span("m"), .content = span("x")},
                                             .scopes = scopes(cases[i].bound),
                                             .scope = base_span_text(cases[i].scope)};
            assert_int_equal(temp_put_call(&temp, &call), cases[i].code);
            if (cases[i].code != HANDOFF_OK) {
                assert_string_equal(temp.error.field, "scope");
                continue;
            }
            assert_true(base_span_equal(call.memory.scope, span(cases[i].stored)));
            assert_int_equal(forget(NULL, "m"), HANDOFF_OK);
        }
}

static void test_an_id_is_taken_in_every_scope(void **state)
{
    static const struct {
        const char *bound, *scope;
        enum handoff_code code;
    } cases[] = {
        {NULL, "b", HANDOFF_ERR_ID_TAKEN},
        {NULL, "", HANDOFF_ERR_ID_TAKEN},
        {NULL, "a", HANDOFF_OK},
        {NULL, NULL, HANDOFF_OK},
        {"b", "b", HANDOFF_ERR_ID_TAKEN},
        {"b", NULL, HANDOFF_ERR_ID_TAKEN},
        {"a", NULL, HANDOFF_OK},
        {"a,b", NULL, HANDOFF_OK},
        {"a,b", "b", HANDOFF_ERR_ID_TAKEN},
    };
    (void)state;
    assert_int_equal(put(NULL, "m", "a", "task-1"), HANDOFF_OK);
    for
        EACH(cases)
    assert_int_equal(put(cases[i].bound, "m", cases[i].scope, NULL), cases[i].code);
    struct handoff_spine_resolve call = {
        .scopes = scopes("a"), .ids = (struct base_span[]){span("m")}, .id_count = 1};
    assert_string_equal(resolve(&call), "m");
    assert_true(base_span_equal(call.found[0].memory.scope, span("a")));
    assert_true(base_span_equal(call.found[0].memory.task_id, span("task-1")));
}

/* Not even whose it is. */
static void test_a_taken_id_says_nothing_more(void **state)
{
    struct handoff_spine_put owned = {.memory = {.id = span("m"), .content = span("x")},
                                      .scopes = scopes(NULL),
                                      .caller = span("analyst"),
                                      .scope = span("a")};
    (void)state;
    assert_int_equal(temp_put_call(&temp, &owned), HANDOFF_OK);
    struct handoff_spine_put other = {.memory = {.id = span("m"), .content = span("x")},
                                      .scopes = scopes("b"),
                                      .caller = span("coder")};
    assert_int_equal(temp_put_call(&temp, &other), HANDOFF_ERR_ID_TAKEN);
    assert_string_equal(temp.error.seen, "m");
    assert_string_equal(temp.error.allowed, "");
    assert_null(strstr(temp.error.message, "analyst"));
}

static void test_what_is_not_seen_is_not_there(void **state)
{
    (void)state;
    fill();
    assert_int_equal(pin("b", "none", true), HANDOFF_ERR_NOT_FOUND);
    const struct handoff_error unknown = temp.error;
    assert_int_equal(pin("b", "a0", true), HANDOFF_ERR_NOT_FOUND);
    assert_string_equal(temp.error.message, unknown.message);
    assert_int_equal(pin("b", "a0", false), HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(forget("b", "a0"), HANDOFF_ERR_NOT_FOUND);
    assert_string_equal(temp.error.message, unknown.message);
    /* what is shared is seen, and belongs to others too */
    assert_int_equal(pin("b", "s0", false), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(forget("b", "s0"), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(pin("b", "b0", false), HANDOFF_OK);
    assert_int_equal(forget("b", "b0"), HANDOFF_OK);
    assert_string_equal(list(NULL, false), "a0 a1 b1 s0 s1");
    assert_string_equal(list(NULL, true), "a0 s0");
}

static void test_each_scope_has_its_pins(void **state)
{
    (void)state;
    temp_spine_close(&temp);
    temp_spine_open(&temp, NULL, (struct handoff_memory_limits){.pins = 1});
    fill(); /* one in each of three */
    assert_int_equal(pin(NULL, "a1", true), HANDOFF_ERR_TOO_MANY_PINS);
    assert_string_equal(temp.error.seen, "1 pinned");
    assert_int_equal(pin(NULL, "a0", false), HANDOFF_OK);
    assert_int_equal(pin(NULL, "a1", true), HANDOFF_OK);
}

static int64_t number(const char *sql)
{
    int64_t value = -1;
    struct handoff_db *db = handoff_store_reader(temp.store, &temp.error);
    assert_int_equal(handoff_db_number(db, sql, &value, &temp.error), HANDOFF_OK);
    handoff_store_reader_done(temp.store, db);
    return value;
}

static void test_an_empty_scope_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(put(NULL, "m", "a", NULL), HANDOFF_OK);
    assert_int_equal(put(NULL, "m", "a", NULL), HANDOFF_OK); /* replaced */
    assert_int_equal(number("SELECT count(*) FROM memory_scopes"), 2);
    assert_int_equal(forget(NULL, "m"), HANDOFF_OK);
    assert_int_equal(number("SELECT count(*) FROM memory_scopes"), 1);
    assert_int_equal(put(NULL, "m", "b", NULL), HANDOFF_OK);
    assert_string_equal(list("a", false), "");
}

static double relevance_of_first(const char *scope, const char *query)
{
    struct handoff_spine_resolve call = {
        .scopes = scopes(scope), .recent = 20, .query = span(query), .arena = &temp.arena};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &call), HANDOFF_OK);
    assert_int_equal(call.found_count, 3);
    return call.found[2].relevance;
}

static void put_text(const char *id, const char *scope, const char *text)
{
    struct handoff_spine_put call = {.memory = {.id = span(id), .content = span(text)},
                                     .scopes = scopes(NULL),
                                     .scope = span(scope)};
    assert_int_equal(temp_put_call(&temp, &call), HANDOFF_OK);
}

static void put_three(const char *scope)
{
    put_text("one", scope, "bank account");
    put_text("two", scope, "bank ledger");
    put_text("three", scope, "ledger");
}

static void forget_three(void)
{
    assert_int_equal(forget(NULL, "one"), HANDOFF_OK);
    assert_int_equal(forget(NULL, "two"), HANDOFF_OK);
    assert_int_equal(forget(NULL, "three"), HANDOFF_OK);
}

/* What a word is worth is counted in a scope, and the index counts removed memories for a while. */
static void test_a_new_scope_knows_nothing_of_one_that_is_gone(void **state)
{
    char id[16];
    (void)state;
    put_three("clean");
    const double expected = relevance_of_first("clean", "bank ledger");
    forget_three();
    for (int i = 0; i < 50; i++) {
        snprintf(id, sizeof id, "m%d", i);
        put_text(id, "former", "bank");
    }
    for (int i = 0; i < 50; i++) {
        snprintf(id, sizeof id, "m%d", i);
        assert_int_equal(forget(NULL, id), HANDOFF_OK);
    }
    put_three("new");
    assert_true(fabs(relevance_of_first("new", "bank ledger") - expected) < 1e-6);
}

/* Numbers that were freed are used again when there is none beyond the greatest. */
static void test_numbers_of_scopes_run_out(void **state)
{
    struct handoff_store_options options = {.path = temp.directory};
    struct handoff_db db = {0};
    char path[512];
    (void)state;
    assert_int_equal(put(NULL, "a0", "a", NULL), HANDOFF_OK);
    handoff_spine_close(&temp.spine);
    handoff_store_close(&temp.store);
    snprintf(path, sizeof path, "%s/handoff.db", temp.directory);
    assert_int_equal(handoff_db_open(&db, path, HANDOFF_DB_WRITE, NULL, &temp.error), HANDOFF_OK);
    assert_int_equal(
        handoff_db_exec(&db, "INSERT INTO memory_scopes VALUES (8388607, 'last', 0)", &temp.error),
        HANDOFF_OK);
    handoff_db_close(&db);
    char *directory = temp.directory;
    temp_spine_open_store(&temp, &options, (struct handoff_memory_limits){0});
    temp.directory = directory;
    assert_int_equal(put(NULL, "b0", "b", NULL), HANDOFF_OK);
    assert_int_equal(put(NULL, "l0", "last", NULL), HANDOFF_OK);
    assert_int_equal(number("SELECT number FROM memory_scopes WHERE name = 'b'"), 2);
    assert_true(handoff_scope_of(number("SELECT max(seq) FROM memories")) == 8388607);
    assert_string_equal(list("b,last", false), "b0 l0");
    struct handoff_spine_resolve search = {
        .scopes = scopes("last"), .recent = 20, .query = span("bank")};
    assert_string_equal(resolve(&search), "l0");
}

#define WITH_SPINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SPINE(test_ids_resolve_in_visible_scopes_alone),
        WITH_SPINE(test_pins_are_those_of_visible_scopes),
        WITH_SPINE(test_a_pin_of_another_scope_is_not_forgotten),
        WITH_SPINE(test_what_is_found_is_visible),
        WITH_SPINE(test_lists_have_what_is_visible),
        WITH_SPINE(test_a_list_is_in_the_order_of_recency),
        WITH_SPINE(test_others_do_not_change_the_ranking),
        WITH_SPINE(test_a_scope_finds_the_words_that_are_found_where_all_is_shared),
        WITH_SPINE(test_memories_of_the_task_are_found_first),
        WITH_SPINE(test_who_stores_where),
        WITH_SPINE(test_an_id_is_taken_in_every_scope),
        WITH_SPINE(test_a_taken_id_says_nothing_more),
        WITH_SPINE(test_what_is_not_seen_is_not_there),
        WITH_SPINE(test_each_scope_has_its_pins),
        WITH_SPINE(test_an_empty_scope_leaves_nothing),
        WITH_SPINE(test_a_new_scope_knows_nothing_of_one_that_is_gone),
        WITH_SPINE(test_numbers_of_scopes_run_out),
    };
    return RUN_TESTS(tests);
}
