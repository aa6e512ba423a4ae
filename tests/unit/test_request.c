/* SPDX-License-Identifier: Apache-2.0 */
/* What a request may be, and how each refusal reads. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/assemble/request.h"
#include "lib/base/json.h"
#include "tests/support/failing_memory.h"

#define BASE "\"source_agent\":\"a\",\"target_agent\":\"b\",\"task_summary\":\"do it\""

static enum handoff_code read_text(const char *text, struct handoff_request *request,
                                   struct handoff_error *error)
{
    return handoff_request_read(NULL, base_span_text(text), (struct base_span){0}, NULL, NULL,
                                false, request, error);
}

static void test_the_least_request(void **state)
{
    (void)state;
    struct handoff_request request;
    assert_int_equal(read_text("{" BASE ",\"channel\":null}", &request, NULL), HANDOFF_OK);
    assert_true(base_span_equal(request.source_agent, base_span_text("a")));
    assert_true(request.include_pins);
    assert_int_equal(request.include_recent, 0);
    assert_int_equal(request.strategy, -1); /* the target's */
    assert_int_equal(request.pattern, HANDOFF_PATTERN_DIRECT);
    assert_null(request.intent.data);
    assert_null(request.channel.data);
    handoff_request_free(&request);
    handoff_request_free(&request); /* harmless */
}

static void test_every_field(void **state)
{
    (void)state;
    struct handoff_request request;
    struct handoff_error error;
    const char *text =
        "{" BASE
        ",\"task_id\":\"t\",\"intent\":\"i\",\"state\":{\"progress\":\"p\",\"decisions\":[]},"
        "\"include_recent\":20,\"include_pins\":false,\"memory_ids\":[\"m1\",\"m2\"],"
        "\"constraints\":{\"max_tokens\":4000,\"deadline\":\"2026-01-30T00:00:00Z\",\"x\":[1]},"
        "\"execution_history\":[{\"agent\":\"r\",\"action\":\"did\",\"memory_id\":\"m1\",\"z\":1}],"
        "\"expected_output\":{\"format\":\"md\",\"criteria\":[\"c\"]},\"strategy\":\"lazy\","
        "\"previous_id\":\"0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000\",\"pattern\":\"broadcast\","
        "\"channel\":\"status\",\"raw_log\":false}";
    assert_int_equal(read_text(text, &request, &error), HANDOFF_OK);
    assert_int_equal(request.include_recent, 20);
    assert_false(request.include_pins);
    assert_int_equal(yyjson_arr_size(request.memory_ids), 2);
    assert_int_equal(handoff_constraints_max_tokens(request.constraints), 4000);
    assert_int_equal(request.strategy, HANDOFF_STRATEGY_LAZY);
    assert_int_equal(request.pattern, HANDOFF_PATTERN_BROADCAST);
    handoff_request_free(&request);
}

static const struct {
    const char *body;
    const char *code, *field, *seen, *allowed;
} refusals[] = {
    {"", "invalid_json", "body", "", "a JSON object"},
    {"{" BASE, "invalid_json", "body", "", ""},
    {"{" BASE ",\"intent\":\"\xff\"}", "invalid_json", "body", "", ""},
    {"[]", "invalid_request", "body", "an array", "an object"},
    {"{\"target_agent\":\"b\",\"task_summary\":\"s\"}", "invalid_request", "source_agent", "", ""},
    {"{\"source_agent\":\"b\",\"task_summary\":\"s\"}", "invalid_request", "target_agent", "", ""},
    {"{\"source_agent\":\"a\",\"target_agent\":\"b\"}", "invalid_request", "task_summary", "", ""},
    {"{" BASE ",\"constrants\":{}}", "invalid_request", "constrants", "constrants",
     "constraints (the nearest name)"},
    {"{" BASE ",\"whatever\":{}}", "invalid_request", "whatever", "whatever",
     "the fields listed in docs/envelope.md"},
    {"{" BASE ",\"intent\":\"x\",\"intent\":\"y\"}", "invalid_request", "intent", "intent",
     "each key once, at most 256 keys per object"},
    {"{" BASE ",\"constraints\":{\"a\":{\"b\":1,\"b\":2}}}", "invalid_request", "b", "b",
     "each key once, at most 256 keys per object"},
    {"{" BASE ",\"pattern\":\"broadcast\"}", "invalid_request", "pattern", "broadcast",
     "another pattern, or none; or this one with a channel"},
    {"{" BASE ",\"task_id\":7}", "invalid_request", "task_id", "7", "a string"},
    {"{" BASE ",\"task_id\":\"\"}", "invalid_request", "task_id", "0 bytes", "1 to 256 bytes"},
    {"{" BASE ",\"task_id\":\"a\\nb\"}", "invalid_request", "task_id", "a\nb",
     "printable characters"},
    {"{\"source_agent\":\"a b\",\"target_agent\":\"b\",\"task_summary\":\"s\"}", "invalid_request",
     "source_agent", "a b", "letters, digits, '.', '_' and '-'"},
    {"{" BASE ",\"include_recent\":-1}", "invalid_request", "include_recent", "-1",
     "a whole number, 0 to 1000"},
    {"{" BASE ",\"include_recent\":1.5}", "invalid_request", "include_recent", "1.5",
     "a whole number, 0 to 1000"},
    {"{" BASE ",\"include_recent\":99999999999999999999}", "invalid_request", "include_recent",
     "99999999999999999999", "a whole number, 0 to 1000"},
    {"{" BASE ",\"include_pins\":\"yes\"}", "invalid_request", "include_pins", "yes",
     "true or false"},
    {"{" BASE ",\"memory_ids\":\"m\"}", "invalid_request", "memory_ids", "m", "an array"},
    {"{" BASE ",\"memory_ids\":[\"m\",1]}", "invalid_request", "memory_ids[1]", "1",
     "the id of a memory"},
    {"{" BASE ",\"constraints\":[]}", "invalid_request", "constraints", "an array", "an object"},
    {"{" BASE ",\"constraints\":{\"max_tokens\":0}}", "invalid_request", "constraints.max_tokens",
     "0", "a whole number, 1 to 100000000"},
    {"{" BASE ",\"constraints\":{\"deadline\":\"tomorrow\"}}", "invalid_request",
     "constraints.deadline", "tomorrow", "RFC 3339, such as 2026-01-30T00:00:00Z"},
    {"{" BASE ",\"execution_history\":[{\"agent\":\"a\"}]}", "invalid_request",
     "execution_history[0].action", "", ""},
    {"{" BASE ",\"execution_history\":[{\"agent\":\"a\",\"action\":1}]}", "invalid_request",
     "execution_history[0].action", "1", "a string"},
    {"{" BASE ",\"execution_history\":[7]}", "invalid_request", "execution_history[0]", "7",
     "an object"},
    {"{" BASE ",\"state\":{\"decisions\":\"d\"}}", "invalid_request", "state.decisions", "d",
     "an array"},
    {"{" BASE ",\"expected_output\":{\"criteria\":\"c\"}}", "invalid_request",
     "expected_output.criteria", "c", "an array"},
    {"{" BASE ",\"strategy\":\"smart\"}", "invalid_request", "strategy", "smart",
     "priority, full, summary, lazy"},
    {"{" BASE ",\"pattern\":null,\"channel\":\"c\"}", "invalid_request", "channel", "", ""},
    {"{" BASE ",\"pipeline\":\"payments\"}", "invalid_request", "pipeline", "", ""},
    {"{" BASE ",\"previous_id\":\"42\"}", "invalid_request", "previous_id", "42", "a UUID"},
    {"{" BASE ",\"raw_log\":true}", "raw_log", "raw_log", "", ""},
    {"{" BASE ",\"execution_history\":[{\"kind\":\"conversation\",\"messages\":[]}]}", "raw_log",
     "execution_history[0]", "", ""},
    {"{" BASE ",\"state\":{\"raw_log\":true}}", "raw_log", "state", "", ""},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct handoff_request request;
        struct handoff_error error = {0};
        enum handoff_code code = read_text(refusals[i].body, &request, &error);
        assert_int_equal(code, error.code);
        assert_string_equal(handoff_code_name(code), refusals[i].code);
        assert_string_equal(error.field, refusals[i].field);
        if (code != HANDOFF_ERR_INVALID_JSON)
            assert_string_equal(error.seen, refusals[i].seen);
        assert_string_equal(error.allowed, refusals[i].allowed);
        assert_non_null(error.message);
    }
}

/* The request itself is the first level. */
static enum handoff_code read_nested(int levels, char open, struct handoff_error *error)
{
    struct handoff_request request;
    char text[1024] = "{" BASE ",\"constraints\":{\"a\":";
    for (int i = 2; i < levels; i++)
        strcat(text, open == '{' ? "{\"a\":" : "[");
    strcat(text, "1");
    for (int i = 2; i < levels; i++)
        strcat(text, open == '{' ? "}" : "]");
    strcat(text, "}}");
    enum handoff_code code = read_text(text, &request, error);
    if (code == HANDOFF_OK)
        handoff_request_free(&request);
    return code;
}

static void test_deep_nesting_is_refused(void **state)
{
    (void)state;
    struct handoff_error error;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read_nested(64, "{["[i], &error), HANDOFF_OK);
        assert_int_equal(read_nested(65, "{["[i], &error), HANDOFF_ERR_INVALID_JSON);
        assert_string_equal(error.allowed, "64 levels");
        assert_int_equal(read_nested(80, "{["[i], &error), HANDOFF_ERR_INVALID_JSON);
    }
}

static void test_long_lists_are_refused(void **state)
{
    (void)state;
    struct handoff_request request;
    struct handoff_error error;
    char *text = malloc(1 << 16);
    strcpy(text, "{" BASE ",\"memory_ids\":[\"m\"");
    char *end = text + strlen(text);
    for (int i = 0; i < HANDOFF_MEMORY_IDS_MAX; i++)
        end = stpcpy(end, ",\"m\"");
    strcpy(end, "]}");
    assert_int_equal(read_text(text, &request, &error), HANDOFF_ERR_INVALID);
    assert_string_equal(error.seen, "1001 entries");
    free(text);
}

static void test_the_caller_cannot_take_another_name(void **state)
{
    (void)state;
    struct handoff_request request;
    struct handoff_error error;
    struct base_span anonymous = base_span_text("{\"target_agent\":\"b\",\"task_summary\":\"s\"}");
    struct base_span named = base_span_text("{" BASE "}");
    assert_int_equal(handoff_request_read(NULL, anonymous, base_span_text("me"), NULL, NULL, false,
                                          &request, &error),
                     HANDOFF_OK);
    assert_true(base_span_equal(request.source_agent, base_span_text("me")));
    handoff_request_free(&request);
    assert_int_equal(handoff_request_read(NULL, named, base_span_text("me"), NULL, NULL, false,
                                          &request, &error),
                     HANDOFF_ERR_FORBIDDEN);
    assert_string_equal(error.field, "source_agent");
    assert_string_equal(error.seen, "a");
    assert_string_equal(error.allowed, "me, or omit it");
    assert_int_equal(
        handoff_request_read(NULL, named, base_span_text("a"), NULL, NULL, false, &request, &error),
        HANDOFF_OK);
    handoff_request_free(&request);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct handoff_request request;
    struct handoff_error error = {0};
    enum handoff_code code = HANDOFF_OK;
    long n = 1;
    do {
        failing_memory_at(n++);
        code = read_text("{" BASE ",\"memory_ids\":[\"m\"]}", &request, &error);
        assert_true(code == HANDOFF_OK || code == HANDOFF_ERR_OUT_OF_MEMORY);
        if (code == HANDOFF_OK)
            handoff_request_free(&request);
    } while (atomic_load(&failing_memory_hit));
    failing_memory_at(0);
    assert_int_equal(code, HANDOFF_OK);
    assert_true(n > 2);
}

/* What is written reads back equal, and numbers and strings keep their form. */
static void test_json_is_written_in_one_way(void **state)
{
    (void)state;
    const char *text = "{ \"a\" : [1.10, -0, 1e3, true, false, null],"
                       "\"s\":\"\\u001f\\u007f\\/\\b\\f\\n\\r\\t\\\"\\\\\\u00e9\\ud83d\\ude00\" }";
    yyjson_doc *doc;
    struct base_buffer out = {0};
    assert_int_equal(base_json_read(base_span_text(text), "t", &doc, NULL), HANDOFF_OK);
    base_json_write(&out, yyjson_doc_get_root(doc));
    assert_string_equal(out.data, "{\"a\":[1.10,-0,1e3,true,false,null],"
                                  "\"s\":\"\\u001f\x7f/\\b\\f\\n\\r\\t\\\"\\\\é😀\"}");
    yyjson_doc_free(doc);
    base_buffer_free(&out);
}

/* Every byte at every place of a text, which is read sixteen bytes at a time. */
static void test_strings_are_escaped_at_every_place(void **state)
{
    static const char around[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    static const char digits[] = "0123456789abcdef", letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char written[8] = {(char)byte};
        const char *letter = byte ? strchr(letters, byte) : NULL;
        if (letter && byte != 'b' && byte != 'f' && byte != 'n' && byte != 'r' && byte != 't')
            snprintf(written, sizeof written, "\\%c", letter[1]);
        else if (byte < 0x20)
            snprintf(written, sizeof written, "\\u00%c%c", digits[byte >> 4], digits[byte & 15]);
        for (size_t at = 0; at <= sizeof around - 1; at++) {
            char text[sizeof around], expected[64];
            struct base_buffer out = {0};
            memset(text, 'x', sizeof text);
            text[at] = (char)byte;
            snprintf(expected, sizeof expected, "\"%.*s%s%s\"", (int)at, around, written,
                     around + at);
            base_json_write_string(&out, base_span(text, sizeof text));
            assert_string_equal(out.data, expected);
            base_buffer_free(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least_request),
        cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_deep_nesting_is_refused),
        cmocka_unit_test(test_long_lists_are_refused),
        cmocka_unit_test(test_the_caller_cannot_take_another_name),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_json_is_written_in_one_way),
        cmocka_unit_test(test_strings_are_escaped_at_every_place),
    };
    return RUN_TESTS(tests);
}
