/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `encode`: the plan becomes the document, with exactly the segments that were counted,
 * and is sealed.
 */
#include "client/assemble/assemble.h"
#include "client/envelope/legacy.h"
#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

enum { ENVELOPE_AROUND = 4096 }; /* what most envelopes have beside the parts of the context */

static inline void write_text(struct handoff_buffer *out, const char *key, struct handoff_span text)
{
    handoff_json_write_name(out, key);
    handoff_json_write_string(out, text);
}

/* ---- where it comes from ------------------------------------------------------------------- */

static void write_previous(struct handoff_buffer *out, const struct handoff_envelope *parent)
{
    if (!parent->doc) {
        handoff_buffer_text(out, ",\"previous\":null");
        return;
    }
    handoff_buffer_text(out, ",\"previous\":{");
    write_text(out, "id", parent->id);
    write_text(out, "digest", parent->digest);
    handoff_buffer_byte(out, '}');
}

static void write_hop(struct handoff_buffer *out, const struct handoff_assembly *assembly)
{
    size_t i, n;
    yyjson_val *agent;
    handoff_buffer_text(out, ",\"hop\":{\"count\":");
    handoff_buffer_number(out, assembly->hop_count);
    handoff_buffer_text(out, ",\"max\":");
    handoff_buffer_number(out, assembly->hop_max);
    handoff_buffer_text(out, ",\"path\":[");
    yyjson_arr_foreach(assembly->parent.path, i, n, agent)
    {
        handoff_json_write(out, agent);
        handoff_buffer_byte(out, ',');
    }
    if (assembly->parent.doc)
        handoff_json_write_string(out, assembly->parent.source_agent);
    handoff_buffer_text(out, "]}");
}

static void write_trace(struct handoff_buffer *out, const struct handoff_assembly *assembly)
{
    handoff_buffer_text(out, ",\"trace\":{");
    write_text(out, "traceparent", assembly->traceparent);
    if (assembly->tracestate.data)
        write_text(out, "tracestate", assembly->tracestate);
    handoff_buffer_byte(out, '}');
}

static void write_origin(struct handoff_buffer *out, struct handoff_assembly *assembly)
{
    const struct handoff_request *request = &assembly->request;
    char created[HANDOFF_RFC3339_SIZE];
    assembly->created_ms = handoff_wall_ms(assembly->with->clock);
    handoff_rfc3339_format(assembly->created_ms, created);
    handoff_buffer_text(out, "\"created_at\":\"");
    handoff_buffer_text(out, created);
    handoff_buffer_byte(out, '"');
    write_previous(out, &assembly->parent);
    write_text(out, "task_id", assembly->task_id);
    write_text(out, "source_agent", request->source_agent);
    write_text(out, "target_agent", request->target_agent);
    write_text(out, "pattern",
               handoff_span_text(handoff_pattern_name((enum handoff_pattern)request->pattern)));
    if (request->channel.data)
        write_text(out, "channel", request->channel);
    write_hop(out, assembly);
    write_trace(out, assembly);
}

/* ---- the context: what was counted, byte for byte ------------------------------------------ */

static void write_memories(struct handoff_buffer *out, struct handoff_assembly *assembly)
{
    assembly->memories_at = out->size + 2; /* behind `":` */
    for (size_t i = 0; i < assembly->nslots; i++) {
        enum handoff_form form = assembly->plan.memories[i].form;
        if (form == HANDOFF_FORM_NONE)
            continue;
        handoff_buffer_text(out, assembly->included++ ? HANDOFF_SEGMENT_MEMORIES_NEXT
                                                      : HANDOFF_SEGMENT_MEMORIES_OPEN);
        handoff_segment_memory_write(out, &assembly->slots[i].show, form);
    }
    handoff_buffer_text(out, assembly->included ? HANDOFF_SEGMENT_MEMORIES_END
                                                : HANDOFF_SEGMENT_MEMORIES_NONE);
}

static void write_history(struct handoff_buffer *out, const struct handoff_assembly *assembly)
{
    const size_t kept = assembly->plan.history_kept, *at = assembly->step_at;
    const size_t first = at[assembly->nsteps - kept], behind = at[assembly->nsteps];
    handoff_buffer_text(out, kept ? HANDOFF_SEGMENT_HISTORY_OPEN : HANDOFF_SEGMENT_HISTORY_NONE);
    handoff_buffer_append(out, assembly->parts.data + first, behind - first);
}

static void write_context(struct handoff_buffer *out, struct handoff_assembly *assembly)
{
    static const char behind_memories[] = ",\"history";
    const struct handoff_buffer *parts = &assembly->parts;
    const size_t tail_at = assembly->step_at[assembly->nsteps];
    handoff_buffer_text(out, ",\"context\":");
    handoff_buffer_append(out, parts->data, assembly->head_size);
    write_memories(out, assembly);
    assembly->memories_size = out->size - (sizeof(behind_memories) - 1) - assembly->memories_at;
    write_history(out, assembly);
    handoff_buffer_append(out, parts->data + tail_at, parts->size - tail_at);
}

/* ---- what is in it and what is not --------------------------------------------------------- */

static void write_refs(struct handoff_buffer *out, const struct handoff_assembly *assembly)
{
    const char *before = "";
    handoff_buffer_text(out, "\"memory_refs\":[");
    for (size_t i = 0; i < assembly->nslots; i++) {
        if (assembly->plan.memories[i].form == HANDOFF_FORM_NONE)
            continue;
        handoff_buffer_text(out, before);
        handoff_json_write_string(out, assembly->slots[i].show.id);
        before = ",";
    }
    handoff_buffer_byte(out, ']');
}

static void write_missing(struct handoff_buffer *out, const struct handoff_assembly *assembly)
{
    handoff_buffer_text(out, ",\"missing\":[");
    for (size_t i = 0; i < assembly->nmissing; i++) {
        handoff_buffer_text(out, i ? ",{" : "{");
        write_text(out, "id", assembly->missing[i].id);
        write_text(out, "reason", handoff_span_text(assembly->missing[i].reason));
        handoff_buffer_byte(out, '}');
    }
    handoff_buffer_byte(out, ']');
}

/* What it would have cost in its best form. */
static uint32_t wanted_tokens(const struct handoff_trim_memory *memory)
{
    for (enum handoff_form form = 0; form < HANDOFF_FORMS; form++) {
        if (memory->cost[form])
            return memory->cost[form];
    }
    return 0;
}

static void write_trimmed(struct handoff_buffer *out, const struct handoff_assembly *assembly)
{
    const char *before = "{";
    handoff_buffer_text(out, ",\"trimmed\":[");
    for (size_t i = 0; i < assembly->nslots; i++) {
        const struct handoff_slot *slot = &assembly->slots[i];
        if (assembly->plan.memories[i].form != HANDOFF_FORM_NONE)
            continue;
        handoff_buffer_text(out, before);
        write_text(out, "id", slot->show.id);
        handoff_buffer_text(out, ",\"tokens\":");
        handoff_buffer_number(out, wanted_tokens(&assembly->plan.memories[i]));
        write_text(out, "priority", handoff_span_text(slot->show.priority));
        handoff_buffer_byte(out, '}');
        before = ",{";
    }
    handoff_buffer_byte(out, ']');
    size_t steps = assembly->history_dropped + assembly->nsteps - assembly->plan.history_kept;
    if (steps) {
        handoff_buffer_text(out, ",\"history_trimmed\":");
        handoff_buffer_number(out, (int64_t)steps);
    }
}

/* To four places, without the zeros at the end; not by printf, which follows the locale. */
static void write_ratio(struct handoff_buffer *out, size_t part, size_t whole)
{
    size_t places = whole ? (part * 10000 + whole / 2) / whole : 10000;
    if (places == 10000 && part < whole)
        places = 9999;
    handoff_buffer_byte(out, places == 10000 ? '1' : '0');
    if (places == 10000 || places == 0)
        return;
    handoff_buffer_byte(out, '.');
    for (size_t unit = 1000; places; places %= unit, unit /= 10)
        handoff_buffer_byte(out, (char)('0' + places / unit));
}

static void write_completeness(struct handoff_buffer *out, const struct handoff_assembly *assembly)
{
    size_t requested = assembly->nslots + assembly->nmissing;
    handoff_buffer_text(out, "\"completeness\":{\"requested\":");
    handoff_buffer_number(out, (int64_t)requested);
    handoff_buffer_text(out, ",\"included\":");
    handoff_buffer_number(out, (int64_t)assembly->included);
    handoff_buffer_text(out, ",\"ratio\":");
    write_ratio(out, assembly->included, requested);
    handoff_buffer_byte(out, '}');
}

static void write_tokens(struct handoff_buffer *out, const struct handoff_assembly *assembly)
{
    const struct handoff_trim_plan *plan = &assembly->plan;
    handoff_buffer_text(out, ",\"tokens\":{\"budget\":");
    handoff_buffer_number(out, (int64_t)assembly->budget);
    handoff_buffer_text(out, ",\"count\":");
    handoff_buffer_number(out, (int64_t)plan->count);
    write_text(out, "encoding",
               handoff_span_text(handoff_tokenizer_encoding(assembly->with->tokenizer)));
    write_text(out, "strategy", handoff_span_text(handoff_strategy_name(plan->strategy)));
    handoff_buffer_byte(out, '}');
}

/* The members of version 1 repeat the memories; they are copied first, since appending to a buffer
 * from itself would read what it may just have moved. */
static void write_legacy(struct handoff_buffer *out, struct handoff_assembly *assembly)
{
    const struct handoff_request *request = &assembly->request;
    char *memories = out->failed
                         ? NULL
                         : handoff_arena_copy(&assembly->arena, out->data + assembly->memories_at,
                                              assembly->memories_size);
    if (!memories) {
        out->failed = true;
        return;
    }
    handoff_legacy_write_members(
        out, request->source_agent, request->target_agent, request->task_summary,
        handoff_span(memories, assembly->memories_size), assembly->constraints);
}

enum handoff_progress handoff_stage_encode(struct handoff_assembly *assembly)
{
    struct handoff_buffer *out = &assembly->out;
    struct handoff_excerpt *excerpt = &assembly->excerpt;
    out->arena = &assembly->arena;
    assembly->id = handoff_uuid_make(assembly->with->uuids);
    handoff_uuid_format(&assembly->id, assembly->id_text);
    handoff_buffer_reserve(out, assembly->parts.size + ENVELOPE_AROUND);
    handoff_digest_begin(out, assembly->id_text);
    write_origin(out, assembly);
    write_context(out, assembly);
    handoff_buffer_byte(out, ',');
    excerpt->lists_at = (uint32_t)out->size;
    write_refs(out, assembly);
    write_missing(out, assembly);
    excerpt->lists_size = (uint32_t)out->size - excerpt->lists_at;
    write_trimmed(out, assembly);
    handoff_buffer_byte(out, ',');
    excerpt->completeness_at = (uint32_t)out->size;
    write_completeness(out, assembly);
    excerpt->completeness_size = (uint32_t)out->size - excerpt->completeness_at;
    write_tokens(out, assembly);
    if (assembly->dual)
        write_legacy(out, assembly);
    handoff_buffer_byte(out, '}');
    if (out->failed) {
        handoff_error_no_memory(&assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    handoff_digest_seal(out, assembly->digest);
    return HANDOFF_PROGRESS_NEXT;
}
