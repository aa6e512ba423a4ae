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

/* The forms a strategy may use; the others are not counted. */
static bool strategy_uses(enum handoff_strategy strategy, const struct handoff_slot *slot,
                          enum handoff_form form)
{
    switch (strategy) {
    case HANDOFF_STRATEGY_FULL:
        return form == (slot->content_stays ? HANDOFF_FORM_SUMMARY : HANDOFF_FORM_FULL);
    case HANDOFF_STRATEGY_SUMMARY:
        return form != HANDOFF_FORM_FULL;
    case HANDOFF_STRATEGY_LAZY:
        return form == HANDOFF_FORM_REFERENCE;
    default:
        return form != HANDOFF_FORM_REFERENCE;
    }
}

static bool has_form(const struct handoff_slot *slot, enum handoff_form form)
{
    return (form == HANDOFF_FORM_FULL && !slot->content_stays) ||
           (form == HANDOFF_FORM_SUMMARY && slot->show.summary.data) ||
           form == HANDOFF_FORM_REFERENCE;
}

/* ---- the parts that are not trimmed --------------------------------------------------------- */

static void write_context_head(struct base_buffer *out, struct handoff_assembly *assembly)
{
    base_buffer_text(out, HANDOFF_SEGMENT_HEAD_OPEN);
    base_json_write_string(out, assembly->intent);
    assembly->intent_size = out->size - (sizeof(HANDOFF_SEGMENT_HEAD_OPEN) - 1);
    base_buffer_text(out, ",\"summary\":");
    base_json_write_string(out, assembly->request.task_summary);
    base_buffer_text(out, ",\"state\":");
    base_json_write_object(out, assembly->request.state);
    base_buffer_text(out, "}" HANDOFF_SEGMENT_HEAD_END);
}

/* In the order of the envelope, so encoding only copies the newest ones. */
static void write_steps(struct base_buffer *out, const struct handoff_assembly *assembly)
{
    for (size_t i = 0; i < assembly->nsteps; i++) {
        assembly->step_at[i] = out->size;
        handoff_segment_step_write(out, assembly->steps[i]);
        base_buffer_text(out, i + 1 < assembly->nsteps ? HANDOFF_SEGMENT_HISTORY_NEXT
                                                       : HANDOFF_SEGMENT_HISTORY_END);
    }
    assembly->step_at[assembly->nsteps] = out->size;
}

static void write_context_tail(struct base_buffer *out, struct handoff_assembly *assembly)
{
    base_buffer_text(out, HANDOFF_SEGMENT_TAIL_OPEN);
    const size_t constraints_at = out->size;
    base_json_write_object(out, assembly->constraints);
    assembly->constraints_size = out->size - constraints_at;
    base_buffer_text(out, ",\"expected_output\":");
    base_json_write_object(out, assembly->request.expected_output);
    base_buffer_byte(out, '}');
}

/* Writes and counts the parts that do not depend on memories: once, although the stage may run
 * twice. */
static enum handoff_code write_parts(struct handoff_assembly *assembly, struct handoff_error *error)
{
    struct handoff_trim_plan *plan = &assembly->plan;
    struct base_buffer *out = &assembly->parts;
    out->arena = &assembly->arena;
    struct handoff_counter counter = {.tokenizer = assembly->with->tokenizer};
    const size_t nsteps = assembly->nsteps;
    uint32_t *history = base_arena_calloc(&assembly->arena, nsteps + 1, sizeof(*history));
    assembly->step_at = base_arena_calloc(&assembly->arena, nsteps + 1, sizeof(size_t));
    if (!history || !assembly->step_at)
        return handoff_error_no_memory(error);
    base_buffer_reserve(out, assembly->body.size); /* usually as long as the request */
    write_context_head(out, assembly);
    assembly->head_size = out->size;
    write_steps(out, assembly);
    write_context_tail(out, assembly);
    if (out->failed)
        return handoff_error_no_memory(error);
    const char *text = out->data;
    const size_t *at = assembly->step_at;
    plan->fixed =
        (uint64_t)handoff_cost_of_text(&counter, base_span(text, assembly->head_size)) +
        handoff_cost_of_text(&counter, base_span(text + at[nsteps], out->size - at[nsteps]));
    for (size_t i = 0; i < nsteps; i++)
        history[i] = handoff_cost_of_text(&counter, base_span(text + at[i], at[i + 1] - at[i]));
    plan->history = history;
    plan->nhistory = nsteps;
    return counter.failed ? handoff_error_no_memory(error) : HANDOFF_OK;
}

/* ---- the plan ------------------------------------------------------------------------------- */

static void fill_memory(struct handoff_counter *counter, const struct handoff_assembly *assembly,
                        struct handoff_slot *slot, struct handoff_trim_memory *memory)
{
    enum handoff_strategy strategy = (enum handoff_strategy)assembly->request.strategy;
    memory->rank = slot->rank;
    for (enum handoff_form form = 0; form < HANDOFF_FORMS; form++) {
        if (!strategy_uses(strategy, slot, form) || !has_form(slot, form))
            continue;
        if (!slot->known[form]) {
            slot->known[form] = handoff_cost_of_memory(counter, &slot->show, form);
            slot->learned[form] = !counter->failed;
        }
        memory->cost[form] = slot->known[form];
    }
    memory->last_extra = handoff_cost_of_being_last(counter, &slot->show);
}

static enum handoff_code fill_plan(struct handoff_assembly *assembly, struct handoff_error *error)
{
    struct handoff_trim_plan *plan = &assembly->plan;
    struct handoff_counter counter = {.tokenizer = assembly->with->tokenizer,
                                      .scratch.arena = &assembly->arena};
    plan->memories =
        base_arena_calloc(&assembly->arena, assembly->nslots + 1, sizeof(*plan->memories));
    if (!plan->memories)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < assembly->nslots; i++)
        fill_memory(&counter, assembly, &assembly->slots[i], &plan->memories[i]);
    plan->strategy = (enum handoff_strategy)assembly->request.strategy;
    plan->budget = assembly->budget;
    plan->nmemories = assembly->nslots;
    plan->memories_none = assembly->with->memories_none;
    plan->memories_some = assembly->with->memories_some;
    plan->history_none = assembly->with->history_none;
    plan->history_some = assembly->with->history_some;
    return counter.failed ? handoff_error_no_memory(error) : HANDOFF_OK;
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

/* The budget is part of the context, as max_tokens, so the smallest sufficient budget is the
 * smallest number that covers the rest and its own tokens. */
static uint64_t needed_with_itself(const struct handoff_assembly *assembly, uint64_t max_tokens)
{
    const struct handoff_tokenizer *tokenizer = assembly->with->tokenizer;
    if (!max_tokens)
        return assembly->plan.needed;
    uint64_t rest = assembly->plan.needed - number_tokens(tokenizer, max_tokens), needed = rest;
    while (rest + number_tokens(tokenizer, needed) > needed)
        needed = rest + number_tokens(tokenizer, needed);
    return needed;
}

static enum handoff_progress refuse_budget(struct handoff_assembly *assembly)
{
    struct handoff_error *error = &assembly->error;
    uint64_t needed = needed_with_itself(assembly, max_tokens_of(assembly));
    handoff_error_set(
        error, HANDOFF_ERR_BUDGET_TOO_SMALL,
        assembly->request.strategy == HANDOFF_STRATEGY_FULL
            ? "strategy full omits nothing, but the whole context exceeds the token budget"
            : "task, constraints, expected output and pinned memories are never trimmed, but "
              "together they exceed the token budget",
        "constraints.max_tokens", NULL);
    handoff_error_seen(error, "%llu", (unsigned long long)assembly->budget);
    handoff_error_allow(error, "%llu or more", (unsigned long long)needed);
    error->needed = (int64_t)needed;
    return HANDOFF_PROGRESS_FAILED;
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

enum handoff_progress handoff_stage_trim(struct handoff_assembly *assembly)
{
    uint64_t max_tokens = max_tokens_of(assembly);
    assembly->budget = assembly->token_budget;
    if (max_tokens && max_tokens < assembly->budget)
        assembly->budget = max_tokens;
    if (!assembly->plan.history && write_parts(assembly, &assembly->error) != HANDOFF_OK)
        return HANDOFF_PROGRESS_FAILED;
    if (fill_plan(assembly, &assembly->error) != HANDOFF_OK)
        return HANDOFF_PROGRESS_FAILED;
    if (!handoff_trim(&assembly->plan))
        return refuse_budget(assembly);
    return !assembly->ranked && something_gave_way(assembly) ? HANDOFF_PROGRESS_RERANK
                                                             : HANDOFF_PROGRESS_NEXT;
}
