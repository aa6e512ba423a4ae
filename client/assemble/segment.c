/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of segment.h. Pure, any thread. */
#include "client/assemble/segment.h"

#include "client/assemble/json.h"
#include "client/base/rfc3339.h"

static inline void write_member(struct handoff_buffer *out, const char *key,
                                struct handoff_span text)
{
    handoff_json_write_name(out, key);
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
    handoff_buffer_text(out, memory->pinned ? ",\"pinned\":true" : ",\"pinned\":false");
    write_member(out, "created_at", handoff_span_text(created));
    handoff_buffer_text(out, ",\"tags");
    handoff_segment_memory_end_write(out, memory);
}

/* The members of a step that have a place of their own. */
static const struct handoff_span step_keys[] = {
#define KEY(name)                                                                                  \
    {                                                                                              \
        name, sizeof(name) - 1                                                                     \
    }
    KEY("agent"), KEY("action"), KEY("decision"), KEY("reason"), KEY("memory_id"), KEY("at"),
#undef KEY
};
enum { STEP_KEYS = sizeof(step_keys) / sizeof(step_keys[0]) };

/* Its place, or STEP_KEYS. */
static size_t place_of(yyjson_val *key)
{
    const struct handoff_span text = handoff_json_span(key);
    size_t i = 0;
    while (i < STEP_KEYS && !handoff_span_equal(text, step_keys[i]))
        i++;
    return i;
}

void handoff_segment_step_write(struct handoff_buffer *out, yyjson_val *step)
{
    yyjson_val *known[STEP_KEYS] = {NULL};
    size_t i, n, place, others = 0;
    yyjson_val *key, *value;
    yyjson_obj_foreach(step, i, n, key, value)
    {
        place = place_of(key);
        if (place == STEP_KEYS)
            others++;
        else
            known[place] = value;
    }
    handoff_buffer_text(out, "\":");
    handoff_json_write(out, known[0]);
    for (i = 1; i < STEP_KEYS; i++) {
        if (!known[i] || yyjson_is_null(known[i]))
            continue;
        handoff_json_write_key(out, step_keys[i]);
        handoff_json_write(out, known[i]);
    }
    if (others) {
        yyjson_obj_foreach(step, i, n, key, value)
        {
            if (place_of(key) < STEP_KEYS)
                continue;
            handoff_json_write_key(out, handoff_json_span(key));
            handoff_json_write(out, value);
        }
    }
    handoff_buffer_byte(out, '}');
}
