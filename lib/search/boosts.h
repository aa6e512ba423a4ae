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

enum { SEARCH_NAMES_MAX = 17 }; /* the task, and agents; more of those may be anywhere */

/* Of one query, in one segment. */
struct search_boosts {
    const struct search_query *query;
    const struct search_segment *segment;
    struct search_cursor task, agents[SEARCH_NAMES_MAX - 1];
    bool has_task, has_any_agent;
    size_t agent_count; /* cursors */
    float age_most;     /* in the window at hand */
};

float search_boost_of(const struct search_query *query, const struct search_segment *segment,
                      uint32_t document);

void search_boosts_begin(struct search_boosts *boosts, const struct search_query *query,
                         const struct search_segment *segment);
/* No document of [from, to) has more; some may have less. Windows one after the other. */
float search_boosts_most(struct search_boosts *boosts, uint32_t from, uint32_t to);
/* Nor has this one of that window; its age is not looked at, as that takes longest. */
float search_boost_at_most(const struct search_boosts *boosts, uint32_t document);

#endif
