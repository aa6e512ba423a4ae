/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation with a server of the Model Context Protocol, see session.h. On the exchange's
   thread. */
#include "client/spine/mcp/session.h"

#include <stdio.h>
#include <string.h>

#include "client/spine/mcp/events.h"
#include "client/spine/mcp/message.h"
#include "lib/base/arena.h"
#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum {
    SESSION_MAGIC = 0x6d637073,
    SESSION_ID_MAX = 1024, /* bytes; a longer one could not be sent */
    TOOL_PAGES_MAX = 64,   /* of tools/list: a server that always names another page ends here */
};

#define LATEST_WITH_SESSIONS "2025-11-25"
#define WITHOUT_SESSIONS     "2026-07-28"
#define SESSION_HEADER       "Mcp-Session-Id: "
#define METHOD_HEADER        "Mcp-Method: "

enum era { ERA_UNKNOWN, ERA_SESSIONS, ERA_STATELESS };
enum stage { STAGE_DISCOVER, STAGE_INITIALIZE, STAGE_INITIALIZED, STAGE_TOOLS };

struct session {
    unsigned magic;
    const struct handoff_remote_table *table;
    enum era era;
    enum stage stage;
    bool discovered, initialized; /* tried in this greeting */
    bool discover_was_silent;     /* so the next greeting begins with initialize */
    char version[16];             /* that was agreed on */
    char id[SESSION_ID_MAX + 1];  /* "": there is none */
    int64_t number;               /* of the last request */
    unsigned found;               /* operations whose tools the server has */
    unsigned pages;
    char why[128]; /* the last greeting failed */
};

static struct session *session_of(void *session)
{
    struct session *own = session;
    BASE_CHECK_MAGIC(own, SESSION_MAGIC);
    return own;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static void add_header_line(struct handoff_remote_request *request, const char *name,
                            struct base_span value)
{
    base_buffer_text(&request->headers, name);
    base_buffer_append(&request->headers, value.data, value.size);
    base_buffer_byte(&request->headers, '\0');
}

static void add_session_headers(const struct session *session,
                                struct handoff_remote_request *request)
{
    base_buffer_clear(&request->headers);
    if (*session->version)
        add_header_line(request, "MCP-Protocol-Version: ", base_span_text(session->version));
    if (*session->id)
        add_header_line(request, SESSION_HEADER, base_span_text(session->id));
    if (session->era != ERA_STATELESS)
        return;
    add_header_line(request, METHOD_HEADER, base_span_text(request->rpc));
    if (request->tool.size > 0)
        add_header_line(request, "Mcp-Name: ", request->tool);
}

static bool is_notification(const struct handoff_remote_request *request)
{
    return strncmp(request->rpc, "notifications/", 14) == 0;
}

/* request->body has the members of the params. */
static void frame_request(void *context, struct handoff_remote_request *request)
{
    struct session *session = session_of(context);
    struct base_buffer *out = &request->framed;
    add_session_headers(session, request);
    base_buffer_clear(out);
    base_buffer_text(out, "{\"jsonrpc\":\"2.0\"");
    if (!is_notification(request)) {
        request->number = ++session->number;
        base_json_write_name(out, "id");
        base_buffer_number(out, request->number);
    }
    base_json_write_name(out, "method");
    base_json_write_string(out, base_span_text(request->rpc));
    base_json_write_name(out, "params");
    base_buffer_byte(out, '{');
    base_buffer_append(out, request->body.data, request->body.size);
    if (session->era == ERA_STATELESS) {
        base_json_write_name(out, "_meta");
        base_buffer_text(out, "{\"io.modelcontextprotocol/protocolVersion\":\"" WITHOUT_SESSIONS
                              "\",\"io.modelcontextprotocol/clientCapabilities\":{}}");
    }
    base_buffer_text(out, "}}");
    out->failed = out->failed || request->body.failed;
}

static enum handoff_remote_greeting ask_next(struct session *session, enum stage stage,
                                             const char *rpc,
                                             struct handoff_remote_request *request)
{
    handoff_remote_request_free(request);
    *request = (struct handoff_remote_request){.method = "POST", .rpc = rpc};
    session->stage = stage;
    return HANDOFF_REMOTE_GREETING_MORE;
}

static enum handoff_remote_greeting discover(struct session *session,
                                             struct handoff_remote_request *request)
{
    session->era = ERA_STATELESS; /* unless it turns out that it is not */
    session->discovered = true;
    session->id[0] = '\0';
    snprintf(session->version, sizeof session->version, "%s", WITHOUT_SESSIONS);
    return ask_next(session, STAGE_DISCOVER, "server/discover", request);
}

static enum handoff_remote_greeting initialize(struct session *session,
                                               struct handoff_remote_request *request)
{
    session->era = ERA_SESSIONS;
    session->initialized = true;
    session->version[0] = session->id[0] = '\0';
    const enum handoff_remote_greeting more =
        ask_next(session, STAGE_INITIALIZE, "initialize", request);
    base_buffer_text(&request->body,
                     "\"protocolVersion\":\"" LATEST_WITH_SESSIONS "\",\"capabilities\":{},"
                     "\"clientInfo\":{\"name\":\"handoff-exporter\",\"version\":");
    base_json_write_string(&request->body, base_span_text(handoff_version()));
    base_buffer_byte(&request->body, '}');
    return more;
}

static enum handoff_remote_greeting list_tools(struct session *session, struct base_span cursor,
                                               struct handoff_remote_request *request)
{
    struct base_buffer body = {0};
    if (cursor.size > 0) {
        base_json_write_name(&body, "cursor");
        base_json_write_string(&body, cursor);
    }
    const enum handoff_remote_greeting more = ask_next(session, STAGE_TOOLS, "tools/list", request);
    request->body = body;
    return more;
}

/* ---- what is answered ------------------------------------------------------------------------ */

static enum handoff_remote_greeting
fail_greeting(struct session *session, struct handoff_remote_request *request, const char *why)
{
    snprintf(session->why, sizeof session->why, "%s: %s", request->rpc, why);
    request->failure = session->why;
    session->era = ERA_UNKNOWN;
    session->id[0] = '\0';
    return HANDOFF_REMOTE_GREETING_FAILED;
}

static enum handoff_remote_greeting fail_by_status(struct session *session,
                                                   struct handoff_remote_request *request)
{
    char why[32];
    snprintf(why, sizeof why, "status %ld", request->status);
    return fail_greeting(session, request, why);
}

static bool is_good(const struct handoff_remote_request *request)
{
    return request->status >= 200 && request->status <= 299;
}

static bool names_version(yyjson_val *versions, const char *version)
{
    size_t i, n;
    yyjson_val *each;
    bool named = false;
    yyjson_arr_foreach(versions, i, n, each) named = named || yyjson_equals_str(each, version);
    return named;
}

/* Whether it may be of the other era: it answered, but not to this. */
static bool may_be_other_era(const struct handoff_remote_request *request)
{
    const long status = request->status;
    return status >= 200 && !(status >= 300 && status <= 399) && status != 401 && status != 403 &&
           status != 429;
}

static enum handoff_remote_greeting after_discover(struct session *session,
                                                   struct handoff_remote_request *request,
                                                   struct base_arena *arena)
{
    struct handoff_mcp_message message;
    const enum handoff_mcp_outcome outcome = handoff_mcp_read_message(
        base_buffer_span(&request->answer), request->number, arena, &message);
    if (is_good(request) && outcome == HANDOFF_MCP_RESULT &&
        names_version(yyjson_obj_get(message.result, "supportedVersions"), WITHOUT_SESSIONS))
        return list_tools(session, base_span(NULL, 0), request);
    if (may_be_other_era(request) && !session->initialized)
        return initialize(session, request);
    return is_good(request) ? fail_greeting(session, request, "it speaks no version that we do")
                            : fail_by_status(session, request);
}

static bool take_version(struct session *session, yyjson_val *result)
{
    static const char *const known[] = {LATEST_WITH_SESSIONS, "2025-06-18", "2025-03-26"};
    const char *version = yyjson_get_str(yyjson_obj_get(result, "protocolVersion"));
    for (size_t i = 0; version && i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i], version) == 0) {
            snprintf(session->version, sizeof session->version, "%s", version);
            return true;
        }
    }
    return false;
}

/* Visible ASCII, as the protocol has it, so that it cannot be more than a header. */
static bool take_session_id(struct session *session, struct base_span id)
{
    if (id.size > SESSION_ID_MAX)
        return false;
    for (size_t i = 0; i < id.size; i++) {
        if (id.data[i] < 0x21 || id.data[i] > 0x7e)
            return false;
    }
    memcpy(session->id, id.data, id.size);
    session->id[id.size] = '\0';
    return true;
}

static enum handoff_remote_greeting after_initialize(struct session *session,
                                                     struct handoff_remote_request *request,
                                                     struct base_arena *arena)
{
    struct handoff_mcp_message message;
    const enum handoff_mcp_outcome outcome = handoff_mcp_read_message(
        base_buffer_span(&request->answer), request->number, arena, &message);
    const bool is_taken = is_good(request) && outcome == HANDOFF_MCP_RESULT;
    if (!is_taken && may_be_other_era(request) && !session->discovered)
        return discover(session, request);
    if (!is_good(request))
        return fail_by_status(session, request);
    if (!is_taken)
        return fail_greeting(session, request, "its answer has no result");
    if (!take_version(session, message.result))
        return fail_greeting(session, request, "it speaks no version that we do");
    if (!take_session_id(session, base_buffer_span(&request->session)))
        return fail_greeting(session, request, "its session id is not one");
    return ask_next(session, STAGE_INITIALIZED, "notifications/initialized", request);
}

static enum handoff_remote_greeting after_initialized(struct session *session,
                                                      struct handoff_remote_request *request)
{
    if (!is_good(request))
        return fail_by_status(session, request);
    return list_tools(session, base_span(NULL, 0), request);
}

static void note_tools(struct session *session, yyjson_val *tools)
{
    size_t i, n;
    yyjson_val *tool;
    yyjson_arr_foreach(tools, i, n, tool)
    {
        const struct base_span name = base_json_span(yyjson_obj_get(tool, "name"));
        for (unsigned row = 0; name.data && row < HANDOFF_REMOTE_OPERATIONS; row++) {
            if (session->table->rows[row].exists &&
                base_span_equal(session->table->rows[row].tool, name))
                session->found |= 1u << row;
        }
    }
}

static enum handoff_remote_greeting end_tools(struct session *session,
                                              struct handoff_remote_request *request)
{
    const unsigned lookups = 1u << HANDOFF_REMOTE_GET | 1u << HANDOFF_REMOTE_GET_MANY;
    if (session->found & lookups)
        return HANDOFF_REMOTE_GREETING_DONE;
    return fail_greeting(session, request, "it lacks the tools of get and get_many");
}

static enum handoff_remote_greeting after_tools(struct session *session,
                                                struct handoff_remote_request *request,
                                                struct base_arena *arena)
{
    struct handoff_mcp_message message;
    if (!is_good(request))
        return fail_by_status(session, request);
    if (handoff_mcp_read_message(base_buffer_span(&request->answer), request->number, arena,
                                 &message) != HANDOFF_MCP_RESULT)
        return fail_greeting(session, request, "its answer has no result");
    note_tools(session, yyjson_obj_get(message.result, "tools"));
    const struct base_span cursor = base_json_span(yyjson_obj_get(message.result, "nextCursor"));
    return cursor.size > 0 && ++session->pages < TOOL_PAGES_MAX
               ? list_tools(session, cursor, request)
               : end_tools(session, request);
}

static enum handoff_remote_greeting after_answer(struct session *session,
                                                 struct handoff_remote_request *request,
                                                 struct base_arena *arena)
{
    switch (session->stage) {
    case STAGE_DISCOVER:
        return after_discover(session, request, arena);
    case STAGE_INITIALIZE:
        return after_initialize(session, request, arena);
    case STAGE_INITIALIZED:
        return after_initialized(session, request);
    default:
        return after_tools(session, request, arena);
    }
}

/* A server whose session was lost is of the same era, unless it says otherwise. */
static enum handoff_remote_greeting begin_session(struct session *session,
                                                  struct handoff_remote_request *request)
{
    session->found = session->pages = 0;
    session->initialized = false;
    session->discovered = session->discover_was_silent;
    session->id[0] = '\0';
    return session->era == ERA_SESSIONS || session->discover_was_silent
               ? initialize(session, request)
               : discover(session, request);
}

static enum handoff_remote_greeting greet(void *context, struct handoff_remote_request *request)
{
    struct session *session = session_of(context);
    struct base_arena arena;
    if (!request->rpc)
        return begin_session(session, request);
    session->discover_was_silent = session->stage == STAGE_DISCOVER && request->failure;
    if (request->failure)
        return fail_greeting(session, request, request->failure);
    base_arena_init(&arena, 0);
    const enum handoff_remote_greeting how = after_answer(session, request, &arena);
    base_arena_free(&arena);
    return how;
}

/* ---- other answers --------------------------------------------------------------------------- */

/* Events may be anything: notifications, and requests to us, are skipped. */
static bool find_answer_in_stream(struct handoff_remote_request *request)
{
    struct base_buffer data = {0};
    struct base_arena arena;
    struct handoff_mcp_message message;
    bool found = false;
    base_arena_init(&arena, 0);
    while (!found &&
           handoff_mcp_next_event(base_buffer_span(&request->answer), &request->stream, &data)) {
        found = handoff_mcp_read_message(base_buffer_span(&data), request->number, &arena,
                                         &message) != HANDOFF_MCP_NOTHING;
        base_arena_reset(&arena);
    }
    base_arena_free(&arena);
    if (found) {
        base_buffer_free(&request->answer);
        request->answer = data;
    } else {
        base_buffer_free(&data);
    }
    return found;
}

/* As it was sent: meanwhile another greeting may have begun. */
static bool has_sent_header(const struct handoff_remote_request *request, const char *name)
{
    const struct base_buffer *headers = &request->headers;
    for (size_t at = 0; at < headers->size; at += strlen(headers->data + at) + 1) {
        if (strncmp(headers->data + at, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

/* 404 is what the protocol has for a session that is gone. Some servers answer 400; so does one
   that speaks the other era now. */
static bool is_forgotten(const struct handoff_remote_request *request)
{
    struct base_arena arena;
    struct handoff_mcp_message message;
    if (request->status != 400 && request->status != 404)
        return false;
    if (request->status == 404)
        return has_sent_header(request, SESSION_HEADER) || has_sent_header(request, METHOD_HEADER);
    base_arena_init(&arena, 0);
    const enum handoff_mcp_outcome outcome = handoff_mcp_read_message(
        base_buffer_span(&request->answer), request->number, &arena, &message);
    base_arena_free(&arena);
    return outcome == HANDOFF_MCP_ERROR && (message.code == HANDOFF_MCP_SERVER_ERROR ||
                                            message.code == HANDOFF_MCP_HEADER_MISMATCH ||
                                            message.code == HANDOFF_MCP_VERSION_UNKNOWN);
}

static bool part_session(const void *context, struct handoff_remote_request *request)
{
    const struct session *session = context;
    request->method = "DELETE";
    request->rpc = "";
    add_session_headers(session, request);
    return *session->id != '\0';
}

const struct handoff_remote_conversation handoff_mcp_conversation = {
    .greet = greet,
    .frame = frame_request,
    .is_whole = find_answer_in_stream,
    .is_forgotten = is_forgotten,
    .part = part_session,
};

/* ---- opening and closing --------------------------------------------------------------------- */

void *handoff_mcp_session_open(const struct handoff_remote_table *table)
{
    struct session *session = base_calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->magic = SESSION_MAGIC;
    session->table = table;
    return session;
}

void handoff_mcp_session_close(void *context)
{
    struct session *session = context;
    if (!session)
        return;
    BASE_CHECK_MAGIC(session, SESSION_MAGIC);
    session->magic = 0;
    base_free(session);
}

unsigned handoff_mcp_session_lacks(const void *context)
{
    const struct session *session = context;
    unsigned lacks = 0;
    for (unsigned row = 0; row < HANDOFF_REMOTE_OPERATIONS; row++) {
        if (session->table->rows[row].exists && !(session->found & 1u << row))
            lacks |= 1u << row;
    }
    return lacks;
}
