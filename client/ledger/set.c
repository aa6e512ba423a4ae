/* SPDX-License-Identifier: Apache-2.0 */
/* A table with open addressing that never grows; see set.h. One thread. */
#include "client/ledger/set.h"

#include "lib/base/check.h"

enum { SLOTS_LEAST = 16 };

bool handoff_set_init(struct handoff_set *set, struct base_arena *arena, size_t most)
{
    size_t slots = SLOTS_LEAST;
    while (slots / 2 < most && slots < UINT32_MAX)
        slots *= 2;
    *set = (struct handoff_set){.mask = slots - 1, .room = slots / 2};
    set->slots = base_arena_calloc(arena, slots, sizeof *set->slots);
    return set->slots && most <= set->room;
}

void handoff_set_add(struct handoff_set *set, uint64_t hash, size_t number)
{
    size_t at = hash & set->mask;
    BASE_CHECK(set->room > 0 && number < UINT32_MAX);
    while (set->slots[at].number)
        at = (at + 1) & set->mask;
    set->slots[at] = (struct handoff_set_slot){hash, (uint32_t)number + 1};
    set->room--;
}

size_t handoff_set_find(const struct handoff_set *set, uint64_t hash,
                        bool (*is_it)(const void *context, size_t number), const void *context)
{
    for (size_t at = hash & set->mask; set->slots[at].number; at = (at + 1) & set->mask) {
        const size_t number = set->slots[at].number - 1;
        if (set->slots[at].hash == hash && is_it(context, number))
            return number;
    }
    return HANDOFF_SET_NONE;
}
