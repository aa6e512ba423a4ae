/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the segments of segment.h. Pure, any thread. */
#include "client/assemble/segment.h"

#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

static inline void write_member(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_name(out, key);
    base_json_write_string(out, text);
}

void handoff_segment_memory_end_write(struct base_buffer *out,
                                      const struct handoff_segment_memory *memory)
{
    base_buffer_text(out, "\":");
    base_buffer_append(out, memory->tags.data, memory->tags.size);
    base_buffer_byte(out, '}');
}

void handoff_segment_memory_write(struct base_buffer *out,
                                  const struct handoff_segment_memory *memory,
                                  enum handoff_form form)
{
    char created[BASE_RFC3339_SIZE];
    base_rfc3339_format(memory->created_ms, created);
    base_buffer_text(out, "\":");
    base_json_write_string(out, memory->id);
    if (form == HANDOFF_FORM_FULL)
        write_member(out, "content", memory->content);
    if (form == HANDOFF_FORM_SUMMARY)
        write_member(out, "summary", memory->summary);
    write_member(out, "priority", base_span_text(memory->priority));
    base_buffer_text(out, memory->pinned ? ",\"pinned\":true" : ",\"pinned\":false");
    write_member(out, "created_at", base_span_text(created));
    base_buffer_text(out, ",\"tags");
    handoff_segment_memory_end_write(out, memory);
}

bool handoff_segment_tags(struct base_arena *arena, const struct handoff_memory *memory,
                          struct base_span *tags)
{
    struct base_buffer out = {0};
    *tags = base_span_text("[]");
    if (memory->tag_count == 0)
        return true;
    for (size_t i = 0; i < memory->tag_count; i++) {
        base_buffer_byte(&out, i ? ',' : '[');
        base_json_write_string(&out, memory->tags[i]);
    }
    base_buffer_byte(&out, ']');
    tags->data = out.failed ? NULL : base_arena_copy(arena, out.data, out.size);
    tags->size = out.size;
    base_buffer_free(&out);
    return tags->data != NULL;
}

const struct base_span handoff_segment_step_names[HANDOFF_STEP_MEMBERS] = {
#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
    [HANDOFF_STEP_AGENT] = NAME("agent"),         [HANDOFF_STEP_ACTION] = NAME("action"),
    [HANDOFF_STEP_DECISION] = NAME("decision"),   [HANDOFF_STEP_REASON] = NAME("reason"),
    [HANDOFF_STEP_MEMORY_ID] = NAME("memory_id"), [HANDOFF_STEP_AT] = NAME("at"),
#undef NAME
};

/* Its index, or HANDOFF_STEP_MEMBERS. */
static size_t place_of(yyjson_val *key)
{
    const struct base_span name = base_json_span(key);
    size_t i = 0;
    while (i < HANDOFF_STEP_MEMBERS && !base_span_equal(name, handoff_segment_step_names[i]))
        i++;
    return i;
}

size_t handoff_segment_step_sort(yyjson_val *step, yyjson_val *members[HANDOFF_STEP_MEMBERS])
{
    size_t i, n, others = 0;
    yyjson_val *key, *value;
    for (i = 0; i < HANDOFF_STEP_MEMBERS; i++)
        members[i] = NULL;
    yyjson_obj_foreach(step, i, n, key, value)
    {
        const size_t place = place_of(key);
        if (place == HANDOFF_STEP_MEMBERS)
            others++;
        else
            members[place] = yyjson_is_null(value) ? NULL : value;
    }
    return others;
}

static void write_others(struct base_buffer *out, yyjson_val *step)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(step, i, n, key, value)
    {
        if (place_of(key) < HANDOFF_STEP_MEMBERS)
            continue;
        base_json_write_key(out, base_json_span(key));
        base_json_write(out, value);
    }
}

void handoff_segment_step_write(struct base_buffer *out, yyjson_val *step)
{
    yyjson_val *members[HANDOFF_STEP_MEMBERS];
    const size_t others = handoff_segment_step_sort(step, members);
    base_buffer_text(out, "\":");
    base_json_write(out, members[HANDOFF_STEP_AGENT]);
    for (size_t i = HANDOFF_STEP_ACTION; i < HANDOFF_STEP_MEMBERS; i++) {
        if (!members[i])
            continue;
        base_json_write_key(out, handoff_segment_step_names[i]);
        base_json_write(out, members[i]);
    }
    if (others)
        write_others(out, step);
    base_buffer_byte(out, '}');
}
