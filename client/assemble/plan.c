/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the plan of plan.h. Pure: no allocation, no text, any thread. */
#include "client/assemble/plan.h"

#include "lib/base/check.h"

/* The forms each strategy tries, best first. */
static const enum handoff_form forms_of[][HANDOFF_FORMS] = {
    [HANDOFF_STRATEGY_PRIORITY] = {HANDOFF_FORM_FULL, HANDOFF_FORM_SUMMARY, HANDOFF_FORM_NONE},
    [HANDOFF_STRATEGY_FULL] = {HANDOFF_FORM_FULL, HANDOFF_FORM_NONE, HANDOFF_FORM_NONE},
    [HANDOFF_STRATEGY_SUMMARY] = {HANDOFF_FORM_SUMMARY, HANDOFF_FORM_REFERENCE, HANDOFF_FORM_NONE},
    [HANDOFF_STRATEGY_LAZY] = {HANDOFF_FORM_REFERENCE, HANDOFF_FORM_NONE, HANDOFF_FORM_NONE},
};

/* The walk: tokens spent so far, and the memory that currently ends the list. */
struct walk {
    struct handoff_trim_plan *plan;
    int64_t spent;
    int64_t last_extra; /* of the memory that is last now; 0 while there is none */
    bool some;          /* the list is not empty */
};

static bool must_keep(const struct handoff_trim_plan *plan,
                      const struct handoff_trim_memory *memory)
{
    return plan->strategy == HANDOFF_STRATEGY_FULL || memory->rank == HANDOFF_RANK_PINNED;
}

/* The n-th best form of the memory under the strategy, or NONE. In strategy full a memory whose
 * content may not be sent is sent as its summary, since that strategy omits no memory. */
static enum handoff_form form_of(const struct handoff_trim_plan *plan,
                                 const struct handoff_trim_memory *memory, unsigned nth)
{
    const enum handoff_form *forms = forms_of[plan->strategy];
    for (unsigned i = 0; i < HANDOFF_FORMS && forms[i] != HANDOFF_FORM_NONE; i++) {
        if (memory->cost[forms[i]] > 0 && nth-- == 0)
            return forms[i];
    }
    if (plan->strategy == HANDOFF_STRATEGY_FULL && memory->cost[HANDOFF_FORM_FULL] == 0 &&
        nth == 0 && memory->cost[HANDOFF_FORM_SUMMARY] > 0)
        return HANDOFF_FORM_SUMMARY;
    return HANDOFF_FORM_NONE;
}

static enum handoff_form cheapest_form(const struct handoff_trim_plan *plan,
                                       const struct handoff_trim_memory *memory)
{
    enum handoff_form best = form_of(plan, memory, 0);
    for (unsigned nth = 1; nth < HANDOFF_FORMS; nth++) {
        enum handoff_form form = form_of(plan, memory, nth);
        if (form != HANDOFF_FORM_NONE && memory->cost[form] < memory->cost[best])
            best = form;
    }
    return best;
}

/* How many tokens the memory adds after those kept so far. */
static int64_t memory_price(const struct walk *walk, const struct handoff_trim_memory *memory,
                            enum handoff_form form)
{
    int64_t opening = (int64_t)walk->plan->memories_some - (int64_t)walk->plan->memories_none;
    return (walk->some ? 0 : opening) + (int64_t)memory->cost[form] + memory->last_extra -
           walk->last_extra;
}

static void keep_memory(struct walk *walk, struct handoff_trim_memory *memory,
                        enum handoff_form form)
{
    BASE_CHECK(form < HANDOFF_FORMS);
    walk->spent += memory_price(walk, memory, form);
    walk->last_extra = memory->last_extra;
    walk->some = true;
    memory->form = form;
}

static bool fits_budget(const struct walk *walk, int64_t more)
{
    return walk->spent + more <= (int64_t)walk->plan->budget;
}

static void keep_what_must_be(struct walk *walk)
{
    struct handoff_trim_plan *plan = walk->plan;
    for (size_t i = 0; i < plan->nmemories; i++) {
        struct handoff_trim_memory *memory = &plan->memories[i];
        memory->form = HANDOFF_FORM_NONE;
        enum handoff_form form = cheapest_form(plan, memory);
        if (must_keep(plan, memory) && form != HANDOFF_FORM_NONE)
            keep_memory(walk, memory, form);
    }
}

/* A better form of a kept memory costs only the difference: its end stays the same. */
static void improve_form(struct walk *walk, struct handoff_trim_memory *memory)
{
    for (unsigned nth = 0; nth < HANDOFF_FORMS; nth++) {
        enum handoff_form form = form_of(walk->plan, memory, nth);
        if (form == HANDOFF_FORM_NONE || form == memory->form)
            return;
        int64_t more = (int64_t)memory->cost[form] - (int64_t)memory->cost[memory->form];
        if (fits_budget(walk, more)) {
            walk->spent += more;
            memory->form = form;
            return;
        }
    }
}

static void keep_best_that_fits(struct walk *walk, struct handoff_trim_memory *memory)
{
    for (unsigned nth = 0; nth < HANDOFF_FORMS; nth++) {
        enum handoff_form form = form_of(walk->plan, memory, nth);
        if (form == HANDOFF_FORM_NONE)
            return;
        if (fits_budget(walk, memory_price(walk, memory, form))) {
            keep_memory(walk, memory, form);
            return;
        }
    }
}

static void keep_rank(struct walk *walk, enum handoff_rank rank)
{
    struct handoff_trim_plan *plan = walk->plan;
    for (size_t i = 0; i < plan->nmemories; i++) {
        struct handoff_trim_memory *memory = &plan->memories[i];
        if (memory->rank != rank)
            continue;
        if (memory->form != HANDOFF_FORM_NONE)
            improve_form(walk, memory);
        else
            keep_best_that_fits(walk, memory);
    }
}

static int64_t history_price(const struct handoff_trim_plan *plan, size_t kept)
{
    int64_t opening = kept ? 0 : (int64_t)plan->history_some - (int64_t)plan->history_none;
    return opening + (int64_t)plan->history[plan->nhistory - 1 - kept];
}

static void keep_history(struct walk *walk, bool all)
{
    struct handoff_trim_plan *plan = walk->plan;
    while (plan->history_kept < plan->nhistory) {
        int64_t more = history_price(plan, plan->history_kept);
        if (!all && !fits_budget(walk, more))
            return;
        walk->spent += more;
        plan->history_kept++;
    }
}

bool handoff_trim(struct handoff_trim_plan *plan)
{
    BASE_CHECK((size_t)plan->strategy < sizeof(forms_of) / sizeof(forms_of[0]));
    struct walk walk = {.plan = plan,
                        .spent = (int64_t)(plan->fixed + plan->memories_none + plan->history_none)};
    plan->history_kept = 0;
    keep_what_must_be(&walk);
    if (plan->strategy == HANDOFF_STRATEGY_FULL)
        keep_history(&walk, true);
    plan->needed = (uint64_t)walk.spent;
    if (!fits_budget(&walk, 0))
        return false;
    keep_rank(&walk, HANDOFF_RANK_PINNED);
    keep_rank(&walk, HANDOFF_RANK_ASKED);
    keep_history(&walk, false);
    keep_rank(&walk, HANDOFF_RANK_FOUND);
    plan->count = (uint64_t)walk.spent;
    BASE_CHECK(plan->count <= plan->budget);
    return true;
}
