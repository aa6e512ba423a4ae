/* SPDX-License-Identifier: Apache-2.0 */
/* Writes version 1 documents; see legacy.h. Pure, any thread. */
#include "client/envelope/legacy.h"

#include <stdbool.h>

#include "lib/base/json.h"

static void write_v1_text(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_key(out, base_span_text(key));
    base_json_write_string(out, text);
}

static void write_v1_value(struct base_buffer *out, const char *key, yyjson_val *value)
{
    base_json_write_key(out, base_span_text(key));
    base_json_write(out, value);
}

static void write_v1_head(struct base_buffer *out, struct base_span source_agent,
                          struct base_span target_agent, struct base_span summary)
{
    base_json_write_key(out, base_span_text("version"));
    base_buffer_byte(out, '1');
    write_v1_text(out, "from", source_agent);
    write_v1_text(out, "to", target_agent);
    write_v1_text(out, "task", summary);
}

static bool is_complete(yyjson_val *completeness)
{
    return base_json_equal(yyjson_obj_get(completeness, "requested"),
                           yyjson_obj_get(completeness, "included"));
}

/* What this document lacks. */
static void write_v1_gaps(struct base_buffer *out, yyjson_val *root)
{
    static const char *const gaps[] = {"missing", "trimmed", "omitted", "history_trimmed",
                                       "not_continued"};
    yyjson_val *completeness = yyjson_obj_get(root, "completeness");
    if (completeness && !is_complete(completeness))
        write_v1_value(out, "completeness", completeness);
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        yyjson_val *gap = yyjson_obj_get(root, gaps[i]);
        if (gap && (!yyjson_is_ctn(gap) || yyjson_get_len(gap) > 0))
            write_v1_value(out, gaps[i], gap);
    }
}

void handoff_legacy_write(struct base_buffer *out, const struct handoff_envelope *envelope)
{
    base_buffer_byte(out, '{');
    write_v1_head(out, envelope->source_agent, envelope->target_agent, envelope->summary);
    base_json_write_key(out, base_span_text("context"));
    base_buffer_byte(out, '{');
    write_v1_value(out, "task", yyjson_obj_get(envelope->context, "task"));
    write_v1_value(out, "history", envelope->history);
    if (yyjson_arr_size(yyjson_obj_get(envelope->context, "references")) > 0)
        write_v1_value(out, "references", yyjson_obj_get(envelope->context, "references"));
    write_v1_value(out, "expected_output", envelope->expected_output);
    base_buffer_byte(out, '}');
    write_v1_value(out, "memories", envelope->memories);
    write_v1_value(out, "constraints", envelope->constraints);
    write_v1_gaps(out, yyjson_doc_get_root(envelope->doc));
    base_buffer_byte(out, '}');
}

void handoff_legacy_write_members(struct base_buffer *out, struct base_span source_agent,
                                  struct base_span target_agent, struct base_span summary,
                                  struct base_span memories, yyjson_val *constraints)
{
    write_v1_head(out, source_agent, target_agent, summary);
    base_buffer_text(out, ",\"memories\":");
    base_buffer_append(out, memories.data, memories.size);
    base_buffer_text(out, ",\"constraints\":");
    base_json_write_object(out, constraints);
}
