/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a remote spine: what is refused at the start, what is asked, and what is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "client/spine/http/http_spine.h"
#include "client/spine/remote/table.h"
#include "lib/base/json.h"

#define GET        "\"get\":{\"method\":\"GET\",\"path\":\"/m/{id}\"}"
#define WITH(rows) "{\"operations\":{" rows "}}"

static struct handoff_remote_table table;
static struct base_buffer out;

static int free_all(void **unused)
{
    (void)unused;
    handoff_remote_table_free(&table);
    base_buffer_free(&out);
    return 0;
}

static void read_table(const char *text)
{
    struct handoff_error error;
    if (handoff_remote_table_read(&table, &handoff_http_wire, text, &error) != HANDOFF_OK)
        fail_msg("%s: %s (%s)", error.field, error.message, error.seen);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_what_is_wrong_is_named_with_its_place(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *field;
    } bad[] = {
        {"{}", "operations"},
        {"{\"operations\":[]}", "operations"},
        {WITH(""), "operations"},
        {WITH("\"search\":{\"method\":\"GET\",\"path\":\"/{query}\"}"), "operations"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"/m\"}"), "operations.get"},
        {WITH("\"get_many\":{\"method\":\"POST\",\"path\":\"/m/{id}\",\"body\":{}}"),
         "operations.get_many"},
        {WITH(GET ",\"search\":{\"method\":\"POST\",\"path\":\"/\",\"body\":{\"n\":\"{limit}\"}}"),
         "operations.search"},
        {WITH(GET ",\"delete\":{\"method\":\"DELETE\",\"path\":\"/m\"}"), "operations.delete"},
        {WITH("\"get\":7"), "operations.get"},
        {WITH("\"fetch\":{}"), "operations.fetch"},
        {WITH("\"get\":{\"path\":\"/m/{id}\"}"), "operations.get.method"},
        {WITH("\"get\":{\"method\":\"get\",\"path\":\"/m\"}"), "operations.get.method"},
        {WITH("\"get\":{\"method\":\"GET\"}"), "operations.get.path"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"m/{id}\"}"), "operations.get.path"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"//host/{id}\"}"), "operations.get.path"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"/m/{ID}\"}"), "operations.get.path"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"/m/{id\"}"), "operations.get.path"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"/m x\"}"), "operations.get.path"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"/m\",\"memory\":\"\"}"),
         "operations.get.memory"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"/m\",\"memories\":\"items\"}"),
         "operations.get.memories"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"/m\",\"memories\":\"/a~2\"}"),
         "operations.get.memories"},
        {WITH("\"get\":{\"method\":\"GET\",\"path\":\"/m\",\"more\":\"next\"}"),
         "operations.get.more"},
        {WITH("\"get\":{\"method\":\"POST\",\"path\":\"/m\",\"body\":{\"a\":[\"{idd}\"]}}"),
         "operations.get.body"},
        {WITH("\"get\":{\"method\":\"POST\",\"path\":\"/m\",\"body\":\"{content}\"}"),
         "operations.get.body"},
        {"{\"operations\":{" GET "},\"memory\":{\"content\":null}}", "memory.content"},
        {"{\"operations\":{" GET "},\"memory\":{\"tags\":\"tags\"}}", "memory.tags"},
        {"{\"operations\":{" GET "},\"memory\":{\"text\":\"/text\"}}", "memory.text"},
        {"{\"operations\":{" GET "},\"memroy\":{}}", "memroy"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct handoff_error error = {0};
        if (handoff_remote_table_read(&table, &handoff_http_wire, bad[i].text, &error) !=
                HANDOFF_ERR_INVALID ||
            strcmp(error.field, bad[i].field) != 0)
            fail_msg("%s: code %d, field %s", bad[i].text, (int)error.code, error.field);
        handoff_remote_table_free(&table);
    }
}

static void test_what_is_no_json_is_refused(void **unused)
{
    (void)unused;
    struct handoff_error error;
    assert_int_not_equal(handoff_remote_table_read(&table, &handoff_http_wire, "{", &error),
                         HANDOFF_OK);
}

static void test_without_a_table_it_is_a_handoff_exporter(void **unused)
{
    (void)unused;
    read_table(handoff_http_usual_table);
    for (int i = 0; i < HANDOFF_REMOTE_OPERATIONS; i++)
        assert_int_equal(table.rows[i].exists, i != HANDOFF_REMOTE_GET_MANY);
}

/* ---- what is asked --------------------------------------------------------------------------- */

static const char *path_of(enum handoff_remote_operation operation,
                           const struct handoff_remote_values *values)
{
    base_buffer_clear(&out);
    handoff_http_compose_path(&table.rows[operation], values, &out);
    return out.data;
}

static void test_no_value_escapes_from_its_place_in_a_path(void **unused)
{
    (void)unused;
    read_table(WITH(GET ",\"search\":{\"method\":\"GET\",\"path\":\"/s?q={query}&n={limit}\"}"));
    struct handoff_remote_values values = {.id = base_span_text("../admin?x=1#y"), .limit = 7};
    assert_string_equal(path_of(HANDOFF_REMOTE_GET, &values), "/m/%2E%2E%2Fadmin%3Fx%3D1%23y");
    values.query = base_span("a&b=\r\n\"{id}\"%2F\xC3\xA9", 17);
    assert_string_equal(path_of(HANDOFF_REMOTE_SEARCH, &values),
                        "/s?q=a%26b%3D%0D%0A%22%7Bid%7D%22%252F%C3%A9&n=7");
}

static void test_several_ids_are_separated_by_commas(void **unused)
{
    (void)unused;
    read_table(WITH("\"get_many\":{\"method\":\"GET\",\"path\":\"/m?ids={ids}\"}"));
    const struct base_span ids[] = {base_span_text("ms-1"), base_span_text("a:b")};
    const struct handoff_remote_values values = {.ids = ids, .id_count = 2};
    assert_string_equal(path_of(HANDOFF_REMOTE_GET_MANY, &values), "/m?ids=ms-1,a%3Ab");
}

static void test_the_usual_table_names_the_scopes_that_are_looked_into(void **unused)
{
    (void)unused;
    read_table(handoff_http_usual_table);
    const struct base_span names[] = {base_span_text("team:a/b"), base_span_text("user:al")};
    struct handoff_remote_values values = {.scopes = names, .scope_count = 2, .limit = 3};
    assert_string_equal(path_of(HANDOFF_REMOTE_RECENT, &values),
                        "/v1/memories?recent=3&scope=team%3Aa%2Fb,user%3Aal");
    values.scope_count = 0;
    assert_string_equal(path_of(HANDOFF_REMOTE_PINNED, &values),
                        "/v1/memories?pinned=true&limit=3&scope=");
}

static const char *body_of(enum handoff_remote_operation operation,
                           const struct handoff_remote_values *values)
{
    base_buffer_clear(&out);
    handoff_remote_compose(&table.rows[operation], values, &out);
    return out.data;
}

static void test_scopes_are_a_list_in_a_body(void **unused)
{
    (void)unused;
    read_table(WITH(GET ",\"search\":{\"method\":\"POST\",\"path\":\"/s\",\"body\":"
                        "{\"q\":\"{query}\",\"in\":\"{scopes}\"}}"));
    const struct base_span names[] = {base_span_text("user:al")};
    struct handoff_remote_values values = {.query = base_span_text("x"), .scopes = names};
    assert_string_equal(body_of(HANDOFF_REMOTE_SEARCH, &values), "{\"q\":\"x\",\"in\":[]}");
    values.scope_count = 1;
    assert_string_equal(body_of(HANDOFF_REMOTE_SEARCH, &values),
                        "{\"q\":\"x\",\"in\":[\"user:al\"]}");
}

static void test_no_value_escapes_from_its_place_in_a_body(void **unused)
{
    (void)unused;
    read_table(WITH(GET
                    ",\"get_many\":{\"method\":\"POST\",\"path\":\"/m\",\"body\":"
                    "{\"ids\":\"{ids}\",\"opt\":[1.50,{\"k\":\"{limit}\"},\"as {id}\"]}},"
                    "\"put\":{\"method\":\"PUT\",\"path\":\"/m/{id}\",\"body\":{\"id\":\"{id}\","
                    "\"text\":\"{content}\",\"s\":\"{summary}\",\"t\":\"{tags}\","
                    "\"m\":\"{metadata}\",\"p\":\"{pinned}\",\"i\":\"{importance}\"}}"));
    const struct base_span ids[] = {base_span_text("a"), base_span_text("\"],\"x\":[\"")};
    struct handoff_remote_values values = {.ids = ids, .id_count = 2, .limit = 2};
    assert_string_equal(
        body_of(HANDOFF_REMOTE_GET_MANY, &values),
        "{\"ids\":[\"a\",\"\\\"],\\\"x\\\":[\\\"\"],\"opt\":[1.50,{\"k\":2},\"as {id}\"]}");
    const struct base_span tag = base_span_text("t\"");
    const struct handoff_memory memory = {.content = base_span_text("{id}\"}\n"),
                                          .tags = &tag,
                                          .tag_count = 1,
                                          .importance = HANDOFF_IMPORTANCE_HIGH};
    values = (struct handoff_remote_values){.id = base_span_text("ms-1"), .memory = &memory};
    assert_string_equal(body_of(HANDOFF_REMOTE_PUT, &values),
                        "{\"id\":\"ms-1\",\"text\":\"{id}\\\"}\\n\",\"s\":null,\"t\":[\"t\\\"\"],"
                        "\"m\":{},\"p\":false,\"i\":\"high\"}");
}

/* ---- what is read ---------------------------------------------------------------------------- */

static bool read_memory(const char *json, struct base_arena *arena, struct handoff_memory *memory)
{
    yyjson_doc *doc;
    assert_int_equal(base_json_read_in(arena, base_span_text(json), "answer", &doc, NULL),
                     HANDOFF_OK);
    return handoff_remote_read_memory(&table, yyjson_doc_get_root(doc), arena, memory);
}

static void test_members_are_found_by_their_pointers(void **unused)
{
    (void)unused;
    read_table("{\"operations\":{" GET "},\"memory\":{\"id\":\"/key\",\"content\":\"/body/text\","
               "\"created_at\":\"/body/at\",\"scope\":null,\"tags\":\"/labels\"}}");
    struct base_arena arena;
    struct handoff_memory memory;
    base_arena_init(&arena, 0);
    assert_true(
        read_memory("{\"key\":\"ms-1\",\"body\":{\"text\":\"fact\",\"at\":1700000000},"
                    "\"labels\":[\"a\",7,\"b\"],\"scope\":\"user:x\",\"importance\":\"high\","
                    "\"metadata\":{\"n\":1.50}}",
                    &arena, &memory));
    assert_true(base_span_equal(memory.content, base_span_text("fact")));
    assert_int_equal(memory.created_ms, INT64_C(1700000000000));
    assert_int_equal(memory.tag_count, 2);
    assert_null(memory.scope.data);
    assert_int_equal(memory.importance, HANDOFF_IMPORTANCE_HIGH);
    assert_true(base_span_equal(memory.metadata, base_span_text("{\"n\":1.50}")));
    base_arena_free(&arena);
}

static void test_what_is_no_memory_is_not_read(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "7",
                                      "{\"id\":\"a\"}",
                                      "{\"id\":\"a b\",\"content\":\"x\"}",
                                      "{\"id\":\"a\",\"content\":7}",
                                      "{\"id\":\"a\",\"content\":\"\"}"};
    struct base_arena arena;
    struct handoff_memory memory;
    read_table(WITH(GET));
    base_arena_init(&arena, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(read_memory(bad[i], &arena, &memory));
    base_arena_free(&arena);
}

#define TEST(test) cmocka_unit_test_teardown(test, free_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_wrong_is_named_with_its_place),
        TEST(test_what_is_no_json_is_refused),
        TEST(test_without_a_table_it_is_a_handoff_exporter),
        TEST(test_no_value_escapes_from_its_place_in_a_path),
        TEST(test_several_ids_are_separated_by_commas),
        TEST(test_the_usual_table_names_the_scopes_that_are_looked_into),
        TEST(test_scopes_are_a_list_in_a_body),
        TEST(test_no_value_escapes_from_its_place_in_a_body),
        TEST(test_members_are_found_by_their_pointers),
        TEST(test_what_is_no_memory_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
