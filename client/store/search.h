/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h - handoffs by what is known of them, in the order of their ids, which is that of their
 * making.
 *
 * A task, what is live, what is parked and what has expired have their own indexes. Any other
 * search walks the ids from where the page begins, and looks at a bounded number of them: then the
 * page may hold fewer handoffs than asked for, or none, and still have a next one. So no search
 * reads the whole store.
 */
#ifndef HANDOFF_STORE_SEARCH_H
#define HANDOFF_STORE_SEARCH_H

#include "client/store/store.h"

struct handoff_store_search {
    uint32_t states;                          /* bit 1 << state for each one wanted */
    struct base_span source, target, task_id; /* each absent: any */
    struct base_span party;                   /* only those it is a party to; absent: any */
    int64_t since_ms;                         /* made then or later, wall clock; 0: any */
    bool newest_first;
    bool incomplete; /* only those whose envelopes lack requested memories */
    bool open;       /* only the last acknowledged one of a task that is not completed, and of which
                        nothing is in flight or parked */
    struct base_uuid after; /* only those behind it, in this order; zeros: from the first */
    size_t limit;

    /* answers */
    struct base_uuid *ids; /* in the arena */
    size_t count;
    struct base_uuid next; /* `after` of the next page */
    bool more;             /* there may be one */
};

/* Waits for the disk. */
enum handoff_code handoff_store_search(struct handoff_store *store,
                                       struct handoff_store_search *search,
                                       struct base_arena *arena,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
