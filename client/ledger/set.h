/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set.h - numbers under hashes, to find what was said before without comparing all with all.
 *
 * The caller gives its size, keeps what the numbers stand for, and says which of those with the
 * hash is meant. Numbers under one hash are a list, so that many of them (thousands of entries with
 * one id) are added in no time; those of which the caller says that they are gone leave it the next
 * time that it is searched. In an arena; one thread.
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

    /* NULL: nothing is ever gone */
    bool (*is_gone)(const void *owner, size_t number);
    const void *owner;
};

#define HANDOFF_SET_NONE SIZE_MAX

/* Room for so many. False: out of memory, or too many. */
bool handoff_set_init(struct handoff_set *set, struct base_arena *arena, size_t most);
void handoff_set_add(struct handoff_set *set, uint64_t hash, size_t number);
/* The first number with this hash that `is_it` accepts, or HANDOFF_SET_NONE. */
size_t handoff_set_find(struct handoff_set *set, uint64_t hash,
                        bool (*is_it)(const void *context, size_t number), const void *context);

/* Visits each number with this hash, in the order in which they were added. */
void handoff_set_each(struct handoff_set *set, uint64_t hash,
                      void (*visit)(void *context, size_t number), void *context);

#endif
