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

/* ---- as an event ----------------------------------------------------------------------------- */

/* `*recent` is not counted: those memories were not requested. Nor is the envelope's list of what
 * was trimmed, which may name such memories: a requested one that is neither included nor missing
 * did not fit. */
static struct handoff_memory_counts count_stored_memories(yyjson_val *root)
{
    yyjson_val *completeness = yyjson_obj_get(root, "completeness");
    struct handoff_memory_counts counts = {
        .requested = handoff_stored_count(completeness, "requested"),
        .included = handoff_stored_count(completeness, "included")};
    size_t i, n;
    yyjson_val *entry;
    yyjson_arr_foreach(yyjson_obj_get(root, "missing"), i, n, entry)
    {
        counts.missing += !yyjson_equals_str(yyjson_obj_get(entry, "id"), "*recent");
    }
    if (counts.requested > counts.included + counts.missing)
        counts.trimmed = counts.requested - counts.included - counts.missing;
    return counts;
}

bool handoff_stored_is_cycle_to(const struct handoff_envelope *envelope, struct base_span target)
{
    size_t i, n;
    yyjson_val *agent;
    yyjson_arr_foreach(envelope->path, i, n, agent)
    {
        if (base_span_equal(base_json_span(agent), target))
            return true;
    }
    return base_span_equal(envelope->source_agent, target);
}

void handoff_stored_event(const struct handoff_envelope *envelope, const char *id,
                          struct handoff_event *event)
{
    yyjson_val *root = yyjson_doc_get_root(envelope->doc), *tokens = yyjson_obj_get(root, "tokens");
    *event = (struct handoff_event){
        .kind = HANDOFF_EVENT_ASSEMBLED,
        .who = {.id = id,
                .task_id = envelope->task_id.data,
                .source_agent = envelope->source_agent.data,
                .target_agent = envelope->target_agent.data,
                .pattern = handoff_stored_pattern(envelope)},
        .of.assembled = {.tokens = handoff_stored_count(tokens, "count"),
                         .budget = handoff_stored_count(tokens, "budget"),
                         .memories = count_stored_memories(root),
                         .hop_count = envelope->hop_count,
                         .cycle = handoff_stored_is_cycle_to(envelope, envelope->target_agent)}};
    handoff_copy_trace_id(event->who.trace_id, handoff_trace_id(envelope->traceparent));
}
