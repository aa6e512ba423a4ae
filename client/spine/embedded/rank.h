/* SPDX-License-Identifier: Apache-2.0 */
/* rank.h - the memories that fit a query best, in bounded time; and how well a given one fits. */
#ifndef HANDOFF_SPINE_EMBEDDED_RANK_H
#define HANDOFF_SPINE_EMBEDDED_RANK_H

#include "client/spine/embedded/query.h"
#include "client/spine/embedded/visible.h"
#include "client/store/sqlite/database.h"
#include "lib/base/arena.h"

struct handoff_candidate {
    int64_t seq;
    double bm25;
};

struct handoff_rank {
    const struct handoff_visible *visible;
    struct handoff_query query;
    double idf[HANDOFF_QUERY_TERMS];
    struct handoff_candidate *candidates; /* by seq, the newest first */
    size_t count;
    /* of each visible scope: from this seq on, every memory with a word of the query is a candidate
     */
    int64_t seen_from[HANDOFF_VISIBLE_MAX];
    double best; /* highest bm25 of all that were looked at; 0: nothing matches */
};

/* Makes the connection able to rank. Once per connection; repeating it is free. */
enum handoff_code handoff_rank_prepare(struct handoff_db *db,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Collects candidates for a query among the visible memories, which are lent as long as the rank is
   used. Without words in it there are none, and that is fine. */
enum handoff_code handoff_rank_collect(struct handoff_rank *rank, struct handoff_db *db,
                                       const struct handoff_visible *visible,
                                       struct base_span query, struct base_arena *arena,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

/* bm25 of a single memory, also when it is no candidate. */
enum handoff_code handoff_rank_one(struct handoff_rank *rank, struct handoff_db *db, int64_t seq,
                                   double *bm25, struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
