/* SPDX-License-Identifier: Apache-2.0 */
/* A table with open addressing that never grows, of lists; see set.h. One thread. */
#include "client/ledger/set.h"

#include "lib/base/check.h"

enum { SLOTS_LEAST = 16 };

bool handoff_set_init(struct handoff_set *set, struct base_arena *arena, size_t most)
{
    size_t slots = SLOTS_LEAST;
    while (slots / 2 < most && slots < UINT32_MAX)
        slots *= 2;
    *set = (struct handoff_set){.mask = slots - 1, .room = most, .budget = SIZE_MAX};
    if (slots / 2 < most)
        return false;
    set->slots = base_arena_calloc(arena, slots, sizeof *set->slots);
    set->list = base_arena_alloc(arena, (most + 1) * sizeof *set->list);
    return set->slots && set->list;
}

/* That of the hash, or a free one. */
static struct handoff_set_slot *find_set_slot(struct handoff_set *set, uint64_t hash)
{
    size_t at = hash & set->mask;
    while (set->slots[at].last && set->slots[at].hash != hash)
        at = (at + 1) & set->mask;
    return &set->slots[at];
}

/* A slot whose numbers are all gone keeps its place, and `last`. */
void handoff_set_add(struct handoff_set *set, uint64_t hash, size_t number)
{
    struct handoff_set_slot *slot = find_set_slot(set, hash);
    BASE_CHECK(set->count < set->room && number < UINT32_MAX);
    set->list[set->count++] = (struct handoff_set_number){.number = (uint32_t)number};
    if (slot->first)
        set->list[slot->last - 1].next = (uint32_t)set->count;
    else
        slot->first = (uint32_t)set->count;
    slot->last = (uint32_t)set->count;
    slot->hash = hash;
}

static bool is_passed_over(const struct handoff_set *set, size_t number)
{
    return set->is_gone && set->is_gone(set->owner, number);
}

/* Unlinks what is gone on its way. */
size_t handoff_set_find(struct handoff_set *set, uint64_t hash,
                        bool (*is_it)(const void *context, size_t number), const void *context)
{
    struct handoff_set_slot *slot = find_set_slot(set, hash);
    uint32_t *link = &slot->first, before = 0;
    size_t looks = 0;
    while (*link) {
        struct handoff_set_number *at = &set->list[*link - 1];
        if (is_passed_over(set, at->number)) {
            set->looked_at++;
            slot->last = at->next || !before ? slot->last : before;
            *link = at->next;
            continue;
        }
        if (!handoff_set_look(set, &looks))
            break;
        if (is_it(context, at->number))
            return at->number;
        before = *link;
        link = &at->next;
    }
    return HANDOFF_SET_NONE;
}

void handoff_set_each(struct handoff_set *set, uint64_t hash,
                      void (*visit)(void *context, size_t number), void *context)
{
    const struct handoff_set_slot *slot = find_set_slot(set, hash);
    size_t looks = 0;
    for (uint32_t at = slot->first; at && handoff_set_look(set, &looks);
         at = set->list[at - 1].next)
        visit(context, set->list[at - 1].number);
}
