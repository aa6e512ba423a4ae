/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memories behind the tools of a server of the Model Context Protocol: an operation is a tool and
 * its arguments, and its answer what the tool says. Requests are composed on any thread, answers
 * are read on the exchange's.
 */
#include "client/spine/mcp/mcp_spine.h"

#include <stdio.h>
#include <string.h>

#include "client/secrets/redact.h"
#include "client/spine/mcp/message.h"
#include "client/spine/mcp/session.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

/* ---- rows ------------------------------------------------------------------------------------ */

/* It is sent as a header, too. */
static bool is_tool_name(struct base_span name)
{
    enum { TOOL_NAME_MAX = 128 };
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < 0x21 || name.data[i] > 0x7e)
            return false;
    }
    return name.size > 0 && name.size <= TOOL_NAME_MAX;
}

static enum handoff_code read_mcp_row(yyjson_val *object, const char *place,
                                      struct handoff_remote_row *row, struct handoff_error *error)
{
    yyjson_val *absent = yyjson_obj_get(object, "absent");
    row->tool = base_json_span(yyjson_obj_get(object, "tool"));
    row->absent = base_json_span(absent);
    if (!is_tool_name(row->tool))
        return handoff_remote_refuse_entry(place, "tool", "this is not the name of a tool",
                                           row->tool.data, "1 to 128 visible characters of ASCII",
                                           error);
    if (row->template && !yyjson_is_obj(row->template))
        return handoff_remote_refuse_entry(place, "arguments", "wrong type", NULL,
                                           "an object with the arguments of the tool", error);
    if (absent && row->absent.size == 0)
        return handoff_remote_refuse_entry(
            place, "absent", "wrong type", NULL,
            "a part of what the tool says when there is no such memory", error);
    return HANDOFF_OK;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The members of the params; the session writes the rest of the message around them. */
static void compose_mcp(const struct handoff_remote_row *row,
                        const struct handoff_remote_values *values,
                        struct handoff_remote_request *request)
{
    request->method = "POST";
    request->rpc = "tools/call";
    request->tool = row->tool;
    base_buffer_text(&request->body, "\"name\":");
    base_json_write_string(&request->body, row->tool);
    base_json_write_name(&request->body, "arguments");
    if (row->template)
        handoff_remote_compose(row, values, &request->body);
    else
        base_buffer_text(&request->body, "{}");
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool says(struct base_span text, const char *part)
{
    const size_t size = strlen(part);
    for (size_t i = 0; i + size <= text.size; i++) {
        if (strncasecmp(text.data + i, part, size) == 0)
            return true;
    }
    return false;
}

/* Tools that have no such memory either answer with nothing, or fail and say so in their words. */
static bool says_absent(const struct handoff_remote_row *row, struct base_span text)
{
    static const char *const usual[] = {"not found", "no such", "does not exist", "no memory"};
    bool said = row->absent.size > 0 && says(text, row->absent.data);
    for (size_t i = 0; !row->absent.data && i < sizeof usual / sizeof *usual; i++)
        said = said || says(text, usual[i]);
    return said;
}

static bool may_be_absent(enum handoff_remote_operation operation)
{
    return operation == HANDOFF_REMOTE_GET || operation == HANDOFF_REMOTE_DELETE;
}

/* The server's words, without credentials that may be in them. */
static void explain(struct handoff_remote_answer *answer, const char *what, struct base_span text)
{
    char said[100];
    (void)handoff_secrets_cut(said, sizeof said, text.data ? text.data : "", text.size);
    snprintf(answer->why, sizeof answer->why, "%s%s%s", what, *said ? ": " : "", said);
}

static enum handoff_remote_verdict judge_error(enum handoff_remote_operation operation,
                                               const struct handoff_mcp_message *message,
                                               struct handoff_remote_answer *answer)
{
    char what[48];
    snprintf(what, sizeof what, "error %lld of the protocol", (long long)message->code);
    explain(answer, what, message->text);
    return handoff_remote_changes(operation) && message->code == HANDOFF_MCP_INVALID_PARAMS
               ? HANDOFF_REMOTE_REFUSED
               : HANDOFF_REMOTE_FAILED;
}

static enum handoff_remote_verdict judge_failed_tool(const struct handoff_remote_row *row,
                                                     enum handoff_remote_operation operation,
                                                     struct base_span text,
                                                     struct handoff_remote_answer *answer)
{
    if (may_be_absent(operation) && says_absent(row, text))
        return HANDOFF_REMOTE_ABSENT;
    explain(answer, "the tool failed", text);
    return handoff_remote_changes(operation) ? HANDOFF_REMOTE_REFUSED : HANDOFF_REMOTE_FAILED;
}

static enum handoff_remote_verdict judge_said(const struct handoff_remote_row *row,
                                              enum handoff_remote_operation operation,
                                              yyjson_val *result, struct base_arena *arena,
                                              struct handoff_remote_answer *answer)
{
    struct base_span text;
    if (handoff_remote_changes(operation))
        return HANDOFF_REMOTE_ANSWERED;
    answer->document = handoff_mcp_read_result(result, arena, &text);
    if (answer->document)
        return operation == HANDOFF_REMOTE_GET && text.size == 0 && yyjson_is_arr(answer->document)
                   ? HANDOFF_REMOTE_ABSENT
                   : HANDOFF_REMOTE_ANSWERED;
    if (may_be_absent(operation) && says_absent(row, text))
        return HANDOFF_REMOTE_ABSENT;
    explain(answer, "what the tool says is not JSON", base_span(NULL, 0));
    return HANDOFF_REMOTE_FAILED;
}

static enum handoff_remote_verdict judge_result(const struct handoff_remote_row *row,
                                                enum handoff_remote_operation operation,
                                                yyjson_val *result, struct base_arena *arena,
                                                struct handoff_remote_answer *answer)
{
    struct base_span text;
    yyjson_val *type = yyjson_obj_get(result, "resultType");
    if (type && !yyjson_equals_str(type, "complete")) {
        explain(answer, "it asks for more instead of answering", base_span(NULL, 0));
        return HANDOFF_REMOTE_FAILED;
    }
    return handoff_mcp_tool_failed(result, &text)
               ? judge_failed_tool(row, operation, text, answer)
               : judge_said(row, operation, result, arena, answer);
}

static enum handoff_remote_verdict judge_mcp(const struct handoff_remote_row *row,
                                             enum handoff_remote_operation operation,
                                             const struct handoff_remote_request *request,
                                             struct base_arena *arena,
                                             struct handoff_remote_answer *answer)
{
    struct handoff_mcp_message message;
    if (request->failure) {
        snprintf(answer->why, sizeof answer->why, "%s", request->failure);
        return HANDOFF_REMOTE_FAILED;
    }
    const enum handoff_mcp_outcome outcome = handoff_mcp_read_message(
        base_buffer_span(&request->answer), request->number, arena, &message);
    if (outcome == HANDOFF_MCP_ERROR)
        return judge_error(operation, &message, answer);
    if (outcome == HANDOFF_MCP_RESULT && request->status >= 200 && request->status <= 299)
        return judge_result(row, operation, message.result, arena, answer);
    if (request->status >= 200 && request->status <= 299)
        snprintf(answer->why, sizeof answer->why, "its answer is not one of JSON-RPC");
    else
        snprintf(answer->why, sizeof answer->why, "status %ld", request->status);
    return HANDOFF_REMOTE_FAILED;
}

static const char *const mcp_row_keys[] = {"tool", "arguments", "memories", "more", "absent"};

const struct handoff_remote_wire handoff_mcp_wire = {
    .kind = "mcp",
    .accept = "Accept: application/json, text/event-stream",
    .row_keys = mcp_row_keys,
    .row_key_count = 5,
    .row_keys_text = "tool, arguments, memories, more and absent",
    .template_key = "arguments",
    .read_row = read_mcp_row,
    .compose = compose_mcp,
    .judge = judge_mcp,
    .conversation = &handoff_mcp_conversation,
    .open_session = handoff_mcp_session_open,
    .close_session = handoff_mcp_session_close,
    .session_lacks = handoff_mcp_session_lacks,
};
