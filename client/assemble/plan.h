/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - which memories and steps go into the envelope, and in which form: additions only.
 *
 * A context is cut into segments whose token counts are independent of each other (segment.h says
 * where and why), so the count of any selection is a sum, and the sum is exact. This module handles
 * no texts: it takes costs in rank order and returns a plan.
 *
 * The rule. The fixed parts (task, constraints, expected output) and every pinned memory in its
 * cheapest form are always kept; if they do not fit, the plan is rejected with the budget it needs.
 * Then in rank order: pinned memories get the best form that fits; then memories requested by id,
 * each in the best form that fits; then the history, newest step first, up to the first that does
 * not fit (a log with holes misleads); then the memories that were found. A memory that fits in no
 * form is trimmed and does not block a lesser one after it. History precedes found memories because
 * it keeps a receiver from repeating or contradicting work, whereas found memories are a guess by
 * relevance.
 *
 * Forms, best first: full: full. priority: full, summary. summary: summary, reference. lazy:
 * reference. A memory whose content may not be sent (a conversation log, or too large) has a full
 * cost of 0; its summary replaces it, in strategy full too. Pure, any thread.
 */
#ifndef HANDOFF_ASSEMBLE_PLAN_H
#define HANDOFF_ASSEMBLE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/model/handoff_model.h"

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
    uint32_t cost[HANDOFF_FORMS]; /* with another memory after it; 0: it has no such form */
    int32_t last_extra;           /* extra cost with none after it; may be negative */
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
    size_t history_kept; /* how many of the newest */
    uint64_t count;      /* tokens of the whole context */
    uint64_t needed;     /* the smallest budget that is not rejected */
};

/* False: the parts that may not be trimmed exceed the budget; see `needed`. */
bool handoff_trim(struct handoff_trim_plan *plan);

#endif
