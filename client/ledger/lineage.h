/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lineage.h - which hops of a ledger knew what others had said.
 *
 * A hop knows what its ancestors said, and nothing of their siblings. In most chains each hop
 * continues the one before, so all that was said earlier is known; only where a chain branches and
 * joins, the ancestors of a hop are looked up, all at once for the hop that is asked about.
 *
 * In an arena; one thread.
 */
#ifndef HANDOFF_LEDGER_LINEAGE_H
#define HANDOFF_LEDGER_LINEAGE_H

#include "client/ledger/ledger.h"

struct handoff_lineage {
    const struct handoff_said *said; /* parents come before their children */
    size_t count;
    size_t line;      /* so many, from the first, know all before them */
    size_t *known_to; /* by place: the last of those asked about that knows it */
    size_t *next;     /* places that are still to be visited */
    size_t looked_at; /* links, so far */
};

/* False: out of memory. */
bool handoff_lineage_init(struct handoff_lineage *lineage, struct base_arena *arena,
                          const struct handoff_said *said, size_t count);

/* Whether the hop at a place, or behind the last one, which knows all, knows what the other said.
 * It knows itself. */
bool handoff_lineage_knows(struct handoff_lineage *lineage, size_t place, size_t other);

/* Whether it knows all before it, as the one behind the last does. */
bool handoff_lineage_knows_all(const struct handoff_lineage *lineage, size_t place);

/* Whether each knows all before it. */
bool handoff_lineage_is_line(const struct handoff_lineage *lineage);

#endif
