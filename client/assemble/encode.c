/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `encode`: writes the planned document, with exactly the segments that were counted, and
 * seals it. The thread that runs the assembly.
 */
#include <string.h>

#include "client/assemble/assemble.h"
#include "client/envelope/legacy.h"
#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"
#include "lib/base/utf8.h"

enum {
    ENVELOPE_AROUND = 4096, /* most envelopes have this much around the parts of the context */
    WORD_SHOWN = 64,        /* bytes of a word that a memory was found by */
};

static inline void write_text_member(struct base_buffer *out, const char *key,
                                     struct base_span text)
{
    base_json_write_name(out, key);
    base_json_write_string(out, text);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void count_listed_entries(struct handoff_assembly *assembly)
{
    for (unsigned part = 0; part < HANDOFF_LISTS; part++) {
        const struct handoff_trim_list *list = assembly->plan.lists[part];
        if (!list)
            continue;
        assembly->items.of[part][HANDOFF_PRESENCE_PRESENT] = list->kept;
        assembly->items.of[part][HANDOFF_PRESENCE_OMITTED] = list->count - list->kept;
    }
}

static enum handoff_presence presence_of(enum handoff_form form)
{
    return form == HANDOFF_FORM_NONE        ? HANDOFF_PRESENCE_OMITTED
           : form >= HANDOFF_FORM_REFERENCE ? HANDOFF_PRESENCE_REFERENCED
                                            : HANDOFF_PRESENCE_PRESENT;
}

/* What was found, or would have been, was not requested. What is there in any form is included. */
static void count_memories(struct handoff_assembly *assembly)
{
    size_t *references = assembly->items.of[HANDOFF_PART_REFERENCES];
    references[HANDOFF_PRESENCE_OMITTED] = assembly->beyond;
    for (size_t i = 0; i < assembly->nslots; i++) {
        const enum handoff_part part = assembly->slots[i].rank == HANDOFF_RANK_FOUND
                                           ? HANDOFF_PART_FOUND
                                           : HANDOFF_PART_REFERENCES;
        assembly->items.of[part][presence_of(assembly->plan.memories[i].form)]++;
    }
    assembly->memories = (struct handoff_memory_counts){
        .included = references[HANDOFF_PRESENCE_PRESENT] + references[HANDOFF_PRESENCE_REFERENCED],
        .missing = assembly->nmissing - assembly->search_failed,
        .trimmed = references[HANDOFF_PRESENCE_OMITTED]};
    assembly->memories.requested =
        assembly->memories.included + assembly->memories.missing + assembly->memories.trimmed;
}

/* ---- the origin ----------------------------------------------------------------------------- */

static void write_previous(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    if (assembly->chain.nparents == 0) {
        base_buffer_text(out, ",\"previous\":null");
        return;
    }
    base_buffer_text(out, ",\"previous\":{");
    write_text_member(out, "id", assembly->chain.parents[0].id);
    write_text_member(out, "digest", assembly->chain.parents[0].digest);
    base_buffer_byte(out, '}');
}

/* A request that sees what is shared, and nothing else, has none. */
static void write_scope(struct base_buffer *out, const struct handoff_scopes *scopes)
{
    if (scopes->count == 0)
        return;
    base_buffer_text(out, ",\"scope\":[");
    for (size_t i = 0; i < scopes->count; i++) {
        base_buffer_text(out, i ? "," : "");
        base_json_write_string(out, scopes->names[i]);
    }
    base_buffer_byte(out, ']');
}

/* The first is `previous`, too. */
static void write_parents(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    base_buffer_text(out, ",\"parents\":[");
    for (size_t i = 0; i < assembly->chain.nparents; i++) {
        base_buffer_text(out, i ? ",{" : "{");
        write_text_member(out, "id", assembly->chain.parents[i].id);
        write_text_member(out, "digest", assembly->chain.parents[i].digest);
        base_buffer_byte(out, '}');
    }
    base_buffer_byte(out, ']');
}

/* Of a task with more than one envelope may have as parents. */
static void write_not_continued(struct base_buffer *out, size_t count)
{
    if (count == 0)
        return;
    base_buffer_text(out, ",\"not_continued\":");
    base_buffer_number(out, (int64_t)count);
}

/* What an operator's edit stepped into the place of. */
static void write_replaces(struct base_buffer *out, const struct handoff_parent *replaced)
{
    if (!replaced)
        return;
    base_buffer_text(out, ",\"replaces\":{");
    write_text_member(out, "id", replaced->id);
    write_text_member(out, "digest", replaced->digest);
    base_buffer_byte(out, '}');
}

/* What the other receivers of its publication are sent. */
static void write_projection_of(struct base_buffer *out, const struct handoff_parent *published)
{
    if (!published->id.data)
        return;
    base_buffer_text(out, ",\"projection_of\":{");
    write_text_member(out, "id", published->id);
    write_text_member(out, "digest", published->digest);
    base_buffer_byte(out, '}');
}

static void write_hop(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    base_buffer_text(out, ",\"hop\":{\"count\":");
    base_buffer_number(out, assembly->hop_count);
    base_buffer_text(out, ",\"max\":");
    base_buffer_number(out, assembly->hop_max);
    base_buffer_text(out, ",\"path\":[");
    for (size_t i = 0; i < assembly->npath; i++) {
        if (i)
            base_buffer_byte(out, ',');
        base_json_write_string(out, assembly->path[i]);
    }
    base_buffer_text(out, "]}");
}

static void write_trace(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    base_buffer_text(out, ",\"trace\":{");
    write_text_member(out, "traceparent", assembly->traceparent);
    if (assembly->tracestate.data)
        write_text_member(out, "tracestate", assembly->tracestate);
    base_buffer_byte(out, '}');
}

static void write_origin(struct base_buffer *out, struct handoff_assembly *assembly)
{
    const struct handoff_request *request = &assembly->request;
    char created[BASE_RFC3339_SIZE];
    assembly->created_ms = base_wall_ms(assembly->with->clock);
    base_rfc3339_format(assembly->created_ms, created);
    base_buffer_text(out, "\"created_at\":\"");
    base_buffer_text(out, created);
    base_buffer_byte(out, '"');
    write_previous(out, assembly);
    write_parents(out, assembly);
    write_not_continued(out, assembly->chain.not_continued);
    if (!assembly->projects.id.data) /* it takes the place of nothing */
        write_replaces(out, assembly->chain.replaced);
    write_projection_of(out, &assembly->projects);
    write_text_member(out, "task_id", assembly->task_id);
    write_text_member(out, "source_agent", request->source_agent);
    write_text_member(out, "target_agent", request->target_agent);
    write_text_member(out, "pattern",
                      base_span_text(handoff_pattern_name((enum handoff_pattern)request->pattern)));
    if (request->channel.data)
        write_text_member(out, "channel", request->channel);
    write_scope(out, &assembly->scopes);
    write_hop(out, assembly);
    write_trace(out, assembly);
}

/* ---- the context: what was counted, byte for byte ------------------------------------------ */

/* Those that are there by their ids alone. */
static void write_ids(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    static const char first[] = HANDOFF_SEGMENT_IDS_KEY HANDOFF_SEGMENT_IDS_OPEN;
    const char *before = first;
    for (size_t i = 0; i < assembly->nslots; i++) {
        if (assembly->plan.memories[i].form != HANDOFF_FORM_ID)
            continue;
        base_buffer_text(out, before);
        base_buffer_append(out, assembly->slots[i].show.id.data, assembly->slots[i].show.id.size);
        before = HANDOFF_SEGMENT_IDS_NEXT;
    }
    if (before != first)
        base_buffer_text(out, HANDOFF_SEGMENT_IDS_END);
}

/* Up to the key of the history. */
static void write_kept_memories(struct base_buffer *out, struct handoff_assembly *assembly)
{
    static const char first[] = HANDOFF_SEGMENT_MEMORIES_OPEN, key[] = HANDOFF_SEGMENT_HISTORY_KEY;
    const char *before = first;
    assembly->memories_at = out->size + 2; /* behind `":` */
    for (size_t i = 0; i < assembly->nslots; i++) {
        const enum handoff_form form = assembly->plan.memories[i].form;
        if (form >= HANDOFF_FORM_ID)
            continue;
        base_buffer_text(out, before);
        handoff_segment_memory_write(out, &assembly->slots[i].show, form);
        before = HANDOFF_SEGMENT_MEMORIES_NEXT;
    }
    const char *end =
        before == first ? HANDOFF_SEGMENT_MEMORIES_NONE : HANDOFF_SEGMENT_MEMORIES_END;
    base_buffer_append(out, end, strlen(end) - (sizeof(key) - 1));
    assembly->memories_size = out->size - 2 - assembly->memories_at; /* without `,"` */
    write_ids(out, assembly);
    base_buffer_text(out, key);
}

static void write_state_lists(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    for (int kind = 0; kind < HANDOFF_PART_STEPS; kind++) {
        if (assembly->plan.lists[kind])
            handoff_list_write(out, &assembly->lists[kind]);
    }
}

static void write_context(struct base_buffer *out, struct handoff_assembly *assembly)
{
    const char *head = assembly->parts.data, *tail = head + assembly->head_size;
    base_buffer_text(out, ",\"context\":");
    base_buffer_append(out, head, assembly->head_size);
    write_state_lists(out, assembly);
    write_kept_memories(out, assembly);
    handoff_list_write(out, &assembly->lists[HANDOFF_PART_STEPS]);
    base_buffer_append(out, tail, assembly->tail_size);
}

/* ---- included and left out ------------------------------------------------------------------ */

/* Notes where the value is that is written between the two calls. */
static inline void begin_value(const struct base_buffer *out, struct handoff_excerpt_value *value)
{
    value->at = (uint32_t)out->size;
}

static inline void end_value(const struct base_buffer *out, struct handoff_excerpt_value *value)
{
    value->size = (uint32_t)out->size - value->at;
}

static void write_refs(struct base_buffer *out, struct handoff_assembly *assembly)
{
    const char *before = "";
    base_buffer_text(out, ",\"memory_refs\":");
    begin_value(out, &assembly->excerpt.memory_refs);
    base_buffer_byte(out, '[');
    for (size_t i = 0; i < assembly->nslots; i++) {
        if (assembly->plan.memories[i].form == HANDOFF_FORM_NONE)
            continue;
        base_buffer_text(out, before);
        base_json_write_string(out, assembly->slots[i].show.id);
        before = ",";
    }
    base_buffer_byte(out, ']');
    end_value(out, &assembly->excerpt.memory_refs);
}

/* To four places, without trailing zeros; not by printf, which follows the locale. */
static void write_ratio(struct base_buffer *out, size_t part, size_t whole)
{
    size_t places = whole ? (part * 10000 + whole / 2) / whole : 10000;
    if (places == 10000 && part < whole)
        places = 9999;
    base_buffer_byte(out, places == 10000 ? '1' : '0');
    if (places == 10000 || places == 0)
        return;
    base_buffer_byte(out, '.');
    for (size_t unit = 1000; places; places %= unit, unit /= 10)
        base_buffer_byte(out, (char)('0' + places / unit));
}

/* A word as it is written in the request; of a long one, its beginning. */
static void write_word(struct base_buffer *out, struct base_span word)
{
    char shown[WORD_SHOWN + 1];
    base_utf8_cut(shown, sizeof shown, word.data, word.size);
    base_json_write_string(out, base_span_text(shown));
}

static void write_match(struct base_buffer *out, const struct handoff_found_memory *found)
{
    write_text_member(out, "id", found->memory.id);
    base_buffer_text(out, ",\"score\":");
    write_ratio(out, (size_t)(found->score * 1000 + 0.5), 1000);
    base_buffer_text(out, ",\"words\":[");
    for (size_t i = 0; i < found->word_count; i++) {
        base_buffer_text(out, i > 0 ? "," : "");
        write_word(out, found->words[i]);
    }
    base_buffer_byte(out, ']');
    if (found->origin & HANDOFF_ORIGIN_TASK)
        base_buffer_text(out, ",\"of_task\":true");
    if (found->similar > 0) {
        base_buffer_text(out, ",\"similar\":");
        base_buffer_number(out, found->similar);
    }
}

/* Why include_recent chose what is included. */
static void write_why_found(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    const char *before = "{";
    if (assembly->request.include_recent == 0)
        return;
    base_buffer_text(out, ",\"found\":[");
    for (size_t i = 0; i < assembly->nslots; i++) {
        const struct handoff_slot *slot = &assembly->slots[i];
        if (!slot->match || assembly->plan.memories[i].form == HANDOFF_FORM_NONE)
            continue;
        base_buffer_text(out, before);
        write_match(out, slot->match);
        base_buffer_byte(out, '}');
        before = ",{";
    }
    base_buffer_byte(out, ']');
}

static void write_missing(struct base_buffer *out, struct handoff_assembly *assembly)
{
    base_buffer_text(out, ",\"missing\":");
    begin_value(out, &assembly->excerpt.missing);
    base_buffer_byte(out, '[');
    for (size_t i = 0; i < assembly->nmissing; i++) {
        base_buffer_text(out, i ? ",{" : "{");
        write_text_member(out, "id", assembly->missing[i].id);
        write_text_member(out, "reason",
                          base_span_text(handoff_absence_name(assembly->missing[i].reason)));
        if (assembly->missing[i].detail)
            write_text_member(out, "detail", base_span_text(assembly->missing[i].detail));
        if (assembly->missing[i].since_hop) {
            base_buffer_text(out, ",\"since_hop\":");
            base_buffer_number(out, assembly->missing[i].since_hop);
        }
        base_buffer_byte(out, '}');
    }
    base_buffer_byte(out, ']');
    end_value(out, &assembly->excerpt.missing);
}

/* The cost of its best form. */
static uint32_t wanted_tokens(const struct handoff_trim_memory *memory)
{
    for (enum handoff_form form = 0; form < HANDOFF_FORMS; form++) {
        if (memory->cost[form])
            return memory->cost[form];
    }
    return 0;
}

static void write_trimmed(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    const char *before = "{";
    base_buffer_text(out, ",\"trimmed\":[");
    for (size_t i = 0; i < assembly->nslots; i++) {
        const struct handoff_slot *slot = &assembly->slots[i];
        if (assembly->plan.memories[i].form != HANDOFF_FORM_NONE)
            continue;
        base_buffer_text(out, before);
        write_text_member(out, "id", slot->show.id);
        base_buffer_text(out, ",\"tokens\":");
        base_buffer_number(out, wanted_tokens(&assembly->plan.memories[i]));
        write_text_member(out, "priority", base_span_text(slot->show.priority));
        base_buffer_byte(out, '}');
        before = ",{";
    }
    base_buffer_byte(out, ']');
}

static const char *write_omitted_count(struct base_buffer *out, const char *before,
                                       const char *name, uint64_t count)
{
    if (count == 0)
        return before;
    base_buffer_text(out, before);
    base_buffer_text(out, name);
    base_buffer_text(out, "\":");
    base_buffer_number(out, (int64_t)count);
    return ",\"";
}

/* Of steps that are there. */
static size_t count_omitted_reasons(const struct handoff_assembly *assembly)
{
    return assembly->plan.lists[HANDOFF_PART_STEPS]
               ? handoff_list_count_short(&assembly->lists[HANDOFF_PART_STEPS])
               : 0;
}

/* Also ids that a text names and that were not looked for, of which nobody knows whether they
 * exist.
 */
static uint64_t count_left_out(const struct handoff_assembly *assembly, unsigned part)
{
    return assembly->items.of[part][HANDOFF_PRESENCE_OMITTED] +
           (part == HANDOFF_PART_REFERENCES ? assembly->unsought : 0);
}

/* A projection shows the ledger of its publication. */
static void write_ledger_id(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    const struct base_span published = assembly->projects.id;
    if (published.data)
        base_buffer_append(out, published.data, published.size);
    else
        base_buffer_text(out, assembly->id_text);
}

/* What is in the ledger and not in the context: how much, and where it is. What was only found is
 * in `trimmed`. */
static void write_omitted(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    static const char first[] = ",\"omitted\":{\"";
    const char *before = first;
    for (unsigned part = 0; part < HANDOFF_PART_FOUND; part++)
        before = write_omitted_count(out, before, handoff_part_name(part),
                                     count_left_out(assembly, part));
    before = write_omitted_count(out, before, "reasons", count_omitted_reasons(assembly));
    if (before != first) {
        base_buffer_text(out, ",\"more\":\"/v1/envelopes/");
        write_ledger_id(out, assembly);
        base_buffer_text(out, "/ledger\"}");
    }
}

/* The older member: steps that did not fit, and those that went with an older version's body. */
static void write_history_trimmed(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    const size_t steps = assembly->items.of[HANDOFF_PART_STEPS][HANDOFF_PRESENCE_OMITTED] +
                         assembly->ledger.steps_lost;
    if (steps == 0)
        return;
    base_buffer_text(out, ",\"history_trimmed\":");
    base_buffer_number(out, (int64_t)steps);
}

static void write_completeness(struct base_buffer *out, struct handoff_assembly *assembly)
{
    struct handoff_excerpt *excerpt = &assembly->excerpt;
    const size_t requested = assembly->memories.requested;
    base_buffer_text(out, ",\"completeness\":{\"requested\":");
    begin_value(out, &excerpt->requested);
    base_buffer_number(out, (int64_t)requested);
    end_value(out, &excerpt->requested);
    base_buffer_text(out, ",\"included\":");
    begin_value(out, &excerpt->included);
    base_buffer_number(out, (int64_t)assembly->memories.included);
    end_value(out, &excerpt->included);
    base_buffer_text(out, ",\"ratio\":");
    begin_value(out, &excerpt->ratio);
    write_ratio(out, assembly->memories.included, requested);
    end_value(out, &excerpt->ratio);
    base_buffer_byte(out, '}');
}

static void write_tokens(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    const struct handoff_trim_plan *plan = &assembly->plan;
    base_buffer_text(out, ",\"tokens\":{\"budget\":");
    base_buffer_number(out, (int64_t)assembly->budget);
    base_buffer_text(out, ",\"count\":");
    base_buffer_number(out, (int64_t)plan->count);
    write_text_member(out, "encoding",
                      base_span_text(handoff_tokenizer_encoding(assembly->with->tokenizer)));
    write_text_member(out, "strategy", base_span_text(handoff_strategy_name(plan->strategy)));
    base_buffer_byte(out, '}');
}

/* The members of version 1 repeat the memories; these are copied first, because appending from a
 * buffer to itself could read memory that was just moved. */
static void write_legacy(struct base_buffer *out, struct handoff_assembly *assembly)
{
    const struct handoff_request *request = &assembly->request;
    char *memories = out->failed
                         ? NULL
                         : base_arena_copy(&assembly->arena, out->data + assembly->memories_at,
                                           assembly->memories_size);
    if (!memories) {
        out->failed = true;
        return;
    }
    handoff_legacy_write_members(
        out, request->source_agent, request->target_agent, request->task_summary,
        base_span(memories, assembly->memories_size), assembly->constraints);
}

enum handoff_progress handoff_stage_encode(struct handoff_assembly *assembly)
{
    struct base_buffer *out = &assembly->out;
    out->arena = &assembly->arena;
    count_listed_entries(assembly);
    count_memories(assembly);
    assembly->id = base_uuid_make(assembly->with->uuids);
    base_uuid_format(&assembly->id, assembly->id_text);
    base_buffer_reserve(out, assembly->parts.size + ENVELOPE_AROUND);
    handoff_digest_begin(out, assembly->id_text);
    write_origin(out, assembly);
    write_context(out, assembly);
    write_refs(out, assembly);
    write_why_found(out, assembly);
    write_missing(out, assembly);
    write_trimmed(out, assembly);
    write_history_trimmed(out, assembly);
    write_omitted(out, assembly);
    write_completeness(out, assembly);
    write_tokens(out, assembly);
    if (assembly->dual)
        write_legacy(out, assembly);
    base_buffer_byte(out, '}');
    if (out->failed) {
        handoff_error_no_memory(&assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    handoff_digest_seal(out, assembly->digest);
    if (!handoff_assembly_contribute(assembly)) {
        handoff_error_no_memory(&assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    return HANDOFF_PROGRESS_NEXT;
}
