/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.h - what is parked for one agent, in memory: how many, and since when the oldest.
 *
 * A scrape asks for both, and may not wait for a disk. So each move into or out of PARKED is noted
 * here, and what the store has is noted once at the start. Times are those of the rows: a handoff
 * leaves with the time it came with.
 */
#ifndef HANDOFF_AGENTS_PARKED_H
#define HANDOFF_AGENTS_PARKED_H

#include <stdint.h>

struct handoff_parked_entry;

/* Zeroed is empty. Under the agent's lock. */
struct handoff_parked {
    uint64_t count;
    struct handoff_parked_entry *here; /* heaps: the oldest is the root */
    struct handoff_parked_entry *gone; /* of those here that have left, but not as the oldest */
};

struct handoff_agent;

/* Any thread; takes the agent's lock for an instant. Without memory it is counted, and its age is
   not known. */
void handoff_parked_note(struct handoff_agent *agent, int64_t settled_ms);
void handoff_parked_forget(struct handoff_agent *agent, int64_t settled_ms);

/* Under the agent's lock: wall clock; 0: none is parked. */
int64_t handoff_parked_oldest_ms(const struct handoff_parked *parked);

/* No other reference is left. */
void handoff_parked_clear(struct handoff_parked *parked);

#endif
