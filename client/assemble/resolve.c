/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `resolve`: asks the spine once for everything, and turns every requested memory into
 * either a slot, in rank order, or an entry of `missing`. A failed spine does not fail the handoff:
 * the envelope then lists what it lacks. The thread that runs the assembly.
 *
 * Relevance is requested at once only if it selects memories. Otherwise the trim stage returns here
 * when something does not fit, since only then does relevance matter.
 */
#include <stdlib.h>
#include <string.h>

#include "client/assemble/assemble.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/json.h"

/* Names that no memory can have: they represent memories of unknown number. */
static const char all_pinned[] = "*pinned", all_recent[] = "*recent";

/* ---- content that may not be sent ---------------------------------------------------------- */

static bool metadata_marks_raw_log(struct base_span metadata)
{
    static const char *const words[] = {"conversation", "raw_log"};
    bool worth_reading = false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && metadata.size; i++)
        worth_reading |= memmem(metadata.data, metadata.size, words[i], strlen(words[i])) != NULL;
    yyjson_doc *doc;
    if (!worth_reading || base_json_read(metadata, "metadata", &doc, NULL) != HANDOFF_OK)
        return false;
    bool marked = handoff_marks_raw_log(yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return marked;
}

/* Why the content may not be sent, or NONE. */
static enum handoff_absence reason_to_withhold(const struct handoff_assembly *assembly,
                                               const struct handoff_memory *memory)
{
    if (memory->content.size > assembly->with->memory_max_bytes)
        return HANDOFF_ABSENCE_TOO_LARGE;
    return metadata_marks_raw_log(memory->metadata) ? HANDOFF_ABSENCE_CONVERSATION_LOG
                                                    : HANDOFF_ABSENCE_NONE;
}

/* ---- slots --------------------------------------------------------------------------------- */

static enum handoff_rank rank_of(const struct handoff_found_memory *found)
{
    return found->origin & HANDOFF_ORIGIN_PINNED  ? HANDOFF_RANK_PINNED
           : found->origin & HANDOFF_ORIGIN_ASKED ? HANDOFF_RANK_ASKED
                                                  : HANDOFF_RANK_FOUND;
}

static uint32_t kept_count(const struct handoff_found_memory *found,
                           enum handoff_memory_rendering rendering)
{
    int64_t tokens = found->tokens[rendering];
    return tokens > 0 && tokens <= UINT32_MAX ? (uint32_t)tokens : 0;
}

static bool fill_slot(struct handoff_assembly *assembly, struct handoff_slot *slot,
                      const struct handoff_found_memory *found)
{
    const struct handoff_memory *memory = &found->memory;
    *slot = (struct handoff_slot){
        .show = {.id = memory->id,
                 .content = memory->content,
                 .summary = memory->summary,
                 .priority = handoff_importance_name(memory->importance),
                 .pinned = memory->pinned,
                 .created_ms = memory->created_ms},
        .rank = rank_of(found),
        .of_task = (found->origin & HANDOFF_ORIGIN_TASK) != 0,
        .importance = memory->importance,
        .relevance = found->relevance,
        .version = memory->version,
        .known = {[HANDOFF_FORM_FULL] = kept_count(found, HANDOFF_RENDERING_FULL),
                  [HANDOFF_FORM_SUMMARY] = kept_count(found, HANDOFF_RENDERING_SUMMARY),
                  [HANDOFF_FORM_REFERENCE] = kept_count(found, HANDOFF_RENDERING_ID)},
    };
    return handoff_segment_tags(&assembly->arena, memory, &slot->show.tags);
}

/* The order in which memories are kept; plan.h explains the rank. */
static int compare_slots(const void *left, const void *right)
{
    const struct handoff_slot *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->rank == HANDOFF_RANK_FOUND && a->of_task != b->of_task)
        return a->of_task ? -1 : 1;
    if (a->importance != b->importance)
        return a->importance > b->importance ? -1 : 1;
    if (a->relevance < b->relevance || a->relevance > b->relevance)
        return a->relevance > b->relevance ? -1 : 1;
    if (a->show.created_ms != b->show.created_ms)
        return a->show.created_ms > b->show.created_ms ? -1 : 1;
    size_t shorter = a->show.id.size < b->show.id.size ? a->show.id.size : b->show.id.size;
    int order = memcmp(a->show.id.data, b->show.id.data, shorter);
    return order ? order
                 : (a->show.id.size > b->show.id.size) - (a->show.id.size < b->show.id.size);
}

static void add_missing(struct handoff_assembly *assembly, struct base_span id,
                        enum handoff_absence reason)
{
    assembly->missing[assembly->nmissing++] = (struct handoff_missing){id, reason};
}

/* The other strategies can show a memory by its id alone. */
static bool wants_texts(const struct handoff_assembly *assembly)
{
    return assembly->request.strategy == HANDOFF_STRATEGY_PRIORITY ||
           assembly->request.strategy == HANDOFF_STRATEGY_FULL;
}

static bool sort_out(struct handoff_assembly *assembly)
{
    const struct handoff_spine_resolve *resolve = &assembly->resolve;
    for (size_t i = 0; i < resolve->missing_count; i++)
        add_missing(assembly, resolve->missing[i], HANDOFF_ABSENCE_NOT_FOUND);
    for (size_t i = 0; i < resolve->found_count; i++) {
        const struct handoff_found_memory *found = &resolve->found[i];
        enum handoff_absence reason = reason_to_withhold(assembly, &found->memory);
        struct handoff_slot *slot = &assembly->slots[assembly->nslots];
        if (reason != HANDOFF_ABSENCE_NONE && !found->memory.summary.data &&
            wants_texts(assembly)) {
            add_missing(assembly, found->memory.id, reason);
            continue;
        }
        if (!fill_slot(assembly, slot, found))
            return false;
        slot->content_stays = reason != HANDOFF_ABSENCE_NONE;
        assembly->nslots++;
    }
    qsort(assembly->slots, assembly->nslots, sizeof(*assembly->slots), compare_slots);
    return true;
}

/* ---- a spine that failed -------------------------------------------------------------------- */

static int compare_spans(const void *left, const void *right)
{
    const struct base_span *a = left, *b = right;
    size_t shorter = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->data, b->data, shorter);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static void add_all_missing(struct handoff_assembly *assembly, struct base_span *ids, size_t count)
{
    const enum handoff_absence reason = HANDOFF_ABSENCE_SPINE_UNAVAILABLE;
    qsort(ids, count, sizeof(*ids), compare_spans);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || !base_span_equal(ids[i], ids[i - 1]))
            add_missing(assembly, ids[i], reason);
    }
    if (assembly->request.include_pins)
        add_missing(assembly, base_span_text(all_pinned), reason);
    if (assembly->request.include_recent > 0)
        add_missing(assembly, base_span_text(all_recent), reason);
}

/* Keeps the counts of the first run. The order changes only where relevance moved a memory, so a
 * search that starts at the last hit is short. */
static void carry_counts(struct handoff_assembly *assembly, const struct handoff_slot *earlier,
                         size_t nearlier)
{
    for (size_t i = 0, from = 0; i < assembly->nslots && nearlier > 0; i++) {
        struct handoff_slot *slot = &assembly->slots[i];
        for (size_t step = 0; step < nearlier; step++) {
            const struct handoff_slot *old = &earlier[(from + step) % nearlier];
            if (old->version != slot->version || !base_span_equal(old->show.id, slot->show.id))
                continue;
            memcpy(slot->known, old->known, sizeof(slot->known));
            memcpy(slot->learned, old->learned, sizeof(slot->learned));
            from = (from + step + 1) % nearlier;
            break;
        }
    }
}

/* ---- asking -------------------------------------------------------------------------------- */

static enum handoff_progress take_spine_answer(struct handoff_assembly *assembly)
{
    struct handoff_spine_resolve *resolve = &assembly->resolve;
    bool failed = handoff_spine_health(&resolve->call) == HANDOFF_SPINE_FAILED;
    const struct handoff_slot *earlier = assembly->slots;
    size_t nearlier = assembly->nslots;
    size_t nfound = failed ? 0 : resolve->found_count;
    size_t nmissing = nfound + (failed ? resolve->id_count + 2 : resolve->missing_count);
    assembly->spine_ns += base_monotonic_ns(assembly->with->clock) - assembly->asked_ns;
    assembly->nslots = assembly->nmissing = 0;
    if (resolve->call.error.code != HANDOFF_OK && !failed) {
        assembly->error = resolve->call.error;
        return HANDOFF_PROGRESS_FAILED;
    }
    assembly->slots = base_arena_calloc(&assembly->arena, nfound + 1, sizeof(struct handoff_slot));
    assembly->missing =
        base_arena_calloc(&assembly->arena, nmissing + 1, sizeof(struct handoff_missing));
    if (!assembly->slots || !assembly->missing) {
        handoff_error_no_memory(&assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    if (failed) {
        add_all_missing(assembly, assembly->ids, resolve->id_count);
    } else if (!sort_out(assembly)) {
        handoff_error_no_memory(&assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    BASE_CHECK(assembly->nslots <= nfound && assembly->nmissing <= nmissing);
    carry_counts(assembly, earlier, nearlier);
    return HANDOFF_PROGRESS_NEXT;
}

/* What there is to copy and to count of what was found. */
static void add_up_found(struct handoff_assembly *assembly)
{
    for (size_t i = 0; i < assembly->resolve.found_count; i++) {
        const struct handoff_found_memory *found = &assembly->resolve.found[i];
        const size_t size = found->memory.content.size + found->memory.summary.size;
        assembly->size += size;
        if (!kept_count(found, HANDOFF_RENDERING_FULL))
            assembly->uncounted += size;
    }
}

static void spine_answered(struct handoff_spine_call *call)
{
    struct handoff_assembly *assembly =
        BASE_CONTAINER_OF(call, struct handoff_assembly, resolve.call);
    assembly->resolved = true;
    add_up_found(assembly);
    handoff_assembly_go_on(assembly);
}

static bool ask_spine(struct handoff_assembly *assembly)
{
    assembly->asked_ns = base_monotonic_ns(assembly->with->clock);
    if (handoff_spine_resolve(assembly->with->spine, &assembly->resolve) == HANDOFF_SPINE_PENDING)
        return true;
    assembly->resolved = true;
    return false;
}

static bool prepare_question(struct handoff_assembly *assembly)
{
    const struct handoff_request *request = &assembly->request;
    size_t i, n, count = yyjson_arr_size(request->memory_ids);
    yyjson_val *id;
    assembly->ids = base_arena_calloc(&assembly->arena, count + 1, sizeof(*assembly->ids));
    if (!assembly->ids)
        return false;
    yyjson_arr_foreach(request->memory_ids, i, n, id)
    {
        assembly->ids[i] = base_json_span(id);
    }
    assembly->resolve = (struct handoff_spine_resolve){
        .call = {.mailbox = assembly->mailbox, .done = spine_answered},
        .arena = &assembly->arena,
        .scopes = assembly->scopes,
        .task = assembly->task_id,
        .ids = assembly->ids,
        .id_count = count,
        .pins = request->include_pins,
        .recent = (size_t)request->include_recent,
        .query = assembly->ranked ? request->task_summary : base_span(NULL, 0),
        .encoding = base_span_text(handoff_tokenizer_encoding(assembly->with->tokenizer)),
    };
    return true;
}

enum handoff_progress handoff_stage_resolve(struct handoff_assembly *assembly)
{
    if (assembly->resolved) {
        assembly->resolved = false;
        return take_spine_answer(assembly);
    }
    assembly->ranked = assembly->request.include_recent > 0 || assembly->nslots > 0;
    if (!prepare_question(assembly)) {
        handoff_error_no_memory(&assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    assembly->ask = ask_spine;
    return HANDOFF_PROGRESS_ASK;
}
