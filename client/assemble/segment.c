/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of segment.h. Pure, any thread. */
#include "client/assemble/segment.h"

#include <string.h>

#include "client/assemble/json.h"
#include "client/base/rfc3339.h"

static void write_member(struct handoff_buffer *out, const char *key, struct handoff_span text)
{
    handoff_buffer_printf(out, ",\"%s\":", key);
    handoff_json_write_string(out, text);
}

void handoff_segment_memory_end_write(struct handoff_buffer *out,
                                      const struct handoff_segment_memory *memory)
{
    handoff_buffer_text(out, "\":");
    handoff_buffer_append(out, memory->tags.data, memory->tags.size);
    handoff_buffer_byte(out, '}');
}

void handoff_segment_memory_write(struct handoff_buffer *out,
                                  const struct handoff_segment_memory *memory,
                                  enum handoff_form form)
{
    char created[HANDOFF_RFC3339_SIZE];
    handoff_rfc3339_format(memory->created_ms, created);
    handoff_buffer_text(out, "\":");
    handoff_json_write_string(out, memory->id);
    if (form == HANDOFF_FORM_FULL)
        write_member(out, "content", memory->content);
    if (form == HANDOFF_FORM_SUMMARY)
        write_member(out, "summary", memory->summary);
    write_member(out, "priority", handoff_span_text(memory->priority));
    handoff_buffer_printf(out, ",\"pinned\":%s", memory->pinned ? "true" : "false");
    write_member(out, "created_at", handoff_span_text(created));
    handoff_buffer_text(out, ",\"tags");
    handoff_segment_memory_end_write(out, memory);
}

static const char *const step_keys[] = {"agent", "action", "decision", "reason", "memory_id", "at"};
enum { STEP_KEYS = sizeof(step_keys) / sizeof(step_keys[0]) };

static bool is_step_key(yyjson_val *key)
{
    for (size_t i = 0; i < STEP_KEYS; i++) {
        if (yyjson_equals_str(key, step_keys[i]))
            return true;
    }
    return false;
}

void handoff_segment_step_write(struct handoff_buffer *out, yyjson_val *step)
{
    size_t i, n;
    yyjson_val *key, *value;
    handoff_buffer_text(out, "\":");
    handoff_json_write(out, yyjson_obj_get(step, step_keys[0]));
    for (i = 1; i < STEP_KEYS; i++) {
        value = yyjson_obj_get(step, step_keys[i]);
        if (!value || yyjson_is_null(value))
            continue;
        handoff_json_write_key(out, handoff_span_text(step_keys[i]));
        handoff_json_write(out, value);
    }
    yyjson_obj_foreach(step, i, n, key, value)
    {
        if (is_step_key(key))
            continue;
        handoff_json_write_key(out, handoff_json_span(key));
        handoff_json_write(out, value);
    }
    handoff_buffer_byte(out, '}');
}
