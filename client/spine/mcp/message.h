/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - the answers of a server that speaks JSON-RPC. Pure; any thread. */
#ifndef HANDOFF_SPINE_MCP_MESSAGE_H
#define HANDOFF_SPINE_MCP_MESSAGE_H

#include <yyjson.h>

#include "lib/base/arena.h"
#include "lib/base/span.h"

enum handoff_mcp_outcome {
    HANDOFF_MCP_NOTHING, /* it is no answer to this request */
    HANDOFF_MCP_RESULT,
    HANDOFF_MCP_ERROR, /* of the protocol; a tool that fails gives a result */
};

enum {
    HANDOFF_MCP_INVALID_PARAMS = -32602,
    HANDOFF_MCP_SERVER_ERROR = -32000,    /* with 400, of a server that lacks the session */
    HANDOFF_MCP_HEADER_MISMATCH = -32020, /* of one of the era without sessions */
    HANDOFF_MCP_VERSION_UNKNOWN = -32022, /* likewise */
};

struct handoff_mcp_message {
    yyjson_val *result;    /* an object */
    int64_t code;          /* of an error, */
    struct base_span text; /* and its message; lent by the arena */
};

/* What the text answers to the request of this number: it is a message, or an array with one. An
   error without an id answers any request. */
enum handoff_mcp_outcome handoff_mcp_read_message(struct base_span text, int64_t number,
                                                  struct base_arena *arena,
                                                  struct handoff_mcp_message *message);

/* What a tool said, as one document: its structured content, or the JSON of its texts (an array if
   there are several). NULL: it is not JSON, and `text` is what it says instead. */
yyjson_val *handoff_mcp_read_result(yyjson_val *result, struct base_arena *arena,
                                    struct base_span *text);

/* Whether the tool failed; `text` is what it said about it. */
bool handoff_mcp_tool_failed(yyjson_val *result, struct base_span *text);

#endif
