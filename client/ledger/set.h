/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set.h - numbers under hashes, to find what was said before without comparing all with all.
 *
 * The caller gives its size, keeps what the numbers stand for, and says which of those with the
 * hash is meant. Numbers under one hash are a list, so that many of them (thousands of entries with
 * one id) are added in no time; those of which the caller says that they are gone leave it the next
 * time that it is searched. What is not gone and not meant either stays in the way of each search:
 * of thousands of siblings that say the same, none knows another's. So all searches together have
 * a budget; when it is used up, a search looks at a few numbers and gives up. In an arena; one
 * thread.
 */
#ifndef HANDOFF_LEDGER_SET_H
#define HANDOFF_LEDGER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/arena.h"

struct handoff_set {
    struct handoff_set_slot {
        uint64_t hash;
        uint32_t first, last; /* places in `list`, plus 1. Both 0: the slot is free */
    } * slots;
    struct handoff_set_number {
        uint32_t number, next; /* next: as first; 0: it is the last */
    } * list;
    size_t mask, room, count;
    size_t looked_at; /* numbers, so far */
    size_t budget;    /* so many without giving up; SIZE_MAX unless it is set */

    /* NULL: nothing is ever gone */
    bool (*is_gone)(const void *owner, size_t number);
    const void *owner;
};

#define HANDOFF_SET_NONE SIZE_MAX

/* Room for so many. False: out of memory, or too many. */
bool handoff_set_init(struct handoff_set *set, struct base_arena *arena, size_t most);
void handoff_set_add(struct handoff_set *set, uint64_t hash, size_t number);
/* The first number with this hash that `is_it` accepts, or HANDOFF_SET_NONE, also where the search
   gave up. */
size_t handoff_set_find(struct handoff_set *set, uint64_t hash,
                        bool (*is_it)(const void *context, size_t number), const void *context);

/* Visits each number with this hash, in the order in which they were added, until it gives up. */
void handoff_set_each(struct handoff_set *set, uint64_t hash,
                      void (*visit)(void *context, size_t number), void *context);

/* Counts a look of a search that has had `looks` of them, also of one of the caller's. False: it
   gives up. */
static inline bool handoff_set_look(struct handoff_set *set, size_t *looks)
{
    enum { LEAST = 16 }; /* without a budget: what a common ancestor said comes first */
    if (set->looked_at >= set->budget && *looks >= LEAST)
        return false;
    set->looked_at++;
    ++*looks;
    return true;
}

#endif
