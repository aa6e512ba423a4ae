/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `trim`: counts what each part of the context costs and plans what is kept. The spine
 * stores the costs of memories, so for memories that were sent before this stage only adds numbers,
 * and counts only the request's own texts. The thread that runs the assembly.
 */
#include <inttypes.h>
#include <stdio.h>

#include "client/assemble/costs.h"
#include "lib/base/json.h"

/* ---- counting ------------------------------------------------------------------------------- */

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether the quotes around it are its only neighbours in a run (segment.h), so that ids may leave
 * their list without changing what the others cost. */
static bool has_plain_id(const struct handoff_slot *slot)
{
    const struct base_span id = slot->show.id;
    return id.size > 0 && is_alphanumeric(id.data[0]) && is_alphanumeric(id.data[id.size - 1]);
}

static bool has_form(const struct handoff_slot *slot, enum handoff_form form)
{
    switch (form) {
    case HANDOFF_FORM_FULL:
        return !slot->content_stays;
    case HANDOFF_FORM_SUMMARY:
        return slot->show.summary.data != NULL;
    case HANDOFF_FORM_ID:
        return slot->rank != HANDOFF_RANK_FOUND && has_plain_id(slot);
    default:
        return true;
    }
}

/* The forms a strategy may use; the others are not counted. By priority, a reference goes only
 * where nothing else may. */
static bool strategy_uses(enum handoff_strategy strategy, const struct handoff_slot *slot,
                          enum handoff_form form)
{
    const bool withheld = slot->content_stays && !slot->show.summary.data;
    switch (strategy) {
    case HANDOFF_STRATEGY_FULL:
        return form == (slot->content_stays ? HANDOFF_FORM_SUMMARY : HANDOFF_FORM_FULL);
    case HANDOFF_STRATEGY_SUMMARY:
        return form != HANDOFF_FORM_FULL;
    case HANDOFF_STRATEGY_LAZY:
        return form == HANDOFF_FORM_REFERENCE || form == HANDOFF_FORM_ID;
    default:
        return form != HANDOFF_FORM_REFERENCE ||
               (slot->rank == HANDOFF_RANK_FOUND ? withheld : !has_plain_id(slot));
    }
}

/* ---- the lists ------------------------------------------------------------------------------ */

/* In the order of the context. */
static const struct {
    enum handoff_item_kind item;
} list_rows[HANDOFF_LISTS] = {
    [HANDOFF_PART_STATE] = {HANDOFF_ITEM_STATE},
    [HANDOFF_PART_DECISIONS] = {HANDOFF_ITEM_DECISION},
    [HANDOFF_PART_UNRESOLVED] = {HANDOFF_ITEM_UNRESOLVED},
    [HANDOFF_PART_REMAINING] = {HANDOFF_ITEM_REMAINING},
    [HANDOFF_PART_STEPS] = {HANDOFF_ITEM_STEP},
};

/* A list of the state is there where it has entries; the state itself and the history always are.
 */
static bool has_list(const struct handoff_assembly *assembly, enum handoff_part kind)
{
    return kind == HANDOFF_PART_STEPS || kind == HANDOFF_PART_STATE ||
           assembly->ledger.items[list_rows[kind].item].count > 0;
}

static enum handoff_list_end end_of_list(const struct handoff_assembly *assembly,
                                         enum handoff_part kind)
{
    if (kind == HANDOFF_PART_STEPS)
        return HANDOFF_LIST_END_HISTORY;
    if (kind < HANDOFF_PART_UNRESOLVED && has_list(assembly, HANDOFF_PART_UNRESOLVED))
        return HANDOFF_LIST_END_UNRESOLVED;
    if (kind < HANDOFF_PART_REMAINING && has_list(assembly, HANDOFF_PART_REMAINING))
        return HANDOFF_LIST_END_REMAINING;
    return HANDOFF_LIST_END_STATE;
}

/* What follows the other members of the state. */
static void end_members(const struct handoff_assembly *assembly, struct handoff_list *list)
{
    static const char *const keys[HANDOFF_LISTS] = {
        [HANDOFF_PART_DECISIONS] = "\"decisions",
        [HANDOFF_PART_UNRESOLVED] = "\"unresolved",
        [HANDOFF_PART_REMAINING] = "\"remaining",
    };
    list->end = HANDOFF_LIST_END_MEMBERS;
    for (unsigned kind = HANDOFF_PART_STATE + 1; kind < HANDOFF_PART_STEPS; kind++) {
        if (has_list(assembly, kind)) {
            list->next_key = base_span_text(keys[kind]);
            return;
        }
    }
}

static bool make_lists(struct handoff_assembly *assembly)
{
    for (unsigned kind = 0; kind < HANDOFF_LISTS; kind++) {
        struct handoff_list *list = &assembly->lists[kind];
        if (!has_list(assembly, kind))
            continue;
        *list = (struct handoff_list){.items = assembly->ledger.items[list_rows[kind].item],
                                      .runs = &assembly->with->runs,
                                      .own = &assembly->ledger.own,
                                      .texts = &assembly->parts};
        if (!handoff_list_init(list, kind, end_of_list(assembly, kind), &assembly->arena))
            return false;
        if (kind == HANDOFF_PART_STATE)
            end_members(assembly, list);
        assembly->plan.lists[kind] = &list->trim;
    }
    return true;
}

/* ---- the parts that are not trimmed --------------------------------------------------------- */

static void write_context_head(struct base_buffer *out, struct handoff_assembly *assembly)
{
    base_buffer_text(out, HANDOFF_SEGMENT_HEAD_OPEN);
    base_json_write_string(out, assembly->intent);
    base_buffer_text(out, ",\"summary\":");
    base_json_write_string(out, assembly->request.task_summary);
    base_buffer_text(out, ",\"state");
}

static void write_context_tail(struct base_buffer *out, struct handoff_assembly *assembly)
{
    base_buffer_text(out, HANDOFF_SEGMENT_TAIL_OPEN);
    base_json_write_object(out, assembly->constraints);
    base_buffer_text(out, ",\"expected_output\":");
    base_json_write_object(out, assembly->request.expected_output);
    base_buffer_byte(out, '}');
}

/* Writes and counts the parts that are always there: once, although the stage may run twice. Behind
 * them the lists write their entries. */
static enum handoff_code write_parts(struct handoff_assembly *assembly, struct handoff_error *error)
{
    struct base_buffer *out = &assembly->parts;
    struct handoff_counter counter = {.tokenizer = assembly->with->tokenizer};
    out->arena = &assembly->arena;
    base_buffer_reserve(out, assembly->body.size); /* usually as long as the request */
    write_context_head(out, assembly);
    assembly->head_size = out->size;
    write_context_tail(out, assembly);
    assembly->tail_size = out->size - assembly->head_size;
    if (out->failed || !make_lists(assembly))
        return handoff_error_no_memory(error);
    assembly->plan.fixed =
        (uint64_t)handoff_cost_of_text(&counter, base_span(out->data, assembly->head_size)) +
        handoff_cost_of_text(&counter,
                             base_span(out->data + assembly->head_size, assembly->tail_size));
    return counter.failed ? handoff_error_no_memory(error) : HANDOFF_OK;
}

/* ---- the plan ------------------------------------------------------------------------------- */

static void fill_memory(struct handoff_counter *counter, const struct handoff_assembly *assembly,
                        struct handoff_slot *slot, struct handoff_trim_memory *memory)
{
    enum handoff_strategy strategy = (enum handoff_strategy)assembly->request.strategy;
    memory->rank = slot->rank;
    memory->age = slot->age;
    for (enum handoff_form form = 0; form < HANDOFF_FORMS; form++) {
        if (!strategy_uses(strategy, slot, form) || !has_form(slot, form))
            continue;
        if (!slot->known[form]) {
            slot->known[form] =
                form == HANDOFF_FORM_ID
                    ? handoff_cost_of_text(counter, slot->show.id) + assembly->with->ids_next
                    : handoff_cost_of_memory(counter, &slot->show, form);
            slot->learned[form] = !counter->failed && form != HANDOFF_FORM_ID;
        }
        memory->cost[form] = slot->known[form];
    }
    memory->last_extra = handoff_cost_of_being_last(counter, &slot->show);
}

static enum handoff_code fill_plan(struct handoff_assembly *assembly,
                                   struct handoff_counter *counter, struct handoff_error *error)
{
    struct handoff_trim_plan *plan = &assembly->plan;
    plan->memories =
        base_arena_calloc(&assembly->arena, assembly->nslots + 1, sizeof(*plan->memories));
    if (!plan->memories)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < assembly->nslots; i++)
        fill_memory(counter, assembly, &assembly->slots[i], &plan->memories[i]);
    for (int i = 0; i < HANDOFF_LISTS; i++)
        assembly->lists[i].counter = counter;
    plan->strategy = (enum handoff_strategy)assembly->request.strategy;
    plan->budget = assembly->budget;
    plan->nmemories = assembly->nslots;
    plan->memories_none = assembly->with->memories_none;
    plan->memories_some = assembly->with->memories_some;
    plan->ids_some = assembly->with->ids_some;
    return counter->failed ? handoff_error_no_memory(error) : HANDOFF_OK;
}

static uint64_t max_tokens_of(const struct handoff_assembly *assembly)
{
    return handoff_constraints_max_tokens(assembly->constraints);
}

/* A number is a separate piece between the punctuation of JSON, so its tokens add up too. */
static uint64_t number_tokens(const struct handoff_tokenizer *tokenizer, uint64_t number)
{
    char text[24];
    size_t tokens = 0;
    int size = snprintf(text, sizeof(text), "%" PRIu64, number);
    if (handoff_tokens_count(tokenizer, text, (size_t)size, &tokens) != HANDOFF_OK)
        return (uint64_t)size; /* out of memory: a digit is at most one token */
    return tokens;
}

/* The budget is part of the context, as max_tokens, so a greater one may need a token more for its
 * own digits: tries what is needed until it is enough. */
static uint64_t needed_with_itself(struct handoff_assembly *assembly, uint64_t max_tokens)
{
    const struct handoff_tokenizer *tokenizer = assembly->with->tokenizer;
    struct handoff_trim_plan *plan = &assembly->plan;
    if (!max_tokens)
        return plan->needed;
    const uint64_t rest = plan->fixed - number_tokens(tokenizer, max_tokens);
    do {
        plan->budget = plan->needed;
        plan->fixed = rest + number_tokens(tokenizer, plan->needed);
    } while (!handoff_trim(plan));
    return plan->budget;
}

/* By whom the budget is set decides who can raise it. */
static void refuse_budget(struct handoff_assembly *assembly)
{
    static const char *const texts[2][2] = {
        {"task, constraints, expected output, unresolved questions and the ids of memories are "
         "never trimmed, but together they exceed the token budget of the receiver",
         "task, constraints, expected output, unresolved questions and the ids of memories are "
         "never trimmed, but together they exceed the token budget"},
        {"strategy full omits nothing, but the whole context exceeds the token budget of the "
         "receiver",
         "strategy full omits nothing, but the whole context exceeds the token budget"}};
    struct handoff_error *error = &assembly->error;
    const bool full = assembly->request.strategy == HANDOFF_STRATEGY_FULL;
    const bool own = assembly->budget < assembly->token_budget;
    uint64_t needed = needed_with_itself(assembly, max_tokens_of(assembly));
    handoff_error_set(error, HANDOFF_ERR_BUDGET_TOO_SMALL, texts[full][own],
                      own ? "constraints.max_tokens" : "token_budget", NULL);
    handoff_error_seen(error, "%llu", (unsigned long long)assembly->budget);
    handoff_error_allow(error, "%llu or more", (unsigned long long)needed);
    error->needed = (int64_t)needed;
}

/* Whether any memory is not in its best form. Only then does relevance matter, and asking the spine
 * for it is the most expensive part of an assembly. */
static bool something_gave_way(const struct handoff_assembly *assembly)
{
    for (size_t i = 0; i < assembly->plan.nmemories; i++) {
        const struct handoff_trim_memory *memory = &assembly->plan.memories[i];
        for (enum handoff_form form = 0; form < memory->form; form++) {
            if (memory->cost[form] > 0)
                return true;
        }
    }
    return false;
}

/* The lists count while the plan is made. */
static enum handoff_code make_plan(struct handoff_assembly *assembly)
{
    struct handoff_error *error = &assembly->error;
    struct handoff_counter counter = {.tokenizer = assembly->with->tokenizer,
                                      .scratch.arena = &assembly->arena};
    if (!assembly->parts.data && write_parts(assembly, error) != HANDOFF_OK)
        return error->code;
    if (fill_plan(assembly, &counter, error) != HANDOFF_OK)
        return error->code;
    if (!handoff_trim(&assembly->plan))
        refuse_budget(assembly);
    if (counter.failed || assembly->parts.failed)
        return handoff_error_no_memory(error);
    return error->code;
}

enum handoff_progress handoff_stage_trim(struct handoff_assembly *assembly)
{
    uint64_t max_tokens = max_tokens_of(assembly);
    assembly->budget = assembly->token_budget;
    if (max_tokens && max_tokens < assembly->budget)
        assembly->budget = max_tokens;
    if (make_plan(assembly) != HANDOFF_OK)
        return HANDOFF_PROGRESS_FAILED;
    return !assembly->ranked && something_gave_way(assembly) ? HANDOFF_PROGRESS_RERANK
                                                             : HANDOFF_PROGRESS_NEXT;
}
