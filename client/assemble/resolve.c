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
#include "lib/base/sort.h"

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

/* ---- references ------------------------------------------------------------------------------ */

static int compare_spans(const struct base_span *a, const struct base_span *b)
{
    size_t shorter = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->data, b->data, shorter);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static int compare_references(const void *left, const void *right)
{
    const struct handoff_reference *a = left, *b = right;
    return compare_spans(&a->id, &b->id);
}

static struct handoff_reference *find_reference(struct handoff_reference *sorted, size_t count,
                                                struct base_span id)
{
    const struct handoff_reference wanted = {.id = id};
    return count ? bsearch(&wanted, sorted, count, sizeof *sorted, compare_references) : NULL;
}

const struct handoff_reference *handoff_assembly_reference(const struct handoff_assembly *assembly,
                                                           struct base_span id)
{
    return find_reference(assembly->references, assembly->nreferences, id);
}

/* Everything that the ledger refers to, and what of it this hop asks for, sorted by id. */
static struct handoff_reference *list_references(struct handoff_assembly *assembly, size_t *count)
{
    const struct handoff_items *items = &assembly->ledger.items[HANDOFF_ITEM_REFERENCE];
    struct handoff_reference *all =
        base_arena_calloc(&assembly->arena, items->count + 1, sizeof *all);
    size_t i, n;
    yyjson_val *named;
    if (!all)
        return NULL;
    for (i = 0; i < items->count; i++)
        all[i] = (struct handoff_reference){.id = base_json_span(items->at[i].value),
                                            .item = &items->at[i],
                                            .asked = items->at[i].from == &assembly->ledger.own};
    base_sort(all, items->count, sizeof *all, compare_references);
    yyjson_arr_foreach(assembly->request.memory_ids, i, n, named)
    {
        struct handoff_reference *known = find_reference(all, items->count, base_json_span(named));
        if (known)
            known->asked = known->named = true;
    }
    *count = items->count;
    return all;
}

/* Of more than may be asked for at once: what this hop asks for, first by memory_ids; then what
 * earlier ones did; then what only stands in texts, which may be no id. */
static int class_of(const struct handoff_reference *reference)
{
    return reference->named ? 0 : reference->item->mentioned ? 3 : reference->asked ? 1 : 2;
}

/* Of one class the newest first: items are in the order of the ledger. But of one hop's texts, what
 * stands in them comes before what only a range names (references.h). */
static int compare_importance_of_asking(const void *left, const void *right)
{
    const struct handoff_reference *a = left, *b = right;
    if (class_of(a) != class_of(b))
        return class_of(a) - class_of(b);
    if (a->item->mentioned && !a->named && a->item->from == b->item->from)
        return (a->item > b->item) - (a->item < b->item);
    return (a->item < b->item) - (a->item > b->item);
}

/* The others are not looked up, and count as omitted. */
static size_t choose_references(struct handoff_assembly *assembly, struct handoff_reference *all,
                                size_t count)
{
    if (count <= HANDOFF_MEMORY_IDS_MAX)
        return count;
    qsort(all, count, sizeof *all, compare_importance_of_asking);
    qsort(all, HANDOFF_MEMORY_IDS_MAX, sizeof *all, compare_references);
    assembly->beyond = count - HANDOFF_MEMORY_IDS_MAX;
    return HANDOFF_MEMORY_IDS_MAX;
}

/* A step may name anything. */
static bool can_be_asked_for(const struct handoff_reference *reference)
{
    return handoff_memory_validate_id(reference->id, "memory_id", NULL) == HANDOFF_OK;
}

static bool take_references(struct handoff_assembly *assembly)
{
    size_t count = 0;
    struct handoff_reference *all = list_references(assembly, &count);
    if (!all)
        return false;
    assembly->references = all;
    assembly->nreferences = choose_references(assembly, all, count);
    assembly->ids =
        base_arena_calloc(&assembly->arena, assembly->nreferences + 1, sizeof *assembly->ids);
    if (!assembly->ids)
        return false;
    for (size_t i = 0; i < assembly->nreferences; i++) {
        if (can_be_asked_for(&all[i]))
            assembly->ids[assembly->nids++] = all[i].id;
    }
    return true;
}

/* ---- slots --------------------------------------------------------------------------------- */

static enum handoff_rank rank_of(const struct handoff_assembly *assembly,
                                 const struct handoff_found_memory *found)
{
    if (found->origin & HANDOFF_ORIGIN_PINNED)
        return HANDOFF_RANK_PINNED;
    if (!(found->origin & HANDOFF_ORIGIN_ASKED))
        return HANDOFF_RANK_FOUND;
    const struct handoff_reference *reference =
        handoff_assembly_reference(assembly, found->memory.id);
    return !reference || reference->asked ? HANDOFF_RANK_ASKED : HANDOFF_RANK_INHERITED;
}

static handoff_age age_of_memory(const struct handoff_assembly *assembly, enum handoff_rank rank,
                                 struct base_span id)
{
    return rank == HANDOFF_RANK_INHERITED
               ? handoff_age_of(handoff_assembly_reference(assembly, id)->item->from,
                                &assembly->ledger.own)
               : HANDOFF_AGE_OWN;
}

static uint32_t kept_count(const struct handoff_found_memory *found,
                           enum handoff_memory_rendering rendering)
{
    int64_t tokens = found->tokens[rendering];
    return tokens > 0 && tokens <= UINT32_MAX ? (uint32_t)tokens : 0;
}

/* The time since the spine was known to have it like this. */
static int64_t age_of_copy_s(const struct handoff_assembly *assembly,
                             const struct handoff_memory *memory)
{
    const int64_t age_ms = base_wall_ms(assembly->with->clock) - memory->copied_ms;
    return memory->copied_ms && age_ms > 0 ? age_ms / 1000 : 0;
}

static bool fill_slot(struct handoff_assembly *assembly, struct handoff_slot *slot,
                      const struct handoff_found_memory *found)
{
    const struct handoff_memory *memory = &found->memory;
    const enum handoff_rank rank = rank_of(assembly, found);
    *slot = (struct handoff_slot){
        .show = {.id = memory->id,
                 .content = memory->content,
                 .summary = memory->summary,
                 .priority = handoff_importance_name(memory->importance),
                 .pinned = memory->pinned,
                 .created_ms = memory->created_ms,
                 .stale = memory->copied_ms != 0,
                 .age_s = age_of_copy_s(assembly, memory)},
        .rank = rank,
        .of_task = (found->origin & HANDOFF_ORIGIN_TASK) != 0,
        .age = age_of_memory(assembly, rank, memory->id),
        .importance = memory->importance,
        .relevance = found->relevance,
        .match = found->origin & HANDOFF_ORIGIN_RECENT ? found : NULL,
        .version = memory->version,
        .known = {[HANDOFF_FORM_FULL] = kept_count(found, HANDOFF_RENDERING_FULL),
                  [HANDOFF_FORM_SUMMARY] = kept_count(found, HANDOFF_RENDERING_SUMMARY),
                  [HANDOFF_FORM_REFERENCE] = kept_count(found, HANDOFF_RENDERING_ID)},
    };
    return handoff_segment_tags(&assembly->arena, memory, &slot->show.tags);
}

/* The order in which memories are kept; plan.h explains the rank. All but inherited ones are of the
 * same age. */
static int compare_slots(const void *left, const void *right)
{
    const struct handoff_slot *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->rank == HANDOFF_RANK_FOUND && a->of_task != b->of_task)
        return a->of_task ? -1 : 1;
    if (a->age != b->age)
        return a->age > b->age ? -1 : 1;
    if (a->importance != b->importance)
        return a->importance > b->importance ? -1 : 1;
    if (a->relevance < b->relevance || a->relevance > b->relevance)
        return a->relevance > b->relevance ? -1 : 1;
    if (a->show.created_ms != b->show.created_ms)
        return a->show.created_ms > b->show.created_ms ? -1 : 1;
    return compare_spans(&a->show.id, &b->show.id);
}

/* What only stands in a text and was never found is perhaps no id of a memory. */
static bool may_be_no_id(const struct handoff_reference *reference, enum handoff_absence reason)
{
    return reference && reference->item->mentioned && !reference->named &&
           reason == HANDOFF_ABSENCE_NOT_FOUND;
}

/* The hop since which a reference is missing: this one, unless it was before. */
static int64_t missing_since(const struct handoff_assembly *assembly,
                             const struct handoff_reference *reference)
{
    if (!reference)
        return 0;
    return reference->item->missing_since ? reference->item->missing_since : assembly->hop_count;
}

static void add_missing(struct handoff_assembly *assembly, struct base_span id,
                        enum handoff_absence reason)
{
    const struct handoff_reference *reference = handoff_assembly_reference(assembly, id);
    const bool lost = reason == HANDOFF_ABSENCE_SPINE_UNAVAILABLE;
    if (!may_be_no_id(reference, reason))
        assembly->missing[assembly->nmissing++] = (struct handoff_missing){
            .id = id,
            .reason = reason,
            .since_hop = missing_since(assembly, reference),
            .detail = lost ? handoff_spine_why(&assembly->resolve.call) : NULL};
}

static void add_impossible_ids(struct handoff_assembly *assembly)
{
    if (assembly->nids == assembly->nreferences)
        return;
    for (size_t i = 0; i < assembly->nreferences; i++) {
        if (!can_be_asked_for(&assembly->references[i]))
            add_missing(assembly, assembly->references[i].id, HANDOFF_ABSENCE_NOT_FOUND);
    }
}

static int compare_found_ids(const void *left, const void *right)
{
    const struct base_span *a = left, *b = right;
    return compare_spans(a, b);
}

/* The ids of what the sidecar had itself, sorted. NULL: out of memory. */
static struct base_span *list_found_ids(struct handoff_assembly *assembly)
{
    const struct handoff_spine_resolve *resolve = &assembly->resolve;
    struct base_span *ids =
        base_arena_alloc(&assembly->arena, (resolve->found_count + 1) * sizeof *ids);
    if (!ids)
        return NULL;
    for (size_t i = 0; i < resolve->found_count; i++)
        ids[i] = resolve->found[i].memory.id;
    qsort(ids, resolve->found_count, sizeof *ids, compare_found_ids);
    return ids;
}

/* In strategy full nothing goes by its id alone. */
static bool is_withheld(const struct handoff_assembly *assembly, enum handoff_absence reason,
                        const struct handoff_memory *memory)
{
    return reason != HANDOFF_ABSENCE_NONE && !memory->summary.data &&
           assembly->request.strategy == HANDOFF_STRATEGY_FULL;
}

/* Without an answer, what else is pinned or relevant is unknown. */
static bool add_all_lacking(struct handoff_assembly *assembly)
{
    const enum handoff_absence reason = HANDOFF_ABSENCE_SPINE_UNAVAILABLE;
    const size_t nfound = assembly->resolve.found_count;
    const struct base_span *found = list_found_ids(assembly);
    if (!found)
        return false;
    for (size_t i = 0; i < assembly->nids; i++) {
        if (!bsearch(&assembly->ids[i], found, nfound, sizeof *found, compare_found_ids))
            add_missing(assembly, assembly->ids[i], reason);
    }
    add_impossible_ids(assembly);
    if (assembly->request.include_pins)
        add_missing(assembly, base_span_text(all_pinned), reason);
    if (assembly->request.include_recent > 0)
        add_missing(assembly, base_span_text(all_recent), reason);
    assembly->search_failed = assembly->request.include_recent > 0;
    return true;
}

static bool add_lacking(struct handoff_assembly *assembly)
{
    const struct handoff_spine_resolve *resolve = &assembly->resolve;
    if (handoff_spine_is_lost(&resolve->call))
        return add_all_lacking(assembly);
    add_impossible_ids(assembly);
    for (size_t i = 0; i < resolve->missing_count; i++)
        add_missing(assembly, resolve->missing[i], HANDOFF_ABSENCE_NOT_FOUND);
    assembly->search_failed = resolve->incomplete;
    if (resolve->more_pins)
        add_missing(assembly, base_span_text(all_pinned), HANDOFF_ABSENCE_SEARCH_INCOMPLETE);
    if (resolve->incomplete)
        add_missing(assembly, base_span_text(all_recent), HANDOFF_ABSENCE_SEARCH_INCOMPLETE);
    return true;
}

static bool sort_out(struct handoff_assembly *assembly)
{
    const struct handoff_spine_resolve *resolve = &assembly->resolve;
    if (!add_lacking(assembly))
        return false;
    for (size_t i = 0; i < resolve->found_count; i++) {
        const struct handoff_found_memory *found = &resolve->found[i];
        enum handoff_absence reason = reason_to_withhold(assembly, &found->memory);
        struct handoff_slot *slot = &assembly->slots[assembly->nslots];
        if (is_withheld(assembly, reason, &found->memory)) {
            add_missing(assembly, found->memory.id, reason);
            continue;
        }
        if (!fill_slot(assembly, slot, found))
            return false;
        slot->content_stays = reason != HANDOFF_ABSENCE_NONE;
        assembly->nslots++;
    }
    base_sort(assembly->slots, assembly->nslots, sizeof(*assembly->slots), compare_slots);
    return true;
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
            if (old->version != slot->version || old->show.age_s != slot->show.age_s ||
                !base_span_equal(old->show.id, slot->show.id))
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
    bool failed = handoff_spine_is_lost(&resolve->call);
    const struct handoff_slot *earlier = assembly->slots;
    size_t nearlier = assembly->nslots;
    size_t nfound = resolve->found_count;
    size_t nmissing = nfound + assembly->nreferences + 2; /* all pinned, all found */
    assembly->spine_ns += base_monotonic_ns(assembly->with->clock) - assembly->asked_ns;
    assembly->nslots = assembly->nmissing = 0;
    assembly->search_failed = false;
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
    if (!sort_out(assembly)) {
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

/* The sender, and those on the path, the last one first: a spine may look at the first ones only.
 */
static struct base_span *agents_of_chain(struct handoff_assembly *assembly)
{
    const size_t count = assembly->npath;
    struct base_span *agents = base_arena_alloc(&assembly->arena, (count + 1) * sizeof *agents);
    if (!agents)
        return NULL;
    agents[0] = assembly->request.source_agent;
    for (size_t i = 0; i < count; i++)
        agents[i + 1] = assembly->path[count - 1 - i];
    return agents;
}

static bool prepare_question(struct handoff_assembly *assembly)
{
    const struct handoff_request *request = &assembly->request;
    if (!assembly->references && !take_references(assembly))
        return false;
    const struct base_span *agents = agents_of_chain(assembly);
    if (!agents)
        return false;
    assembly->resolve = (struct handoff_spine_resolve){
        .call = {.mailbox = assembly->mailbox, .done = spine_answered},
        .arena = &assembly->arena,
        .scopes = assembly->scopes,
        .task = assembly->task_id,
        .ids = assembly->ids,
        .id_count = assembly->nids,
        .pins = request->include_pins,
        .recent = (size_t)request->include_recent,
        .query = assembly->ranked ? request->task_summary : base_span(NULL, 0),
        .intent = assembly->ranked ? assembly->intent : base_span(NULL, 0),
        .agents = agents,
        .agent_count = assembly->npath + 1,
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
