/* SPDX-License-Identifier: Apache-2.0 */
/* The down-conversion of legacy.h. Pure, any thread. */
#include "client/envelope/legacy.h"

#include "lib/base/json.h"

static void write_text(struct handoff_buffer *out, const char *key, struct handoff_span text)
{
    handoff_json_write_key(out, handoff_span_text(key));
    handoff_json_write_string(out, text);
}

static void write_value(struct handoff_buffer *out, const char *key, yyjson_val *value)
{
    handoff_json_write_key(out, handoff_span_text(key));
    handoff_json_write(out, value);
}

static void write_head(struct handoff_buffer *out, struct handoff_span source_agent,
                       struct handoff_span target_agent, struct handoff_span summary)
{
    handoff_json_write_key(out, handoff_span_text("version"));
    handoff_buffer_byte(out, '1');
    write_text(out, "from", source_agent);
    write_text(out, "to", target_agent);
    write_text(out, "task", summary);
}

void handoff_legacy_write(struct handoff_buffer *out, const struct handoff_envelope *envelope)
{
    handoff_buffer_byte(out, '{');
    write_head(out, envelope->source_agent, envelope->target_agent, envelope->summary);
    handoff_json_write_key(out, handoff_span_text("context"));
    handoff_buffer_byte(out, '{');
    write_value(out, "task", yyjson_obj_get(envelope->context, "task"));
    write_value(out, "history", envelope->history);
    write_value(out, "expected_output", envelope->expected_output);
    handoff_buffer_byte(out, '}');
    write_value(out, "memories", envelope->memories);
    write_value(out, "constraints", envelope->constraints);
    handoff_buffer_byte(out, '}');
}

void handoff_legacy_write_members(struct handoff_buffer *out, struct handoff_span source_agent,
                                  struct handoff_span target_agent, struct handoff_span summary,
                                  struct handoff_span memories, yyjson_val *constraints)
{
    write_head(out, source_agent, target_agent, summary);
    handoff_buffer_text(out, ",\"memories\":");
    handoff_buffer_append(out, memories.data, memories.size);
    handoff_buffer_text(out, ",\"constraints\":");
    handoff_json_write_object(out, constraints);
}
