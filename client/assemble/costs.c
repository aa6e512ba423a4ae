/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the parts of a context, see costs.h. Any thread. */
#include "client/assemble/costs.h"

#include "lib/base/error.h"
#include "lib/base/json.h"

uint32_t handoff_cost_of_memory(struct handoff_counter *counter,
                                const struct handoff_segment_memory *show, enum handoff_form form)
{
    base_buffer_clear(&counter->scratch);
    handoff_segment_memory_write(&counter->scratch, show, form);
    base_buffer_text(&counter->scratch, HANDOFF_SEGMENT_MEMORIES_NEXT);
    return handoff_cost_of_scratch(counter);
}

int32_t handoff_cost_of_being_last(struct handoff_counter *counter,
                                   const struct handoff_segment_memory *show)
{
    uint32_t cost[2];
    static const char *const ends[] = {HANDOFF_SEGMENT_MEMORIES_NEXT, HANDOFF_SEGMENT_MEMORIES_END};
    for (int i = 0; i < 2; i++) {
        base_buffer_clear(&counter->scratch);
        handoff_segment_memory_end_write(&counter->scratch, show);
        base_buffer_text(&counter->scratch, ends[i]);
        cost[i] = handoff_cost_of_scratch(counter);
    }
    return (int32_t)cost[1] - (int32_t)cost[0];
}

/* ---- what all assemblies share --------------------------------------------------------------- */

/* Whether the spine's part of a memory changes no count. */
static bool memories_count_alike(struct handoff_counter *counter)
{
    struct handoff_segment_memory show = {.id = base_span_text("m"),
                                          .content = base_span_text("c"),
                                          .priority =
                                              handoff_importance_name(HANDOFF_IMPORTANCE_MEDIUM),
                                          .pinned = true,
                                          .tags = base_span_text("[]")};
    const uint32_t early = handoff_cost_of_memory(counter, &show, HANDOFF_FORM_FULL);
    show.pinned = false;
    show.created_ms = INT64_C(1987654321987);
    return handoff_cost_of_memory(counter, &show, HANDOFF_FORM_FULL) == early;
}

enum handoff_code handoff_assembler_prepare(struct handoff_assembler *assembler,
                                            struct handoff_error *error)
{
    struct handoff_counter counter = {.tokenizer = assembler->tokenizer};
#define COST(text) handoff_cost_of_text(&counter, base_span_text(text))
    assembler->memories_none = COST(HANDOFF_SEGMENT_MEMORIES_NONE);
    assembler->memories_some = COST(HANDOFF_SEGMENT_MEMORIES_OPEN);
    assembler->ids_next = COST(HANDOFF_SEGMENT_IDS_NEXT);
    assembler->ids_some = COST(HANDOFF_SEGMENT_IDS_KEY) + COST(HANDOFF_SEGMENT_IDS_OPEN) +
                          COST(HANDOFF_SEGMENT_IDS_END) - assembler->ids_next;
#undef COST
    handoff_list_prepare(&assembler->runs, &counter);
    assembler->counts_puts = memories_count_alike(&counter);
    base_buffer_free(&counter.scratch);
    return counter.failed ? handoff_error_no_memory(error) : HANDOFF_OK;
}

/* ---- memories that are put ------------------------------------------------------------------- */

void handoff_cost_put(const struct handoff_assembler *assembler, struct base_arena *arena,
                      struct handoff_spine_put *put)
{
    const struct handoff_memory *memory = &put->memory;
    struct handoff_counter counter = {.tokenizer = assembler->tokenizer, .scratch.arena = arena};
    struct handoff_segment_memory show = {.id = memory->id,
                                          .content = memory->content,
                                          .summary = memory->summary,
                                          .priority = handoff_importance_name(memory->importance)};
    if (!assembler->counts_puts || !handoff_segment_tags(arena, memory, &show.tags))
        return;
    const int64_t reference = handoff_cost_of_memory(&counter, &show, HANDOFF_FORM_REFERENCE);
    int64_t summary = 0, full = 0;
    if (memory->summary.data)
        summary = handoff_cost_of_memory(&counter, &show, HANDOFF_FORM_SUMMARY);
    if (memory->content.size <= assembler->memory_max_bytes)
        full = handoff_cost_of_memory(&counter, &show, HANDOFF_FORM_FULL);
    if (counter.failed)
        return;
    put->encoding = base_span_text(handoff_tokenizer_encoding(assembler->tokenizer));
    put->tokens[HANDOFF_RENDERING_ID] = reference;
    put->tokens[HANDOFF_RENDERING_SUMMARY] = summary;
    put->tokens[HANDOFF_RENDERING_FULL] = full;
}
