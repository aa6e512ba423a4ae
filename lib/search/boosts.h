/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boosts.h - what a document's relevance is multiplied by, and the most of that in a window.
 *
 * Few windows have a document of the task that asks; where none has, half as much again is needed
 * to be among the best. So the most is found for each window, from what is kept of 128 documents
 * and from the lists of the tasks and agents, not from the documents. On the thread of the search.
 */
#ifndef SEARCH_BOOSTS_H
#define SEARCH_BOOSTS_H

#include "lib/search/postings.h"

enum {
    SEARCH_NAMES_MAX = 17, /* the task, and agents; more of those may be anywhere */
    SEARCH_BOOST_KINDS = 4 * SEARCH_LEVELS, /* level, of the task or not, of an agent or not */
};

/* Of one query, in one segment. */
struct search_boosts {
    const struct search_query *query;
    const struct search_segment *segment;
    struct search_cursor task, agents[SEARCH_NAMES_MAX - 1];
    bool has_task, has_any_agent;
    size_t agent_count; /* cursors */
    /* in the window at hand: how many times what a document of the greatest boost needs, one of
       this kind needs at least; its age is not looked at, as that takes longest */
    float needs[SEARCH_BOOST_KINDS];
};

float search_boost_of(const struct search_query *query, const struct search_segment *segment,
                      uint32_t document);

void search_boosts_begin(struct search_boosts *boosts, const struct search_query *query,
                         const struct search_segment *segment);
/* No document of [from, to) has more; some may have less. Windows one after the other. */
float search_boosts_most(struct search_boosts *boosts, uint32_t from, uint32_t to);
/* Of a document of that window: from 1. */
float search_boosts_needs(const struct search_boosts *boosts, uint32_t document);

#endif
