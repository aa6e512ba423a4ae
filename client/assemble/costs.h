/* SPDX-License-Identifier: Apache-2.0 */
/*
 * costs.h - what the parts of a context cost in tokens, each counted by itself (segment.h).
 *
 * A memory is counted when it is put, with all that a put says of it. What the spine adds, when the
 * memory was made and whether it is pinned, changes no count of an exact tokenizer: digits are
 * counted in threes whatever they are, and `true` and `false` are one token each. Where that does
 * not hold (handoff_assembler_prepare looks), memories are counted when they are first sent.
 *
 * Pure but for the allocator; any thread.
 */
#ifndef HANDOFF_ASSEMBLE_COSTS_H
#define HANDOFF_ASSEMBLE_COSTS_H

#include "client/assemble/assemble.h"
#include "client/assemble/counter.h"

/* With another memory after it. */
uint32_t handoff_cost_of_memory(struct handoff_counter *counter,
                                const struct handoff_segment_memory *show, enum handoff_form form);
/* The extra cost of a memory at the end of the list over one with another after it. */
int32_t handoff_cost_of_being_last(struct handoff_counter *counter,
                                   const struct handoff_segment_memory *show);

/* Counts the memory of a put for it, in every form that it may be sent in. What cannot be counted
 * now is left out, to be counted when it is first sent. */
void handoff_cost_put(const struct handoff_assembler *assembler, struct base_arena *arena,
                      struct handoff_spine_put *put);

#endif
