/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - the seq of a memory: the number of its scope, then the order of recency.
 *
 * What is ordered by seq has the memories of a scope next to each other, the newest at its end
 * (step 12 of the schema). The order of recency is one over all scopes and never comes back.
 * Number 0 is what is shared. Pure; any thread.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_PLACE_H
#define HANDOFF_SPINE_EMBEDDED_PLACE_H

#include <stdint.h>

/* Of the 63 bits: 8 million scopes, and a million puts a second for twelve days; at a thousand a
   second, 34 years. */
enum { HANDOFF_RECENCY_BITS = 40 };

static inline int64_t handoff_first_place(int64_t scope)
{
    return scope << HANDOFF_RECENCY_BITS;
}

static inline int64_t handoff_last_place(int64_t scope)
{
    return handoff_first_place(scope) + (handoff_first_place(1) - 1); /* of the last one, too */
}

static inline int64_t handoff_scope_of(int64_t seq)
{
    return seq >> HANDOFF_RECENCY_BITS;
}

static inline int64_t handoff_recency_of(int64_t seq)
{
    return seq & (handoff_first_place(1) - 1);
}

#endif
