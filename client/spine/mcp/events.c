/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a stream of events, see events.h. Pure; any thread. */
#include "client/spine/mcp/events.h"

#include <string.h>

/* Where the line at `from` ends, and where the next one begins. false: its end did not come yet,
   which is also so after a CR, since an LF may follow. */
static bool find_line_end(struct base_span bytes, size_t from, size_t *end, size_t *next)
{
    for (size_t i = from; i < bytes.size; i++) {
        if (bytes.data[i] == '\n') {
            *end = i;
            *next = i + 1;
            return true;
        }
        if (bytes.data[i] == '\r' && i + 1 < bytes.size) {
            *end = i;
            *next = bytes.data[i + 1] == '\n' ? i + 2 : i + 1;
            return true;
        }
    }
    return false;
}

/* The value of a line that has this field; absent for another one. */
static struct base_span field_value(struct base_span line, const char *name)
{
    const size_t size = strlen(name);
    if (line.size < size || memcmp(line.data, name, size) != 0)
        return base_span(NULL, 0);
    if (line.size == size)
        return base_span("", 0);
    if (line.data[size] != ':')
        return base_span(NULL, 0);
    const size_t from = size + (line.size > size + 1 && line.data[size + 1] == ' ' ? 2 : 1);
    return base_span(line.data + from, line.size - from);
}

/* The event's lines, the empty one included, are whole. */
static bool read_event(struct base_span event, struct base_buffer *data)
{
    static const char *const plain = "message";
    size_t end, next;
    bool has_data = false, is_message = true;
    base_buffer_clear(data);
    for (size_t at = 0; find_line_end(event, at, &end, &next); at = next) {
        const struct base_span line = base_span(event.data + at, end - at);
        const struct base_span value = field_value(line, "data");
        const struct base_span type = field_value(line, "event");
        if (value.data) {
            base_buffer_text(data, has_data ? "\n" : "");
            base_buffer_append(data, value.data, value.size);
            has_data = true;
        }
        if (type.data)
            is_message = type.size == 0 || base_span_equal(type, base_span_text(plain));
    }
    return has_data && is_message;
}

static void skip_byte_order_mark(struct base_span bytes, struct handoff_remote_stream *at)
{
    if (at->line_at == 0 && bytes.size >= 3 && memcmp(bytes.data, "\xEF\xBB\xBF", 3) == 0)
        *at = (struct handoff_remote_stream){3, 3, 3};
}

bool handoff_mcp_next_event(struct base_span bytes, struct handoff_remote_stream *at,
                            struct base_buffer *data)
{
    size_t end, next;
    skip_byte_order_mark(bytes, at);
    while (find_line_end(bytes, at->looked_at, &end, &next)) {
        const bool is_last = end == at->line_at;
        const size_t event_at = at->event_at;
        at->line_at = at->looked_at = next;
        if (!is_last)
            continue;
        at->event_at = next;
        if (read_event(base_span(bytes.data + event_at, next - event_at), data))
            return true;
    }
    at->looked_at = bytes.size; /* but for a CR that may be the first half of an end */
    if (at->looked_at > at->line_at && bytes.data[at->looked_at - 1] == '\r')
        at->looked_at--;
    return false;
}
