/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from a stored envelope what delivery needs, see stored_envelope.h. Pure; any thread. */
#include "client/calls/stored_envelope.h"

#include "client/model/model.h"
#include "lib/base/json.h"

size_t handoff_stored_count(yyjson_val *object, const char *key)
{
    int64_t number = 0;
    return base_json_whole(yyjson_obj_get(object, key), &number) && number > 0 ? (size_t)number : 0;
}

enum handoff_pattern handoff_stored_pattern(const struct handoff_envelope *envelope)
{
    int number = handoff_name_find(handoff_pattern_names, envelope->pattern);
    return number < 0 ? HANDOFF_PATTERN_DIRECT : (enum handoff_pattern)number;
}

/* The lines of excerpt.h, from the document. */
void handoff_stored_excerpt_write(struct base_buffer *out, const struct handoff_envelope *envelope)
{
    yyjson_val *root = yyjson_doc_get_root(envelope->doc);
    yyjson_val *completeness = yyjson_obj_get(root, "completeness");
    yyjson_val *const values[] = {yyjson_obj_get(root, "envelope_version"),
                                  yyjson_obj_get(yyjson_obj_get(root, "tokens"), "count"),
                                  yyjson_obj_get(root, "memory_refs"),
                                  yyjson_obj_get(root, "missing"),
                                  yyjson_obj_get(completeness, "requested"),
                                  yyjson_obj_get(completeness, "included"),
                                  yyjson_obj_get(completeness, "ratio")};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (i > 0)
            base_buffer_byte(out, '\n');
        if (values[i])
            base_json_write(out, values[i]);
    }
}

static int64_t deadline_of_stored(const struct handoff_envelope *envelope)
{
    int64_t wall_ms = 0;
    if (!base_json_time(yyjson_obj_get(envelope->constraints, "deadline"), &wall_ms))
        return 0;
    return wall_ms != 0 ? wall_ms : 1;
}

static int64_t created_of(const struct handoff_envelope *envelope)
{
    int64_t wall_ms = 0;
    yyjson_val *created = yyjson_obj_get(yyjson_doc_get_root(envelope->doc), "created_at");
    return base_json_time(created, &wall_ms) ? wall_ms : 0;
}

void handoff_stored_submission(const struct handoff_envelope *envelope, struct base_span text,
                               struct base_span excerpt, struct handoff_submission *submission)
{
    yyjson_val *tokens = yyjson_obj_get(yyjson_doc_get_root(envelope->doc), "tokens");
    *submission = (struct handoff_submission){.envelope = text,
                                              .stored = true,
                                              .excerpt_lines = handoff_excerpt_of_row(excerpt),
                                              .hop = envelope->hop_count,
                                              .task_id = envelope->task_id,
                                              .source = envelope->source_agent,
                                              .target = envelope->target_agent,
                                              .summary = envelope->summary,
                                              .pattern = handoff_stored_pattern(envelope),
                                              .created_ms = created_of(envelope),
                                              .deadline_ms = deadline_of_stored(envelope),
                                              .tokens = handoff_stored_count(tokens, "count"),
                                              .traceparent = envelope->traceparent,
                                              .tracestate = envelope->tracestate};
}
