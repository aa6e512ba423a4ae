/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON-RPC, and what tools answer, see message.h. Pure; any thread. */
#include "client/spine/mcp/message.h"

#include "lib/base/buffer.h"
#include "lib/base/json.h"

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_answer_to(yyjson_val *object, int64_t number)
{
    yyjson_val *id = yyjson_obj_get(object, "id");
    int64_t seen;
    if (!id || yyjson_is_null(id))
        return yyjson_obj_get(object, "error") != NULL;
    return base_json_whole(id, &seen) && seen == number;
}

static enum handoff_mcp_outcome read_one(yyjson_val *object, int64_t number,
                                         struct handoff_mcp_message *message)
{
    yyjson_val *error = yyjson_obj_get(object, "error");
    if (!yyjson_is_obj(object) || !is_answer_to(object, number))
        return HANDOFF_MCP_NOTHING;
    message->result = yyjson_obj_get(object, "result");
    if (yyjson_is_obj(message->result))
        return HANDOFF_MCP_RESULT;
    if (!yyjson_is_obj(error))
        return HANDOFF_MCP_NOTHING;
    message->text = base_json_span(yyjson_obj_get(error, "message"));
    (void)base_json_whole(yyjson_obj_get(error, "code"), &message->code);
    return HANDOFF_MCP_ERROR;
}

enum handoff_mcp_outcome handoff_mcp_read_message(struct base_span text, int64_t number,
                                                  struct base_arena *arena,
                                                  struct handoff_mcp_message *message)
{
    yyjson_doc *doc;
    size_t i, n;
    yyjson_val *each;
    enum handoff_mcp_outcome outcome = HANDOFF_MCP_NOTHING;
    *message = (struct handoff_mcp_message){0};
    if (base_json_read_in(arena, text, "answer", &doc, NULL) != HANDOFF_OK)
        return HANDOFF_MCP_NOTHING;
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (!yyjson_is_arr(root))
        return read_one(root, number, message);
    yyjson_arr_foreach(root, i, n, each)
    {
        if (outcome == HANDOFF_MCP_NOTHING)
            outcome = read_one(each, number, message);
    }
    return outcome;
}

/* ---- what tools say -------------------------------------------------------------------------- */

/* The text of an item of the content; absent for another item. */
static struct base_span text_of_item(yyjson_val *item)
{
    return base_json_span(yyjson_obj_get(item, "text"));
}

static struct base_span first_text(yyjson_val *result)
{
    size_t i, n;
    yyjson_val *item;
    struct base_span text = base_span("", 0);
    yyjson_arr_foreach(yyjson_obj_get(result, "content"), i, n, item)
    {
        if (!text.size && text_of_item(item).data)
            text = text_of_item(item);
    }
    return text;
}

static yyjson_val *read_text_json(struct base_span text, struct base_arena *arena)
{
    yyjson_doc *doc;
    return base_json_read_in(arena, text, "text", &doc, NULL) == HANDOFF_OK
               ? yyjson_doc_get_root(doc)
               : NULL;
}

/* An array of the texts, each of which is JSON. */
static yyjson_val *join_texts(yyjson_val *content, struct base_arena *arena)
{
    struct base_buffer all = {.arena = arena};
    size_t i, n;
    yyjson_val *item;
    base_buffer_byte(&all, '[');
    yyjson_arr_foreach(content, i, n, item)
    {
        const struct base_span text = text_of_item(item);
        if (!text.data)
            continue;
        base_buffer_text(&all, all.size > 1 ? "," : "");
        base_buffer_append(&all, text.data, text.size);
    }
    base_buffer_byte(&all, ']');
    return all.failed ? NULL : read_text_json(base_buffer_span(&all), arena);
}

yyjson_val *handoff_mcp_read_result(yyjson_val *result, struct base_arena *arena,
                                    struct base_span *text)
{
    yyjson_val *structured = yyjson_obj_get(result, "structuredContent");
    yyjson_val *content = yyjson_obj_get(result, "content");
    *text = first_text(result);
    if (yyjson_is_obj(structured))
        return structured;
    return yyjson_arr_size(content) == 1 ? read_text_json(*text, arena)
                                         : join_texts(content, arena);
}

bool handoff_mcp_tool_failed(yyjson_val *result, struct base_span *text)
{
    *text = first_text(result);
    return yyjson_is_true(yyjson_obj_get(result, "isError"));
}
