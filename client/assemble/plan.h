/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - which memories and steps go into the envelope, and in which form: additions only.
 *
 * A context is cut into segments whose token counts are independent of each other (segment.h says
 * where and why), so the count of any selection is a sum, and the sum is exact. This module knows
 * nothing of texts: it is given costs in rank order and answers a plan.
 *
 * The rule. What is fixed (task, constraints, expected output) and every pinned memory in its
 * cheapest form is kept whatever happens; if that does not fit, the plan is refused and says which
 * budget would do. Then down the rank order: pinned memories get the best form that fits; then
 * memories asked for by id, each in the best form that fits; then the history, newest step first,
 * up to the first that does not fit (a log with holes misleads); then the memories that were found.
 * A memory that fits in no form is trimmed and does not stop a lesser one behind it.
 * History stands before found memories because it is what keeps a receiver from repeating or
 * contradicting work, whereas found memories are a guess by relevance.
 *
 * Forms, best first: full: full. priority: full, summary. summary: summary, reference.
 * lazy: reference. A memory that may not go in full (a conversation log, or too large) has a full
 * cost of 0; its summary then stands in, in strategy full too.
 */
#ifndef HANDOFF_ASSEMBLE_PLAN_H
#define HANDOFF_ASSEMBLE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum handoff_strategy {
    HANDOFF_STRATEGY_PRIORITY = 0, /* the default */
    HANDOFF_STRATEGY_FULL,
    HANDOFF_STRATEGY_SUMMARY,
    HANDOFF_STRATEGY_LAZY,
};

enum handoff_form {
    HANDOFF_FORM_FULL = 0, /* with its content */
    HANDOFF_FORM_SUMMARY,
    HANDOFF_FORM_REFERENCE, /* neither: the receiver fetches it */
    HANDOFF_FORMS,
    HANDOFF_FORM_NONE = HANDOFF_FORMS, /* trimmed */
};

enum handoff_rank { HANDOFF_RANK_PINNED, HANDOFF_RANK_ASKED, HANDOFF_RANK_FOUND };

struct handoff_trim_memory {
    enum handoff_rank rank;
    uint32_t cost[HANDOFF_FORMS]; /* with another memory behind it; 0: it has no such form */
    int32_t last_extra;           /* what it costs more with none behind it; may be negative */
    enum handoff_form form;       /* answer */
};

struct handoff_trim_plan {
    enum handoff_strategy strategy;
    uint64_t budget;
    uint64_t fixed;                       /* everything outside the two lists */
    uint32_t memories_none;               /* "memories":[] ... */
    uint32_t memories_some;               /* ... and what opens a list that is not empty */
    uint32_t history_none;                /* likewise */
    uint32_t history_some;                /* likewise */
    struct handoff_trim_memory *memories; /* pinned, then asked, then found; each in rank order */
    size_t nmemories;
    const uint32_t
        *history; /* oldest first; the newest as the last of the list, which it always is */
    size_t nhistory;

    /* answers */
    size_t history_kept; /* that many of the newest */
    uint64_t count;      /* tokens of the whole context */
    uint64_t needed;     /* the least budget that is not refused */
};

/* False when what may not be trimmed exceeds the budget: `needed` says by how much. */
bool handoff_trim(struct handoff_trim_plan *plan);

#endif
