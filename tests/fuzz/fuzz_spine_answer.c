/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the answer of a remote spine: as a stream of events, whole and in pieces, which must
 * come to the same; as an answer to each operation over HTTP and over the Model Context Protocol;
 * and as each answer of a greeting, which must end.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/spine/http/http_spine.h"
#include "client/spine/mcp/events.h"
#include "client/spine/mcp/mcp_spine.h"
#include "client/spine/mcp/session.h"
#include "lib/base/check.h"

static const char tools[] = "{\"operations\":{\"get\":{\"tool\":\"g\",\"arguments\":{\"i\":\"{id}"
                            "\"},\"memories\":\"/m/0\"},\"put\":{\"tool\":\"p\"},"
                            "\"search\":{\"tool\":\"s\",\"arguments\":{\"q\":\"{query}\"}}}}";

static struct handoff_remote_table http_table, mcp_table;

static void read_tables(void)
{
    if (mcp_table.doc)
        return;
    BASE_CHECK(handoff_remote_table_read(&http_table, &handoff_http_wire, handoff_http_usual_table,
                                         NULL) == HANDOFF_OK);
    BASE_CHECK(handoff_remote_table_read(&mcp_table, &handoff_mcp_wire, tools, NULL) == HANDOFF_OK);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* All data, each event's with its end marked, of bytes that come in pieces of this size. */
static void read_events(struct base_span bytes, size_t piece, struct base_buffer *all)
{
    struct handoff_remote_stream at = {0};
    struct base_buffer event = {0};
    for (size_t come = 0; come < bytes.size;) {
        come = bytes.size - come > piece ? come + piece : bytes.size;
        while (handoff_mcp_next_event(base_span(bytes.data, come), &at, &event)) {
            base_buffer_append(all, event.data, event.size);
            base_buffer_byte(all, '\n');
        }
        BASE_CHECK(at.event_at <= at.line_at && at.line_at <= at.looked_at && at.looked_at <= come);
    }
    base_buffer_free(&event);
}

static void compare_pieces(struct base_span bytes, size_t piece)
{
    struct base_buffer whole = {0}, pieces = {0};
    read_events(bytes, bytes.size + 1, &whole);
    read_events(bytes, piece + 1, &pieces);
    BASE_CHECK(base_span_equal(base_buffer_span(&whole), base_buffer_span(&pieces)));
    base_buffer_free(&whole);
    base_buffer_free(&pieces);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void read_memories(const struct handoff_remote_table *table, yyjson_val *document,
                          struct base_arena *arena)
{
    struct handoff_memory memory;
    size_t i, n;
    yyjson_val *value;
    if (handoff_remote_read_memory(table, document, arena, &memory))
        BASE_CHECK(memory.id.size > 0 && memory.content.size > 0);
    yyjson_arr_foreach(document, i, n, value)(void)
        handoff_remote_read_memory(table, value, arena, &memory);
}

static void judge_with(const struct handoff_remote_wire *wire,
                       const struct handoff_remote_table *table,
                       const struct handoff_remote_request *request)
{
    for (int i = 0; i < HANDOFF_REMOTE_OPERATIONS; i++) {
        const enum handoff_remote_operation operation = (enum handoff_remote_operation)i;
        struct handoff_remote_answer answer = {0};
        struct base_arena arena;
        base_arena_init(&arena, 0);
        const enum handoff_remote_verdict verdict =
            wire->judge(&table->rows[i], operation, request, &arena, &answer);
        BASE_CHECK(memchr(answer.why, '\0', sizeof answer.why) != NULL);
        if (verdict == HANDOFF_REMOTE_ANSWERED && !handoff_remote_changes(operation))
            read_memories(table, answer.document, &arena);
        if (verdict == HANDOFF_REMOTE_FAILED || verdict == HANDOFF_REMOTE_REFUSED)
            BASE_CHECK(*answer.why);
        base_arena_free(&arena);
    }
}

static void judge_answer(struct base_span bytes, long status)
{
    struct handoff_remote_request request = {.status = status, .number = 1};
    base_buffer_append(&request.answer, bytes.data, bytes.size);
    judge_with(&handoff_http_wire, &http_table, &request);
    judge_with(&handoff_mcp_wire, &mcp_table, &request);
    handoff_remote_request_free(&request);
}

/* ---- greetings ------------------------------------------------------------------------------- */

static void greet_with(struct base_span bytes, long status)
{
    enum { STEPS_MAX = 200 };
    void *session = handoff_mcp_session_open(&mcp_table);
    struct handoff_remote_request request = {0};
    int steps = 0;
    if (!session)
        return;
    while (handoff_mcp_conversation.greet(session, &request) == HANDOFF_REMOTE_GREETING_MORE) {
        BASE_CHECK(++steps < STEPS_MAX);
        handoff_mcp_conversation.frame(session, &request);
        request.status = status;
        request.number = 1; /* as the bytes have it */
        base_buffer_append(&request.answer, bytes.data, bytes.size);
        base_buffer_append(&request.session, bytes.data, bytes.size < 8 ? bytes.size : 8);
        (void)handoff_mcp_conversation.is_forgotten(&request);
    }
    handoff_remote_request_free(&request);
    handoff_mcp_session_close(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const long statuses[] = {200, 202, 400, 404, 422, 500};
    if (size == 0)
        return 0;
    const struct base_span bytes = base_span((const char *)data + 1, size - 1);
    const long status = statuses[data[0] % (sizeof statuses / sizeof *statuses)];
    read_tables();
    compare_pieces(bytes, data[0]);
    judge_answer(bytes, status);
    greet_with(bytes, status);
    return 0;
}
