/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded spine: what is kept of a memory, limits, pins, paging, token counts, failures. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

#include "client/model/model.h"
#include "client/store/sqlite/database.h"
#include "lib/base/check.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/resolve_now.h"
#include "tests/support/temp_spine.h"

static struct temp_spine temp;
static const struct handoff_memory_limits usual;

static struct base_span span(const char *text)
{
    return base_span_text(text);
}

static void assert_span(struct base_span seen, const char *expected)
{
    if (!base_span_equal(seen, span(expected)))
        fail_msg("seen %.*s, expected %s", (int)seen.size, seen.data, expected);
}

/* The memory with this id, or NULL. */
static struct handoff_found_memory *get(const char *id)
{
    static struct handoff_spine_resolve resolve;
    struct base_span ids[1] = {span(id)};
    resolve = (struct handoff_spine_resolve){
        .arena = &temp.arena, .ids = ids, .id_count = 1, .encoding = span("o200k_base")};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    assert_int_equal(resolve.found_count + resolve.missing_count, 1);
    return resolve.found_count ? &resolve.found[0] : NULL;
}

static enum handoff_code pin(const char *id, bool pinned)
{
    struct handoff_spine_pin call = {.id = span(id), .pinned = pinned};
    return TEMP_SPINE_CALL(&temp, handoff_spine_pin, &call);
}

static enum handoff_code forget(const char *id)
{
    struct handoff_spine_remove call = {.id = span(id)};
    return TEMP_SPINE_CALL(&temp, handoff_spine_remove, &call);
}

static void test_every_field_comes_back(void **state)
{
    struct base_span tags[3] = {span("auth"), span("pkce flow"), span("\xC3\xA9t\xC3\xA9")};
    struct handoff_spine_put put = {.memory = {.id = span("ms-4821:a.B_c"),
                                               .content = base_span("line\n\0nul", 9),
                                               .summary = span("short"),
                                               .metadata = span("{\"a\":{\"b\":[1,2]}}"),
                                               .tags = tags,
                                               .tag_count = 3,
                                               .importance = HANDOFF_IMPORTANCE_CRITICAL},
                                    .pin = HANDOFF_PIN_YES};
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    assert_true(put.created && put.memory.pinned);
    struct handoff_found_memory *found = get("ms-4821:a.B_c");
    assert_non_null(found);
    assert_span(found->memory.id, "ms-4821:a.B_c");
    assert_true(base_span_equal(found->memory.content, put.memory.content));
    assert_span(found->memory.summary, "short");
    assert_span(found->memory.metadata, "{\"a\":{\"b\":[1,2]}}");
    assert_int_equal(found->memory.tag_count, 3);
    for (int i = 0; i < 3; i++)
        assert_true(base_span_equal(found->memory.tags[i], tags[i]));
    assert_int_equal(found->memory.importance, HANDOFF_IMPORTANCE_CRITICAL);
    assert_true(found->memory.pinned);
    assert_int_equal(found->memory.created_ms, 1767225600000);
    assert_int_equal(found->memory.version, put.memory.version);
    assert_int_equal(found->origin, HANDOFF_ORIGIN_ASKED);
    assert_int_equal(temp_remember(&temp, "bare", "x", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    found = get("bare");
    assert_null(found->memory.summary.data);
    assert_null(found->memory.metadata.data);
    assert_int_equal(found->memory.tag_count, 0);
    assert_null(get("Bare")); /* ids are told apart by case */
    temp_spine_close(&temp);
}

static void test_putting_again_replaces(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(temp_remember(&temp, "a", "first", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_int_equal(pin("a", true), HANDOFF_OK);
    int64_t version = get("a")->memory.version;
    base_manual_clock_advance(&temp.clock, 5000);
    struct handoff_spine_put put = {.memory = {.id = span("a"), .content = span("second")}};
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    assert_false(put.created);
    struct handoff_found_memory *found = get("a");
    assert_span(found->memory.content, "second");
    assert_true(found->memory.pinned); /* HANDOFF_PIN_KEEP */
    assert_int_equal(found->memory.updated_ms - found->memory.created_ms, 5000);
    assert_true(found->memory.version > version);
    put.pin = HANDOFF_PIN_NO;
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    assert_false(get("a")->memory.pinned);
    struct handoff_spine_stats stats = {0};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_stats, &stats), HANDOFF_OK);
    assert_int_equal(stats.memories, 1);
    assert_int_equal(stats.pinned, 0);
    temp_spine_close(&temp);
}

static enum handoff_code put_as(const char *caller, const char *agent, const char *owner)
{
    struct handoff_spine_put put = {.memory = {.id = span("a"), .content = span("x")},
                                    .caller = base_span_text(caller),
                                    .agent = base_span_text(agent)};
    enum handoff_code code = temp_put_call(&temp, &put);
    if (code == HANDOFF_OK && owner) {
        assert_span(put.memory.agent, owner);
        assert_span(get("a")->memory.agent, owner);
    } else if (code == HANDOFF_OK) {
        assert_null(put.memory.agent.data);
        assert_null(get("a")->memory.agent.data);
    }
    return code;
}

static enum handoff_code pin_as(const char *caller, bool pinned)
{
    struct handoff_spine_pin call = {
        .id = span("a"), .caller = base_span_text(caller), .pinned = pinned};
    return TEMP_SPINE_CALL(&temp, handoff_spine_pin, &call);
}

static enum handoff_code forget_as(const char *caller)
{
    struct handoff_spine_remove call = {.id = span("a"), .caller = base_span_text(caller)};
    return TEMP_SPINE_CALL(&temp, handoff_spine_remove, &call);
}

static void test_only_the_owner_changes_a_memory(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(put_as("analyst", NULL, "analyst"), HANDOFF_OK);
    const int64_t version = get("a")->memory.version;
    static const char *const others[] = {"coder", "analys", "analyst2"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(put_as(others[i], NULL, NULL), HANDOFF_ERR_FORBIDDEN);
        assert_string_equal(temp.error.seen, others[i]);
        assert_int_equal(pin_as(others[i], true), HANDOFF_ERR_FORBIDDEN);
        assert_int_equal(pin_as(others[i], false), HANDOFF_ERR_FORBIDDEN);
        assert_int_equal(forget_as(others[i]), HANDOFF_ERR_FORBIDDEN);
    }
    assert_int_equal(get("a")->memory.version, version);
    assert_int_equal(pin_as("analyst", true), HANDOFF_OK);
    assert_int_equal(put_as("analyst", NULL, "analyst"), HANDOFF_OK);
    assert_int_equal(put_as(NULL, NULL, "analyst"), HANDOFF_OK);
    assert_int_equal(put_as(NULL, "coder", "coder"), HANDOFF_OK);
    assert_int_equal(put_as("analyst", NULL, NULL), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(forget_as("coder"), HANDOFF_OK);
    assert_int_equal(put_as("analyst", NULL, "analyst"), HANDOFF_OK);
    temp_spine_close(&temp);
}

static void test_a_memory_of_nobody_is_the_operators(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(put_as(NULL, NULL, NULL), HANDOFF_OK);
    assert_int_equal(put_as("analyst", NULL, NULL), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(pin_as("analyst", true), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(forget_as("analyst"), HANDOFF_ERR_FORBIDDEN);
    assert_int_equal(pin_as(NULL, true), HANDOFF_OK);
    assert_int_equal(put_as(NULL, "analyst", "analyst"), HANDOFF_OK);
    assert_int_equal(put_as("analyst", NULL, "analyst"), HANDOFF_OK);
    temp_spine_close(&temp);
}

static void test_remove_and_pin_say_what_is_not_there(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(forget("none"), HANDOFF_ERR_NOT_FOUND);
    assert_string_equal(temp.error.seen, "none");
    assert_int_equal(pin("none", true), HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(temp_remember(&temp, "a", "x", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_int_equal(pin("a", true), HANDOFF_OK);
    assert_int_equal(pin("a", true), HANDOFF_OK);
    assert_int_equal(forget("a"), HANDOFF_OK);
    assert_null(get("a"));
    assert_int_equal(forget("a"), HANDOFF_ERR_NOT_FOUND);
    assert_int_equal(forget("a b"), HANDOFF_ERR_INVALID);
    temp_spine_close(&temp);
}

/* ---- limits ------------------------------------------------------------------------------------
 */

static void refuses(struct handoff_memory memory, enum handoff_code code, const char *field,
                    const char *seen, const char *allowed)
{
    struct handoff_memory_limits limits = handoff_memory_limits_default;
    struct handoff_error error;
    limits.content_bytes = 10;
    limits.summary_bytes = 5;
    limits.tags = 2;
    limits.tag_bytes = 3;
    limits.metadata_bytes = 40;
    limits.metadata_depth = 2;
    if (!memory.id.data)
        memory.id = span("id");
    if (!memory.content.data)
        memory.content = span("x");
    assert_int_equal(handoff_memory_validate(&memory, &limits, &error), code);
    if (code == HANDOFF_OK)
        return;
    assert_string_equal(error.field, field);
    assert_string_equal(error.seen, seen);
    assert_string_equal(error.allowed, allowed);
}

static void test_limits_name_field_seen_allowed(void **state)
{
    static const char id_rule[] = "1 to 128 characters of A-Z a-z 0-9 . _ : -";
    char id[130];
    struct base_span tags[3] = {span("a"), span("b"), span("c")};
    (void)state;
    memset(id, 'i', sizeof id);
    refuses((struct handoff_memory){.id = base_span(id, 128)}, HANDOFF_OK, 0, 0, 0);
    refuses((struct handoff_memory){.id = base_span(id, 129)}, HANDOFF_ERR_INVALID, "id",
            "129 bytes", id_rule);
    refuses((struct handoff_memory){.id = span("")}, HANDOFF_ERR_INVALID, "id", "0 bytes", id_rule);
    refuses((struct handoff_memory){.id = span("a/b")}, HANDOFF_ERR_INVALID, "id", "byte 0x2f at 1",
            id_rule);
    refuses((struct handoff_memory){.content = span("")}, HANDOFF_ERR_INVALID, "content", "", "");
    refuses((struct handoff_memory){.content = span("1234567890")}, HANDOFF_OK, 0, 0, 0);
    refuses((struct handoff_memory){.content = span("12345678901")}, HANDOFF_ERR_TOO_LARGE,
            "content", "11 bytes", "up to 10 bytes");
    refuses((struct handoff_memory){.content = span("ab\xFFz")}, HANDOFF_ERR_INVALID, "content",
            "byte 0xff at 2", "");
    refuses((struct handoff_memory){.summary = span("123456")}, HANDOFF_ERR_TOO_LARGE, "summary",
            "6 bytes", "up to 5 bytes");
    refuses((struct handoff_memory){.tags = tags, .tag_count = 2}, HANDOFF_OK, 0, 0, 0);
    refuses((struct handoff_memory){.tags = tags, .tag_count = 3}, HANDOFF_ERR_TOO_LARGE, "tags",
            "3 tags", "up to 2 tags");
    tags[1] = span("abcd");
    refuses((struct handoff_memory){.tags = tags, .tag_count = 2}, HANDOFF_ERR_TOO_LARGE, "tags[1]",
            "4 bytes", "up to 3 bytes");
    tags[1] = span("a\nb");
    refuses((struct handoff_memory){.tags = tags, .tag_count = 2}, HANDOFF_ERR_INVALID, "tags[1]",
            "byte 0x0a at 1", "");
    tags[1] = span("");
    refuses((struct handoff_memory){.tags = tags, .tag_count = 2}, HANDOFF_ERR_INVALID, "tags[1]",
            "", "");
    refuses((struct handoff_memory){.metadata = span("[1]")}, HANDOFF_ERR_INVALID, "metadata",
            "array", "an object");
    refuses((struct handoff_memory){.metadata = span("{\"a\":{}}")}, HANDOFF_OK, 0, 0, 0);
    refuses((struct handoff_memory){.metadata = span("{\"a\":[{}]}")}, HANDOFF_ERR_TOO_LARGE,
            "metadata", "", "2 levels");
    refuses(
        (struct handoff_memory){.metadata = span("{\"a\":\"0123456789012345678901234567890123\"}")},
        HANDOFF_ERR_TOO_LARGE, "metadata", "42 bytes", "up to 40 bytes");
}

static void test_metadata_must_be_json(void **state)
{
    struct handoff_memory memory = {
        .id = span("a"), .content = span("x"), .metadata = span("{\"a\":}")};
    struct handoff_error error;
    (void)state;
    assert_int_equal(handoff_memory_validate(&memory, &handoff_memory_limits_default, &error),
                     HANDOFF_ERR_INVALID_JSON);
    assert_non_null(strstr(error.seen, "at byte 5"));
}

static void test_importance_names(void **state)
{
    enum handoff_importance importance;
    (void)state;
    assert_true(handoff_importance_parse(span("critical"), &importance));
    assert_string_equal(handoff_importance_name(importance), "critical");
    assert_false(handoff_importance_parse(span("Critical"), &importance));
    assert_false(handoff_importance_parse(span(""), &importance));
}

static void test_numbers_out_of_range(void **state)
{
    struct handoff_memory_limits limits = {.page = 5, .recent = 7, .ids = 2};
    struct base_span ids[3] = {span("a"), span("b/"), span("c")};
    (void)state;
    temp_spine_open(&temp, NULL, limits);
    struct handoff_spine_list list = {.arena = &temp.arena, .limit = 6};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_list, &list), HANDOFF_ERR_INVALID);
    assert_string_equal(temp.error.allowed, "1 to 5");
    struct handoff_spine_resolve resolve = {.arena = &temp.arena, .recent = 8};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_ERR_INVALID);
    assert_string_equal(temp.error.field, "include_recent");
    resolve = (struct handoff_spine_resolve){.arena = &temp.arena, .ids = ids, .id_count = 3};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_ERR_INVALID);
    assert_string_equal(temp.error.field, "memory_ids");
    resolve.id_count = 2;
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_ERR_INVALID);
    assert_string_equal(temp.error.field, "memory_ids[1]");
    temp_spine_close(&temp);
}

static void test_pins_are_limited(void **state)
{
    struct handoff_memory_limits limits = {.pins = 2};
    (void)state;
    temp_spine_open(&temp, NULL, limits);
    for (const char *id = "a\0b\0c\0"; *id; id += 2)
        assert_int_equal(temp_remember(&temp, id, "x", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_int_equal(pin("a", true), HANDOFF_OK);
    assert_int_equal(pin("b", true), HANDOFF_OK);
    assert_int_equal(pin("c", true), HANDOFF_ERR_TOO_MANY_PINS);
    assert_string_equal(temp.error.allowed, "up to 2");
    struct handoff_spine_put put = {.memory = {.id = span("d"), .content = span("x")},
                                    .pin = HANDOFF_PIN_YES};
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_ERR_TOO_MANY_PINS);
    assert_null(get("d"));
    put.memory.id = span("a"); /* it is pinned already */
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    assert_int_equal(pin("b", false), HANDOFF_OK);
    assert_int_equal(pin("c", true), HANDOFF_OK);
    temp_spine_close(&temp);
}

/* ---- resolve
 * ------------------------------------------------------------------------------------- */

static void test_found_once_with_all_reasons(void **state)
{
    struct base_span ids[5] = {span("x1"), span("b"), span("b"), span("x0"), span("x1")};
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    for (const char *id = "a\0b\0c\0d\0"; *id; id += 2) {
        char text[32];
        (void)snprintf(text, sizeof text, "token bucket %s", id);
        assert_int_equal(temp_remember(&temp, id, text, HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    }
    assert_int_equal(pin("b", true), HANDOFF_OK);
    assert_int_equal(pin("a", true), HANDOFF_OK);
    struct handoff_spine_resolve resolve = {.arena = &temp.arena,
                                            .ids = ids,
                                            .id_count = 5,
                                            .pins = true,
                                            .recent = 3,
                                            .query = span("bucket")};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    unsigned origins[128] = {0};
    for (size_t i = 0; i < resolve.found_count; i++)
        origins[(unsigned char)resolve.found[i].memory.id.data[0]] = resolve.found[i].origin;
    assert_int_equal(resolve.found_count, 4);
    assert_int_equal(origins['a'], HANDOFF_ORIGIN_PINNED);
    assert_int_equal(origins['b'],
                     HANDOFF_ORIGIN_ASKED | HANDOFF_ORIGIN_PINNED | HANDOFF_ORIGIN_RECENT);
    assert_int_equal(origins['c'], HANDOFF_ORIGIN_RECENT);
    assert_int_equal(origins['d'], HANDOFF_ORIGIN_RECENT);
    assert_int_equal(resolve.missing_count, 2);
    assert_span(resolve.missing[0], "x1");
    assert_span(resolve.missing[1], "x0");
    resolve = (struct handoff_spine_resolve){.arena = &temp.arena};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    assert_int_equal(resolve.found_count, 0);
    temp_spine_close(&temp);
}

static size_t count_pins(void)
{
    struct handoff_spine_resolve resolve = {.arena = &temp.arena, .pins = true};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    return resolve.found_count;
}

/* Nothing is read while there are no pins; the first one must be seen at once. */
static void test_the_first_pin_is_found(void **state)
{
    struct handoff_spine_put put = {.memory = {.id = span("b"), .content = span("x")},
                                    .pin = HANDOFF_PIN_YES};
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(temp_remember(&temp, "a", "x", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_int_equal(count_pins(), 0);
    assert_int_equal(count_pins(), 0);
    assert_int_equal(pin("a", true), HANDOFF_OK);
    assert_int_equal(count_pins(), 1);
    temp_spine_close(&temp);
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(count_pins(), 0);
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    assert_int_equal(count_pins(), 1);
    assert_int_equal(pin("b", false), HANDOFF_OK);
    assert_int_equal(count_pins(), 0);
    temp_spine_close(&temp);
}

/* Whether the store was asked for it; `ids` are "a", "b" and "a" once more. */
static bool ask_for_a_and_b(size_t found, size_t missing)
{
    static const char text[] = "aba";
    const struct base_span ids[] = {base_span(text, 1), base_span(text + 1, 1),
                                    base_span(text + 2, 1)};
    struct handoff_spine_resolve resolve = {.arena = &temp.arena,
                                            .ids = ids,
                                            .id_count = 3,
                                            .pins = true,
                                            .recent = 5,
                                            .query = span("bucket")};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
    assert_int_equal(resolve.found_count, found);
    assert_int_equal(resolve.missing_count, missing);
    if (missing)
        assert_span(resolve.missing[missing - 1], "b");
    return resolve.call.asked;
}

/* Nothing is read while there are no memories; the first one must be seen at once. */
static void test_the_first_memory_is_found(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_true(ask_for_a_and_b(0, 2));
    assert_false(ask_for_a_and_b(0, 2));
    assert_int_equal(temp_remember(&temp, "a", "a bucket", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_true(ask_for_a_and_b(1, 1));
    temp_spine_close(&temp);
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(temp_remember(&temp, "b", "a bucket", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_int_equal(temp_remember(&temp, "a", "a bucket", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_true(ask_for_a_and_b(2, 0));
    temp_spine_close(&temp);
}

static struct base_span number_as_id(char (*text)[8], unsigned number)
{
    (void)snprintf(*text, sizeof *text, "id%u", number);
    return base_span_text(*text);
}

/* Many ids are compared with each other, which no loop does. */
static void test_many_ids_are_looked_for_on_a_reader(void **state)
{
    enum { MANY = 200 };
    static char texts[MANY][8];
    struct base_span ids[MANY];
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        ids[i] = number_as_id(&texts[i], i);
    temp_spine_open(&temp, NULL, usual);
    for (int round = 0; round < 2; round++) {
        struct handoff_spine_resolve resolve = {.arena = &temp.arena, .ids = ids, .id_count = MANY};
        assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
        assert_true(resolve.call.asked);
        assert_int_equal(resolve.missing_count, MANY);
    }
    temp_spine_close(&temp);
}

/* ---- list
 * ---------------------------------------------------------------------------------------- */

static void test_pages(void **state)
{
    char id[16];
    int expected = 22;
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    for (int i = 0; i < 23; i++) {
        snprintf(id, sizeof id, "m%d", i);
        assert_int_equal(temp_remember(&temp, id, "x", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
        if (i % 5 == 0)
            assert_int_equal(pin(id, true), HANDOFF_OK);
    }
    struct handoff_spine_list list = {.arena = &temp.arena, .limit = 5};
    for (int page = 0; page < 5; page++) {
        assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_list, &list), HANDOFF_OK);
        for (size_t i = 0; i < list.count; i++, expected--) {
            snprintf(id, sizeof id, "m%d", expected);
            assert_span(list.memories[i].id, id);
        }
        assert_int_equal(list.next.data == NULL, page == 4);
        list.cursor = list.next;
        if (page == 0) /* a removed or a new memory in between repeats and skips nothing */
            assert_int_equal(temp_remember(&temp, "new", "x", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
        if (page == 1)
            assert_int_equal(forget("m13"), HANDOFF_OK);
    }
    assert_int_equal(expected, -1);
    list = (struct handoff_spine_list){.arena = &temp.arena, .limit = 5, .pinned_only = true};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_list, &list), HANDOFF_OK);
    assert_int_equal(list.count, 5);
    assert_null(list.next.data);
    assert_span(list.memories[4].id, "m0");
    static const char *const bad[] = {"", "x", "-1", "0", "12x", "9999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        list.cursor = span(bad[i]);
        assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_list, &list),
                         HANDOFF_ERR_INVALID_CURSOR);
    }
    temp_spine_close(&temp);
}

/* ---- token counts
 * ---------------------------------------------------------------------------------- */

static enum handoff_code keep(const char *id, int64_t version, int64_t tokens)
{
    struct handoff_token_count counts[2] = {
        {span(id), version, HANDOFF_RENDERING_FULL, tokens},
        {span("nobody"), version, HANDOFF_RENDERING_FULL, tokens},
    };
    struct handoff_spine_keep_tokens call = {
        .encoding = span("o200k_base"), .counts = counts, .count = 2};
    return TEMP_SPINE_CALL(&temp, handoff_spine_keep_tokens, &call);
}

static void test_token_counts_live_as_long_as_the_text(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(temp_remember(&temp, "a", "first", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    int64_t version = get("a")->memory.version;
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_FULL], -1);
    assert_int_equal(keep("a", version, 17), HANDOFF_OK);
    assert_int_equal(keep("a", version, 18), HANDOFF_OK);
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_FULL], 18);
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_SUMMARY], -1);
    assert_int_equal(pin("a", true), HANDOFF_OK);
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_FULL], -1);
    assert_int_equal(keep("a", version, 19), HANDOFF_OK);
    assert_int_equal(temp_remember(&temp, "a", "second", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_FULL], -1);
    assert_int_equal(keep("a", version, 20), HANDOFF_OK); /* counted before the text changed */
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_FULL], -1);
    version = get("a")->memory.version;
    assert_int_equal(forget("a"), HANDOFF_OK);
    assert_int_equal(temp_remember(&temp, "a", "third", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_true(get("a")->memory.version != version); /* a version never comes back */
    struct handoff_db *db = handoff_store_reader(temp.store, &temp.error);
    int64_t left;
    assert_int_equal(
        handoff_db_number(db, "SELECT count(*) FROM memory_tokens", &left, &temp.error),
        HANDOFF_OK);
    assert_int_equal(left, 0);
    handoff_store_reader_done(temp.store, db);
    temp_spine_close(&temp);
}

static void test_token_counts_come_with_a_put(void **state)
{
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    struct handoff_spine_put put = {
        .memory = {.id = span("a"), .content = span("first")},
        .encoding = span("o200k_base"),
        .tokens = {[HANDOFF_RENDERING_FULL] = 17, [HANDOFF_RENDERING_ID] = 9}};
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_FULL], 17);
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_SUMMARY], -1);
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_ID], 9);
    put.tokens[HANDOFF_RENDERING_FULL] = 0; /* a new text, which was not counted */
    assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    assert_int_equal(get("a")->tokens[HANDOFF_RENDERING_FULL], -1);
    temp_spine_close(&temp);
}

/* Three of 250,000 bytes make more than a page may; the cursor leads to the others. */
static void test_a_page_of_long_memories_ends_early(void **state)
{
    static char content[250001];
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    memset(content, 'x', sizeof content - 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(
            temp_remember(&temp, (char[]){(char)('a' + i), '\0'}, content, HANDOFF_IMPORTANCE_LOW),
            HANDOFF_OK);
    struct handoff_spine_list list = {.arena = &temp.arena, .limit = 5};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_list, &list), HANDOFF_OK);
    assert_int_equal(list.count, 3);
    assert_non_null(list.next.data);
    list = (struct handoff_spine_list){.arena = &temp.arena, .limit = 5, .cursor = list.next};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_list, &list), HANDOFF_OK);
    assert_int_equal(list.count, 2);
    assert_null(list.next.data);
    temp_spine_close(&temp);
}

/* ---- failures
 * ---------------------------------------------------------------------------------------- */

/* Whichever allocation of ours fails in a resolve: an error, no leak, and the next one works. */
static void test_every_allocation_failure(void **state)
{
    struct base_span ids[2] = {span("a"), span("none")};
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    assert_int_equal(temp_remember(&temp, "a", "token bucket", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    assert_int_equal(temp_remember(&temp, "b", "token ring", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
    struct base_span scope = span("user:alice");
    struct handoff_spine_put scoped = {.memory = {.id = span("c"), .content = span("token pool")},
                                       .scopes = {.all = true},
                                       .scope = scope};
    assert_int_equal(temp_put_call(&temp, &scoped), HANDOFF_OK);
    for (long n = 1;; n++) {
        struct base_arena arena;
        base_arena_init(&arena, 64);
        struct handoff_spine_resolve resolve = {.arena = &arena,
                                                .scopes = {.names = &scope, .count = 1},
                                                .task = span("task-1"),
                                                .ids = ids,
                                                .id_count = 2,
                                                .pins = true,
                                                .recent = 20,
                                                .query = span("bucket ring pool")};
        failing_memory_at(n);
        enum handoff_code code = TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve);
        bool reached = atomic_load(&failing_memory_hit);
        failing_memory_at(0);
        assert_int_equal(code, reached ? HANDOFF_ERR_OUT_OF_MEMORY : HANDOFF_OK);
        assert_int_equal(resolve.found_count, reached ? 0 : 3);
        base_arena_free(&arena);
        if (!reached) {
            assert_true(n > 4);
            break;
        }
    }
    temp_spine_close(&temp);
}

/* A put through a disk that fails at the n-th operation: refused or there, text and index agree. */
static void test_every_disk_failure_while_putting(void **state)
{
    struct handoff_store_options options = {.vfs = "fault", .checkpoint_pages = 1};
    (void)state;
    for (long n = 1;; n++) {
        temp_spine_open(&temp, &options, usual);
        assert_int_equal(temp_remember(&temp, "a", "first bucket", HANDOFF_IMPORTANCE_LOW),
                         HANDOFF_OK);
        fault_at(FAULT_ANY, n, false, SQLITE_FULL);
        enum handoff_code code = temp_remember(&temp, "a", "second wheel", HANDOFF_IMPORTANCE_LOW);
        bool reached = atomic_load(&fault.failures) > 0;
        fault_lift();
        assert_true(code == HANDOFF_OK || (reached && code == HANDOFF_ERR_STORE_FULL));
        struct handoff_spine_resolve resolve = {
            .arena = &temp.arena, .recent = 1, .query = span("wheel")};
        assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
        assert_int_equal(resolve.found_count, code == HANDOFF_OK ? 1 : 0);
        resolve.ids = (struct base_span[]){span("a")};
        resolve.id_count = 1;
        assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_resolve, &resolve), HANDOFF_OK);
        assert_int_equal(resolve.found_count, 1);
        assert_true((resolve.found[0].relevance > 0) == (code == HANDOFF_OK));
        assert_span(resolve.found[0].memory.content,
                    code == HANDOFF_OK ? "second wheel" : "first bucket");
        assert_int_equal(temp_remember(&temp, "a", "third", HANDOFF_IMPORTANCE_LOW), HANDOFF_OK);
        temp_spine_close(&temp);
        if (!reached) {
            assert_true(n > 5);
            break;
        }
    }
}

/* ---- threads
 * ------------------------------------------------------------------------------------------ */

enum { WRITES = 600 };

static atomic_bool writing;

static void *read_all_the_time(void *argument)
{
    (void)argument;
    while (atomic_load(&writing)) {
        struct base_arena arena = {0};
        struct handoff_spine_resolve resolve = {
            .arena = &arena, .recent = 10, .pins = true, .query = span("bucket number")};
        BASE_CHECK(resolve_now(temp.spine, &resolve) == HANDOFF_OK);
        for (size_t i = 0; i < resolve.found_count; i++) /* never half of a memory */
            BASE_CHECK(
                base_span_equal(resolve.found[i].memory.content, resolve.found[i].memory.summary));
        base_arena_free(&arena);
    }
    return NULL;
}

static void test_readers_beside_the_writer(void **state)
{
    pthread_t readers[2];
    (void)state;
    temp_spine_open(&temp, NULL, usual);
    atomic_store(&writing, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_all_the_time, NULL), 0);
    for (int i = 0; i < WRITES; i++) {
        char id[16], text[64];
        snprintf(id, sizeof id, "m%d", i % 50);
        snprintf(text, sizeof text, "bucket number %d", i);
        struct handoff_spine_put put = {
            .memory = {.id = span(id), .content = span(text), .summary = span(text)},
            .pin = i % 3 ? HANDOFF_PIN_KEEP : HANDOFF_PIN_YES};
        assert_int_equal(temp_put_call(&temp, &put), HANDOFF_OK);
    }
    atomic_store(&writing, false);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    struct handoff_spine_stats stats = {0};
    assert_int_equal(TEMP_SPINE_CALL(&temp, handoff_spine_stats, &stats), HANDOFF_OK);
    assert_int_equal(stats.memories, 50);
    temp_spine_close(&temp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_comes_back),
        cmocka_unit_test(test_putting_again_replaces),
        cmocka_unit_test(test_only_the_owner_changes_a_memory),
        cmocka_unit_test(test_a_memory_of_nobody_is_the_operators),
        cmocka_unit_test(test_remove_and_pin_say_what_is_not_there),
        cmocka_unit_test(test_limits_name_field_seen_allowed),
        cmocka_unit_test(test_metadata_must_be_json),
        cmocka_unit_test(test_importance_names),
        cmocka_unit_test(test_numbers_out_of_range),
        cmocka_unit_test(test_pins_are_limited),
        cmocka_unit_test(test_found_once_with_all_reasons),
        cmocka_unit_test(test_the_first_pin_is_found),
        cmocka_unit_test(test_the_first_memory_is_found),
        cmocka_unit_test(test_many_ids_are_looked_for_on_a_reader),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_a_page_of_long_memories_ends_early),
        cmocka_unit_test(test_token_counts_come_with_a_put),
        cmocka_unit_test(test_token_counts_live_as_long_as_the_text),
        cmocka_unit_test(test_every_allocation_failure),
        cmocka_unit_test(test_every_disk_failure_while_putting),
        cmocka_unit_test(test_readers_beside_the_writer),
    };
    fault_vfs_register();
    return RUN_TESTS(tests);
}
