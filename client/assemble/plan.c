/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the plan of plan.h. Pure: no allocation, no text, any thread. */
#include "client/assemble/plan.h"

#include "lib/base/check.h"

/* The forms each strategy tries, best first. */
static const enum handoff_form forms_of[][HANDOFF_FORMS] = {
    [HANDOFF_STRATEGY_PRIORITY] = {HANDOFF_FORM_FULL, HANDOFF_FORM_SUMMARY, HANDOFF_FORM_REFERENCE,
                                   HANDOFF_FORM_ID},
    [HANDOFF_STRATEGY_FULL] = {HANDOFF_FORM_FULL, HANDOFF_FORM_NONE},
    [HANDOFF_STRATEGY_SUMMARY] = {HANDOFF_FORM_SUMMARY, HANDOFF_FORM_REFERENCE, HANDOFF_FORM_ID,
                                  HANDOFF_FORM_NONE},
    [HANDOFF_STRATEGY_LAZY] = {HANDOFF_FORM_REFERENCE, HANDOFF_FORM_ID, HANDOFF_FORM_NONE},
};

/* The walk: tokens spent so far, and which memory currently ends the list. */
struct walk {
    struct handoff_trim_plan *plan;
    int64_t spent;
    size_t behind_last; /* the place after the last memory in their list; 0: it is empty */
    size_t ids;         /* how many are in the list of ids */
    size_t questions;   /* unresolved entries that had no room in their half: the oldest */
};

/* ---- memories ------------------------------------------------------------------------------- */

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

static bool is_listed(enum handoff_form form)
{
    return form < HANDOFF_FORM_ID;
}

/* What the list of memories grows by. */
static int64_t listing_price(const struct walk *walk, size_t place, enum handoff_form form)
{
    const struct handoff_trim_plan *plan = walk->plan;
    const struct handoff_trim_memory *memory = &plan->memories[place];
    const int64_t price = memory->cost[form];
    if (is_listed(memory->form)) /* its end stays the same */
        return price - (int64_t)memory->cost[memory->form];
    if (walk->behind_last == 0)
        return price + memory->last_extra + plan->memories_some - plan->memories_none;
    if (place < walk->behind_last)
        return price;
    return price + memory->last_extra - plan->memories[walk->behind_last - 1].last_extra;
}

/* How many tokens the memory adds to what is kept. An id may only become something better. */
static int64_t memory_price(const struct walk *walk, size_t place, enum handoff_form form)
{
    const struct handoff_trim_memory *memory = &walk->plan->memories[place];
    const int64_t ids = walk->plan->ids_some, cost = memory->cost[HANDOFF_FORM_ID];
    if (form == HANDOFF_FORM_ID)
        return cost + (walk->ids == 0 ? ids : 0);
    const int64_t price = listing_price(walk, place, form);
    return memory->form == HANDOFF_FORM_ID ? price - cost - (walk->ids == 1 ? ids : 0) : price;
}

static void keep_memory(struct walk *walk, size_t place, enum handoff_form form)
{
    struct handoff_trim_memory *memory = &walk->plan->memories[place];
    BASE_CHECK(form < HANDOFF_FORMS && memory->cost[form] > 0);
    walk->spent += memory_price(walk, place, form);
    walk->ids -= memory->form == HANDOFF_FORM_ID;
    walk->ids += form == HANDOFF_FORM_ID;
    memory->form = form;
    if (is_listed(form) && place >= walk->behind_last)
        walk->behind_last = place + 1;
}

static int64_t room_left(const struct walk *walk)
{
    return (int64_t)walk->plan->budget - walk->spent;
}

/* Leaves a memory that is kept already as it is if no better form fits. */
static void keep_best_that_fits(struct walk *walk, size_t place)
{
    const struct handoff_trim_memory *memory = &walk->plan->memories[place];
    for (unsigned nth = 0; nth < HANDOFF_FORMS; nth++) {
        const enum handoff_form form = form_of(walk->plan, memory, nth);
        if (form == HANDOFF_FORM_NONE || form == memory->form)
            return;
        if (memory_price(walk, place, form) <= room_left(walk)) {
            keep_memory(walk, place, form);
            return;
        }
    }
}

static void keep_rank(struct walk *walk, enum handoff_rank rank)
{
    for (size_t i = 0; i < walk->plan->nmemories; i++) {
        if (walk->plan->memories[i].rank == rank)
            keep_best_that_fits(walk, i);
    }
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void keep_entry(struct walk *walk, struct handoff_trim_list *list, size_t entry,
                       int64_t price)
{
    list->keep(list, entry);
    list->kept++;
    walk->spent += price;
}

/* The oldest so many: from the newest of them on, whatever fits. */
static void keep_oldest(struct walk *walk, struct handoff_trim_list *list, size_t count)
{
    for (size_t i = count; i > 0 && room_left(walk) >= list->least; i--) {
        const int64_t price = list->price(list, i - 1, room_left(walk));
        if (price <= room_left(walk))
            keep_entry(walk, list, i - 1, price);
    }
}

static void keep_list(struct walk *walk, struct handoff_trim_list *list)
{
    if (list)
        keep_oldest(walk, list, list->count);
}

static bool is_newer(const struct handoff_trim_list *list, size_t left,
                     const struct handoff_trim_list *other, size_t other_left)
{
    return left > 0 &&
           (other_left == 0 || list->age(list, left - 1) >= other->age(other, other_left - 1));
}

/* The same for two lists together. */
static void keep_two_lists(struct walk *walk, struct handoff_trim_list *one,
                           struct handoff_trim_list *other)
{
    if (!one || !other) {
        keep_list(walk, one ? one : other);
        return;
    }
    size_t one_left = one->count, other_left = other->count;
    while (one_left + other_left > 0 && room_left(walk) > 0) {
        const bool is_one = is_newer(one, one_left, other, other_left);
        struct handoff_trim_list *list = is_one ? one : other;
        const size_t entry = is_one ? --one_left : --other_left;
        const int64_t price = list->price(list, entry, room_left(walk));
        if (price <= room_left(walk))
            keep_entry(walk, list, entry, price);
    }
}

static void keep_reasons(struct walk *walk, struct handoff_trim_list *list)
{
    for (size_t i = list && list->price_reason ? list->count : 0; i > 0 && room_left(walk) > 0;
         i--) {
        const int64_t price = list->price_reason(list, i - 1);
        if (price > room_left(walk))
            continue;
        list->keep_reason(list, i - 1);
        walk->spent += price;
    }
}

static void keep_whole_list(struct walk *walk, struct handoff_trim_list *list)
{
    for (size_t i = list->count; i > 0; i--) {
        const int64_t price = list->price(list, i - 1, HANDOFF_PRICE_TOO_HIGH - 1);
        if (price < HANDOFF_PRICE_TOO_HIGH)
            keep_entry(walk, list, i - 1, price);
    }
    for (size_t i = 0; i < list->count && list->price_reason; i++) {
        const int64_t price = list->price_reason(list, i);
        if (price == HANDOFF_PRICE_TOO_HIGH)
            continue;
        list->keep_reason(list, i);
        walk->spent += price;
    }
}

/* ---- what is never trimmed ------------------------------------------------------------------ */

static void start_walk(struct walk *walk, struct handoff_trim_plan *plan)
{
    *walk = (struct walk){.plan = plan, .spent = (int64_t)(plan->fixed + plan->memories_none)};
    for (size_t i = 0; i < plan->nmemories; i++)
        plan->memories[i].form = HANDOFF_FORM_NONE;
    for (int i = 0; i < HANDOFF_LISTS; i++) {
        if (!plan->lists[i])
            continue;
        plan->lists[i]->clear(plan->lists[i]);
        plan->lists[i]->kept = 0;
        walk->spent += plan->lists[i]->empty;
    }
}

static size_t count_requested(const struct handoff_trim_plan *plan)
{
    size_t count = 0;
    while (count < plan->nmemories && plan->memories[count].rank != HANDOFF_RANK_FOUND)
        count++;
    return count;
}

/* The form that costs little more than its id. */
static enum handoff_form least_form(const struct handoff_trim_memory *memory)
{
    return memory->cost[HANDOFF_FORM_ID] > 0 ? HANDOFF_FORM_ID : HANDOFF_FORM_REFERENCE;
}

/* What becomes of the next in age. One that has no room is the last that is looked at: it
 * and all older ones go. But what is larger than the whole quota hides no other. */
enum keeping { KEPT, PASSED_OVER, NO_ROOM };

static enum keeping judge_price(int64_t price, int64_t quota, int64_t room)
{
    return price <= room ? KEPT : price > quota ? PASSED_OVER : NO_ROOM;
}

static enum keeping keep_question(struct walk *walk, size_t entry, int64_t quota, int64_t room)
{
    struct handoff_trim_list *list = walk->plan->lists[HANDOFF_PART_UNRESOLVED];
    const int64_t price = list->price(list, entry, quota);
    const enum keeping keeping = judge_price(price, quota, room);
    if (keeping == KEPT)
        keep_entry(walk, list, entry, price);
    return keeping;
}

static enum keeping keep_id(struct walk *walk, size_t place, int64_t quota, int64_t room)
{
    const enum handoff_form form = least_form(&walk->plan->memories[place]);
    const enum keeping keeping = judge_price(memory_price(walk, place, form), quota, room);
    if (keeping == KEPT)
        keep_memory(walk, place, form);
    return keeping;
}

/* Unresolved entries and ids, newest first, as far as the quota goes. */
static void keep_open_questions_and_ids(struct walk *walk, int64_t quota)
{
    const struct handoff_trim_plan *plan = walk->plan;
    const struct handoff_trim_list *list = plan->lists[HANDOFF_PART_UNRESOLVED];
    const size_t requested = count_requested(plan);
    const int64_t most = walk->spent + quota;
    size_t left = list ? list->count : 0, next = 0;
    enum keeping keeping = KEPT;
    while (keeping != NO_ROOM && (left > 0 || next < requested)) {
        const int64_t room = most - walk->spent;
        if (left > 0 &&
            (next == requested || list->age(list, left - 1) >= plan->memories[next].age)) {
            keeping = keep_question(walk, left - 1, quota, room);
            left -= keeping != NO_ROOM;
        } else {
            keeping = keep_id(walk, next++, quota, room);
        }
    }
    walk->questions = left;
}

/* What all of them take at most. It does not depend on the order of the memories, which may change
 * once they are ranked by relevance: a budget is rejected the first time or never. */
static int64_t most_for_questions_and_ids(struct walk *walk)
{
    const struct handoff_trim_plan *plan = walk->plan;
    const size_t requested = count_requested(plan);
    const int64_t before = walk->spent;
    int64_t ids = 0, last_extra = INT32_MIN;
    bool some_ids = false;
    if (plan->lists[HANDOFF_PART_UNRESOLVED])
        keep_whole_list(walk, plan->lists[HANDOFF_PART_UNRESOLVED]);
    for (size_t i = 0; i < requested; i++) {
        const struct handoff_trim_memory *memory = &plan->memories[i];
        const enum handoff_form form = least_form(memory);
        ids += memory->cost[form];
        some_ids |= form == HANDOFF_FORM_ID;
        if (form != HANDOFF_FORM_ID && memory->last_extra > last_extra)
            last_extra = memory->last_extra;
    }
    if (some_ids)
        ids += plan->ids_some;
    if (last_extra > INT32_MIN)
        ids += last_extra + plan->memories_some - plan->memories_none;
    const int64_t entries = walk->spent - before;
    start_walk(walk, walk->plan);
    return entries + ids;
}

/* Only where the fixed parts take more than half of the budget can the rest be too small for their
 * part of it. */
static bool keep_what_must_be(struct walk *walk)
{
    const int64_t budget = (int64_t)walk->plan->budget, core = walk->spent;
    if (budget < 2 * core) {
        const int64_t most = most_for_questions_and_ids(walk);
        const int64_t needed = core + (most < core ? most : core);
        walk->plan->needed = (uint64_t)needed;
        if (budget < needed)
            return false;
    }
    const int64_t half = budget / 2, rest = budget - core;
    keep_open_questions_and_ids(walk, half < rest ? half : rest);
    return true;
}

/* Prices were never too low, so this cannot exceed a budget. */
static void settle_prices(struct walk *walk)
{
    for (int i = 0; i < HANDOFF_LISTS; i++) {
        struct handoff_trim_list *list = walk->plan->lists[i];
        const int64_t back = list && list->settle ? list->settle(list) : 0;
        BASE_CHECK(back <= 0);
        walk->spent += back;
    }
}

/* ---- the strategies ------------------------------------------------------------------------- */

static void keep_everything(struct walk *walk)
{
    struct handoff_trim_plan *plan = walk->plan;
    for (size_t i = 0; i < plan->nmemories; i++) {
        const enum handoff_form form = form_of(plan, &plan->memories[i], 0);
        if (form != HANDOFF_FORM_NONE)
            keep_memory(walk, i, form);
    }
    for (int i = 0; i < HANDOFF_LISTS; i++) {
        if (plan->lists[i])
            keep_whole_list(walk, plan->lists[i]);
    }
    settle_prices(walk);
    plan->needed = (uint64_t)walk->spent;
}

static void fill_the_rest(struct walk *walk)
{
    struct handoff_trim_plan *plan = walk->plan;
    keep_list(walk, plan->lists[HANDOFF_PART_STATE]);
    keep_two_lists(walk, plan->lists[HANDOFF_PART_DECISIONS], plan->lists[HANDOFF_PART_REMAINING]);
    keep_rank(walk, HANDOFF_RANK_PINNED);
    keep_rank(walk, HANDOFF_RANK_ASKED);
    keep_list(walk, plan->lists[HANDOFF_PART_STEPS]);
    keep_rank(walk, HANDOFF_RANK_INHERITED);
    if (walk->questions > 0)
        keep_oldest(walk, plan->lists[HANDOFF_PART_UNRESOLVED], walk->questions);
    keep_rank(walk, HANDOFF_RANK_FOUND);
    keep_reasons(walk, plan->lists[HANDOFF_PART_STEPS]);
    settle_prices(walk);
}

bool handoff_trim(struct handoff_trim_plan *plan)
{
    BASE_CHECK((size_t)plan->strategy < sizeof(forms_of) / sizeof(forms_of[0]));
    struct walk walk;
    start_walk(&walk, plan);
    if (plan->strategy == HANDOFF_STRATEGY_FULL)
        keep_everything(&walk);
    else if (keep_what_must_be(&walk))
        fill_the_rest(&walk);
    else
        return false;
    plan->count = (uint64_t)walk.spent;
    BASE_CHECK(plan->strategy == HANDOFF_STRATEGY_FULL || plan->count <= plan->budget);
    return plan->count <= plan->budget;
}
