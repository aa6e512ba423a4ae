/* SPDX-License-Identifier: Apache-2.0 */
/* A spine of tools: its rows, what is sent, streams of events, and what answers mean. */
#include "tests/support/unit.h"

#include <string.h>

#include "client/spine/mcp/events.h"
#include "client/spine/mcp/mcp_spine.h"
#include "client/spine/mcp/message.h"
#include "client/spine/mcp/session.h"
#include "lib/base/json.h"

#define ROW        "\"get\":{\"tool\":\"fact_get\",\"arguments\":{\"key\":\"{id}\"}}"
#define WITH(rows) "{\"operations\":{" rows "}}"

static struct handoff_remote_table table;
static struct handoff_remote_request request;
static struct base_arena arena;
static struct base_buffer data;
static void *session;

static int set_up(void **unused)
{
    (void)unused;
    base_arena_init(&arena, 0);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    handoff_mcp_session_close(session);
    session = NULL;
    handoff_remote_table_free(&table);
    handoff_remote_request_free(&request);
    request = (struct handoff_remote_request){0};
    base_buffer_free(&data);
    base_arena_free(&arena);
    return 0;
}

static void read_table(const char *text)
{
    struct handoff_error error;
    if (handoff_remote_table_read(&table, &handoff_mcp_wire, text, &error) != HANDOFF_OK)
        fail_msg("%s: %s (%s)", error.field, error.message, error.seen);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void test_what_is_wrong_with_a_row_is_named_with_its_place(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *field;
    } bad[] = {
        {WITH("\"get\":{}"), "operations.get.tool"},
        {WITH("\"get\":{\"tool\":7}"), "operations.get.tool"},
        {WITH("\"get\":{\"tool\":\"\"}"), "operations.get.tool"},
        {WITH("\"get\":{\"tool\":\"a\\r\\nX: b\"}"), "operations.get.tool"},
        {WITH("\"get\":{\"tool\":\"a b\"}"), "operations.get.tool"},
        {WITH("\"get\":{\"tool\":\"a\",\"arguments\":[]}"), "operations.get.arguments"},
        {WITH("\"get\":{\"tool\":\"a\",\"absent\":7}"), "operations.get.absent"},
        {WITH("\"get\":{\"tool\":\"a\",\"absent\":\"\"}"), "operations.get.absent"},
        {WITH("\"get\":{\"tool\":\"a\",\"method\":\"GET\"}"), "operations.get.method"},
        {WITH("\"get\":{\"tool\":\"a\",\"memories\":\"facts\"}"), "operations.get.memories"},
        {WITH("\"get\":{\"tool\":\"a\",\"arguments\":{\"key\":[\"{idd}\"]}}"),
         "operations.get.arguments"},
        {WITH("\"get\":{\"tool\":\"a\",\"arguments\":{\"key\":\"{content}\"}}"),
         "operations.get.arguments"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct handoff_error error = {0};
        if (handoff_remote_table_read(&table, &handoff_mcp_wire, bad[i].text, &error) !=
                HANDOFF_ERR_INVALID ||
            strcmp(error.field, bad[i].field) != 0)
            fail_msg("%s: code %d, field %s", bad[i].text, (int)error.code, error.field);
        handoff_remote_table_free(&table);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void frame(void)
{
    session = handoff_mcp_session_open(&table);
    assert_non_null(session);
    handoff_mcp_conversation.frame(session, &request);
}

static void test_values_stay_in_the_arguments(void **unused)
{
    (void)unused;
    read_table(WITH(ROW));
    const struct handoff_remote_values values = {.id = base_span_text("\"},\"name\":\"x")};
    handoff_mcp_wire.compose(&table.rows[HANDOFF_REMOTE_GET], &values, &request);
    frame();
    assert_string_equal(request.framed.data,
                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                        "\"name\":\"fact_get\",\"arguments\":{\"key\":\"\\\"},\\\"name\\\":\\\"x\"}"
                        "}}");
    assert_string_equal(request.method, "POST");
    assert_int_equal(request.target.size, 0);
}

static void test_a_tool_without_arguments_gets_none(void **unused)
{
    (void)unused;
    read_table(WITH(ROW ",\"recent\":{\"tool\":\"all\"}"));
    const struct handoff_remote_values values = {.id = base_span_text("a")};
    handoff_mcp_wire.compose(&table.rows[HANDOFF_REMOTE_RECENT], &values, &request);
    assert_string_equal(request.body.data, "\"name\":\"all\",\"arguments\":{}");
}

/* ---- greeting -------------------------------------------------------------------------------- */

static enum handoff_remote_greeting answer(long status, const char *text, const char *session_id)
{
    handoff_mcp_conversation.frame(session, &request);
    request.status = status;
    base_buffer_clear(&request.answer);
    base_buffer_printf(&request.answer, text, (int)request.number);
    base_buffer_clear(&request.session);
    base_buffer_text(&request.session, session_id);
    return handoff_mcp_conversation.greet(session, &request);
}

#define RESULT(result) "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":" result "}"
#define TOOLS          RESULT("{\"tools\":[{\"name\":\"fact_get\"},{\"name\":7},7,{}]}")
#define INITIALIZED                                                                                \
    RESULT("{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{}}")
#define MORE HANDOFF_REMOTE_GREETING_MORE
#define DONE HANDOFF_REMOTE_GREETING_DONE

static void begin(const char *rows)
{
    read_table(rows);
    session = handoff_mcp_session_open(&table);
    assert_non_null(session);
    assert_int_equal(handoff_mcp_conversation.greet(session, &request), MORE);
    assert_string_equal(request.rpc, "server/discover");
}

static bool has_header(const char *header)
{
    for (size_t at = 0; at < request.headers.size; at += strlen(request.headers.data + at) + 1) {
        if (strcmp(request.headers.data + at, header) == 0)
            return true;
    }
    return false;
}

static void test_the_era_without_sessions(void **unused)
{
    (void)unused;
    begin(WITH(ROW ",\"put\":{\"tool\":\"fact_put\"}"));
    assert_int_equal(answer(200, RESULT("{\"supportedVersions\":[\"2026-07-28\"]}"), ""), MORE);
    assert_string_equal(request.rpc, "tools/list");
    handoff_mcp_conversation.frame(session, &request);
    assert_true(has_header("MCP-Protocol-Version: 2026-07-28"));
    assert_true(has_header("Mcp-Method: tools/list"));
    assert_non_null(
        strstr(request.framed.data, "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\""));
    assert_int_equal(answer(200, TOOLS, ""), DONE);
    assert_int_equal(handoff_mcp_session_lacks(session), 1u << HANDOFF_REMOTE_PUT);
}

static void test_the_era_with_sessions(void **unused)
{
    (void)unused;
    begin(WITH(ROW));
    assert_int_equal(answer(400, "{\"error\":\"what\"}", ""), MORE);
    assert_string_equal(request.rpc, "initialize");
    assert_int_equal(request.headers.size, 0);
    assert_int_equal(answer(200, INITIALIZED, "s-1"), MORE);
    assert_string_equal(request.rpc, "notifications/initialized");
    handoff_mcp_conversation.frame(session, &request);
    assert_null(strstr(request.framed.data, "\"id\""));
    assert_true(has_header("MCP-Protocol-Version: 2025-06-18"));
    assert_true(has_header("Mcp-Session-Id: s-1"));
    assert_int_equal(answer(202, "", ""), MORE);
    assert_int_equal(answer(200, TOOLS, ""), DONE);
    assert_int_equal(handoff_mcp_session_lacks(session), 0);
}

static void test_each_request_of_a_lost_session_is_told_so(void **unused)
{
    (void)unused;
    begin(WITH(ROW));
    assert_int_equal(answer(404, "", ""), MORE);
    assert_int_equal(answer(200, INITIALIZED, "s-1"), MORE);
    assert_int_equal(answer(202, "", ""), MORE);
    assert_int_equal(answer(200, TOOLS, ""), DONE);
    struct handoff_remote_request calls[2] = {{.rpc = "tools/call"}, {.rpc = "tools/call"}};
    for (int i = 0; i < 2; i++) {
        handoff_mcp_conversation.frame(session, &calls[i]);
        calls[i].status = 404;
        assert_true(handoff_mcp_conversation.is_forgotten(&calls[i]));
        handoff_remote_request_free(&request);
        request = (struct handoff_remote_request){0};
    }
    assert_int_equal(handoff_mcp_conversation.greet(session, &request), MORE);
    for (int i = 0; i < 2; i++) {
        assert_true(handoff_mcp_conversation.is_forgotten(&calls[i]));
        handoff_remote_request_free(&calls[i]);
    }
    handoff_mcp_conversation.frame(session, &request); /* initialize: it has no session to lose */
    request.status = 404;
    assert_false(handoff_mcp_conversation.is_forgotten(&request));
}

static void assert_greeting_fails(const char *why)
{
    assert_non_null(request.failure);
    if (!strstr(request.failure, why))
        fail_msg("%s", request.failure);
}

static void test_greetings_that_fail_say_why(void **unused)
{
    (void)unused;
    static const struct {
        long status;
        const char *text, *session, *why;
    } bad[] = {
        {500, "", "", "status 500"},
        {200, "{}", "", "no result"},
        {200, RESULT("{\"protocolVersion\":\"2024-11-05\"}"), "", "no version"},
        {200, RESULT("{\"protocolVersion\":7}"), "", "no version"},
        {200, INITIALIZED, "a b", "session id"},
        {200, INITIALIZED, "\xC3\xA9", "session id"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        begin(WITH(ROW));
        assert_int_equal(answer(404, "", ""), MORE);
        assert_int_equal(answer(bad[i].status, bad[i].text, bad[i].session),
                         HANDOFF_REMOTE_GREETING_FAILED);
        assert_greeting_fails(bad[i].why);
        tear_down(NULL);
        set_up(NULL);
    }
}

static void test_a_server_without_the_tool_of_get_is_none(void **unused)
{
    (void)unused;
    begin(WITH("\"get\":{\"tool\":\"other\",\"arguments\":{\"id\":\"{id}\"}}"));
    assert_int_equal(answer(200, RESULT("{\"supportedVersions\":[\"2026-07-28\"]}"), ""), MORE);
    assert_int_equal(answer(200, TOOLS, ""), HANDOFF_REMOTE_GREETING_FAILED);
    assert_greeting_fails("get and get_many");
}

static void test_a_server_that_changed_its_era_is_asked_for_both(void **unused)
{
    (void)unused;
    begin(WITH(ROW));
    assert_int_equal(answer(404, "", ""), MORE);
    assert_int_equal(answer(200, INITIALIZED, "s-1"), MORE);
    assert_int_equal(answer(202, "", ""), MORE);
    assert_int_equal(answer(200, TOOLS, ""), DONE);
    handoff_remote_request_free(&request);
    request = (struct handoff_remote_request){0};
    assert_int_equal(handoff_mcp_conversation.greet(session, &request), MORE);
    assert_string_equal(request.rpc, "initialize");
    assert_int_equal(answer(404, "", ""), MORE);
    assert_string_equal(request.rpc, "server/discover");
    assert_int_equal(answer(404, "", ""), HANDOFF_REMOTE_GREETING_FAILED);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The data of all events, each in brackets, when the bytes come in pieces of this size. */
static const char *events_of(const char *bytes, size_t size, size_t piece)
{
    static char all[256];
    struct handoff_remote_stream at = {0};
    size_t used = 0;
    all[0] = '\0';
    for (size_t come = 0; come < size;) {
        come = come + piece < size ? come + piece : size;
        while (handoff_mcp_next_event(base_span(bytes, come), &at, &data))
            used += (size_t)snprintf(all + used, sizeof all - used, "[%.*s]", (int)data.size,
                                     data.data ? data.data : "");
    }
    return all;
}

static void test_events_are_read_however_they_come(void **unused)
{
    (void)unused;
    static const struct {
        const char *bytes, *events;
    } streams[] = {
        {"data: a\n\n", "[a]"},
        {"data:a\r\n\r\ndata:  b\r\n\r\n", "[a][ b]"},
        {"data: a\rdata: b\r\rdata: c\n\n", "[a\nb][c]"},
        {"\xEF\xBB\xBF"
         "data: a\n\n",
         "[a]"},
        {": ping\n\nid: 1\nretry: 5\ndata\n\n", "[]"},
        {"event: other\ndata: a\n\nevent: message\ndata: b\n\nevent\ndata: c\n\n", "[b][c]"},
        {"datax: a\ndata: b\ndata:\ndata: c\n\n", "[b\n\nc]"},
        {"\n\n\ndata: a\n", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        for (size_t piece = 1; piece < 12; piece++)
            assert_string_equal(events_of(streams[i].bytes, strlen(streams[i].bytes), piece),
                                streams[i].events);
    }
}

static void test_the_answer_is_found_among_events(void **unused)
{
    (void)unused;
    request.number = 7;
    base_buffer_text(
        &request.answer,
        "data: {\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{}}\n\n"
        "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"sampling/createMessage\"}\n\n"
        "data: nothing\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"res");
    assert_false(handoff_mcp_conversation.is_whole(&request));
    base_buffer_text(&request.answer, "ult\":{\"a\":1}}\n\ndata: more\n\n");
    assert_true(handoff_mcp_conversation.is_whole(&request));
    assert_string_equal(request.answer.data, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1}}");
}

/* ---- answers --------------------------------------------------------------------------------- */

static enum handoff_remote_verdict judge(enum handoff_remote_operation operation, const char *text,
                                         struct handoff_remote_answer *answered)
{
    static const struct handoff_remote_row row = {.exists = true};
    *answered = (struct handoff_remote_answer){0};
    request.status = 200;
    request.number = 7;
    base_buffer_clear(&request.answer);
    base_buffer_text(&request.answer, text);
    return handoff_mcp_wire.judge(&row, operation, &request, &arena, answered);
}

#define SAID(result) "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":" result "}"
#define TEXT(text)   "{\"type\":\"text\",\"text\":\"" text "\"}"
#define FAILED(text) SAID("{\"isError\":true,\"content\":[" TEXT(text) "]}")
#define WRONG(code)  "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":" code ",\"message\":\"m\"}}"

static void test_what_answers_mean(void **unused)
{
    (void)unused;
    static const struct {
        enum handoff_remote_operation operation;
        const char *text;
        enum handoff_remote_verdict verdict;
        const char *document; /* or why there is none */
    } answers[] = {
        {HANDOFF_REMOTE_GET, SAID("{\"content\":[" TEXT("{\\\"a\\\":1}") "]}"),
         HANDOFF_REMOTE_ANSWERED, "{\"a\":1}"},
        {HANDOFF_REMOTE_GET, SAID("{\"structuredContent\":{\"b\":2},\"content\":[" TEXT("x") "]}"),
         HANDOFF_REMOTE_ANSWERED, "{\"b\":2}"},
        {HANDOFF_REMOTE_RECENT,
         SAID("{\"content\":[" TEXT("{}") ",{\"type\":\"image\"}," TEXT("1") "]}"),
         HANDOFF_REMOTE_ANSWERED, "[{},1]"},
        {HANDOFF_REMOTE_RECENT, SAID("{\"content\":[]}"), HANDOFF_REMOTE_ANSWERED, "[]"},
        {HANDOFF_REMOTE_GET, SAID("{\"content\":[]}"), HANDOFF_REMOTE_ABSENT, ""},
        {HANDOFF_REMOTE_GET, SAID("{\"content\":[" TEXT("No such memory") "]}"),
         HANDOFF_REMOTE_ABSENT, ""},
        {HANDOFF_REMOTE_GET, SAID("{\"content\":[" TEXT("here it is") "]}"), HANDOFF_REMOTE_FAILED,
         "not JSON"},
        {HANDOFF_REMOTE_GET, FAILED("memory x NOT FOUND"), HANDOFF_REMOTE_ABSENT, ""},
        {HANDOFF_REMOTE_GET, FAILED("the database is away"), HANDOFF_REMOTE_FAILED,
         "the tool failed: the database is away"},
        {HANDOFF_REMOTE_SEARCH, FAILED("not found"), HANDOFF_REMOTE_FAILED, "the tool failed"},
        {HANDOFF_REMOTE_PUT, FAILED("too long"), HANDOFF_REMOTE_REFUSED, "too long"},
        {HANDOFF_REMOTE_DELETE, FAILED("does not exist"), HANDOFF_REMOTE_ABSENT, ""},
        {HANDOFF_REMOTE_PUT, SAID("{\"content\":[" TEXT("ok") "]}"), HANDOFF_REMOTE_ANSWERED, NULL},
        {HANDOFF_REMOTE_PUT, WRONG("-32602"), HANDOFF_REMOTE_REFUSED, "error -32602"},
        {HANDOFF_REMOTE_GET, WRONG("-32602"), HANDOFF_REMOTE_FAILED, "error -32602"},
        {HANDOFF_REMOTE_PUT, WRONG("-32603"), HANDOFF_REMOTE_FAILED, "error -32603"},
        {HANDOFF_REMOTE_GET, SAID("{\"resultType\":\"input_required\"}"), HANDOFF_REMOTE_FAILED,
         "asks for more"},
        {HANDOFF_REMOTE_GET, SAID("7"), HANDOFF_REMOTE_FAILED, "JSON-RPC"},
        {HANDOFF_REMOTE_GET, "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}", HANDOFF_REMOTE_FAILED,
         "JSON-RPC"},
        {HANDOFF_REMOTE_GET, "[{\"id\":8,\"result\":{}}," WRONG("-1") "]", HANDOFF_REMOTE_FAILED,
         "error -1"},
        {HANDOFF_REMOTE_GET, "{", HANDOFF_REMOTE_FAILED, "JSON-RPC"},
        {HANDOFF_REMOTE_GET, "", HANDOFF_REMOTE_FAILED, "JSON-RPC"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct handoff_remote_answer answered;
        const enum handoff_remote_verdict verdict =
            judge(answers[i].operation, answers[i].text, &answered);
        base_buffer_clear(&data);
        if (answered.document)
            base_json_write(&data, answered.document);
        else
            base_buffer_text(&data, answered.why);
        if (verdict != answers[i].verdict ||
            (answers[i].document && !strstr(data.data, answers[i].document)))
            fail_msg("%s: verdict %d, %s", answers[i].text, (int)verdict, data.data);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_wrong_with_a_row_is_named_with_its_place),
        TEST(test_values_stay_in_the_arguments),
        TEST(test_a_tool_without_arguments_gets_none),
        TEST(test_the_era_without_sessions),
        TEST(test_the_era_with_sessions),
        TEST(test_each_request_of_a_lost_session_is_told_so),
        TEST(test_greetings_that_fail_say_why),
        TEST(test_a_server_without_the_tool_of_get_is_none),
        TEST(test_a_server_that_changed_its_era_is_asked_for_both),
        TEST(test_events_are_read_however_they_come),
        TEST(test_the_answer_is_found_among_events),
        TEST(test_what_answers_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
