/* SPDX-License-Identifier: Apache-2.0 */
/* Boosts, see boosts.h. On the thread of the search. */
#include "lib/search/boosts.h"

#include <math.h>

/* ---- of a document --------------------------------------------------------------------------- */

static bool is_of_agents(const struct search_query *query, uint32_t agent)
{
    for (size_t i = 0; agent != 0 && i < query->agent_count; i++)
        if (query->agents[i] == agent)
            return true;
    return false;
}

static float boost_of_age(const struct search_query *query, uint32_t seconds)
{
    const double age = (double)(query->now_ms - (int64_t)seconds * 1000);
    if (query->recency <= 0 || query->half_life_ms <= 0)
        return 0;
    return query->recency * exp2f(age > 0 ? (float)(-age / (double)query->half_life_ms) : 0);
}

enum { LEVEL = SEARCH_LEVELS - 1, SAME_TASK = SEARCH_LEVELS, OF_AGENT = 2 * SEARCH_LEVELS };

_Static_assert((LEVEL & SEARCH_LEVELS) == 0, "a level has bits of its own");

static inline unsigned kind_of(const struct search_query *query, const struct search_facts *facts)
{
    return (facts->level & LEVEL) |
           (query->task != 0 && facts->task == query->task ? SAME_TASK : 0U) |
           (is_of_agents(query, facts->agent) ? OF_AGENT : 0U);
}

/* Without its age. */
static inline float boost_of_kind(const struct search_query *query, unsigned kind)
{
    return 1 + query->level[kind & LEVEL] + (kind & SAME_TASK ? query->same_task : 0) +
           (kind & OF_AGENT ? query->agent : 0);
}

float search_boost_of(const struct search_query *query, const struct search_segment *segment,
                      uint32_t document)
{
    const struct search_facts *facts = &segment->facts[document];
    return boost_of_kind(query, kind_of(query, facts)) + boost_of_age(query, facts->seconds);
}

float search_boosts_needs(const struct search_boosts *boosts, uint32_t document)
{
    return boosts->needs[kind_of(boosts->query, &boosts->segment->facts[document])];
}

/* ---- of a window ----------------------------------------------------------------------------- */

static bool open_names(struct search_cursor *cursor, const struct search_segment *segment,
                       int64_t term)
{
    if (term >= 0)
        search_cursor_open(cursor, segment, (size_t)term);
    return term >= 0;
}

void search_boosts_begin(struct search_boosts *boosts, const struct search_query *query,
                         const struct search_segment *segment)
{
    uint64_t hashes[SEARCH_NAMES_MAX] = {search_name_term(SEARCH_TASK, query->task)};
    int64_t terms[SEARCH_NAMES_MAX];
    const size_t agents = query->agent <= 0                           ? 0
                          : query->agent_count < SEARCH_NAMES_MAX - 1 ? query->agent_count
                                                                      : SEARCH_NAMES_MAX - 1;
    for (size_t i = 0; i < agents; i++)
        hashes[i + 1] = search_name_term(SEARCH_AGENT, query->agents[i]);
    search_segment_terms(segment, hashes, agents + 1, terms);
    boosts->query = query;
    boosts->segment = segment;
    boosts->has_task = query->task != 0 && open_names(&boosts->task, segment, terms[0]);
    boosts->has_any_agent = agents < query->agent_count;
    boosts->agent_count = 0;
    for (size_t i = 0; i < agents; i++)
        boosts->agent_count +=
            open_names(&boosts->agents[boosts->agent_count], segment, terms[i + 1]);
}

/* Those of the 128 that it begins in, and of the 128 that it ends in, count in full. */
static float most_of_level_and_age(const struct search_boosts *boosts, uint32_t from, uint32_t to,
                                   float *age)
{
    const struct search_query *query = boosts->query;
    const struct search_segment *segment = boosts->segment;
    uint32_t newest = 0;
    uint8_t highest = 0;
    float most = 0;
    for (uint32_t i = from / SEARCH_SUM_EVERY; i <= (to - 1) / SEARCH_SUM_EVERY; i++) {
        newest = segment->newest[i] > newest ? segment->newest[i] : newest;
        highest = segment->highest[i] > highest ? segment->highest[i] : highest;
    }
    for (int level = 0; level <= highest % SEARCH_LEVELS; level++)
        most = query->level[level] > most ? query->level[level] : most;
    *age = boost_of_age(query, newest);
    return most + *age;
}

static bool is_one_between(struct search_cursor *cursor, uint32_t from, uint32_t to)
{
    return search_cursor_seek(cursor, from) && search_cursor_at(cursor) < to;
}

static bool has_agent_between(struct search_boosts *boosts, uint32_t from, uint32_t to)
{
    bool any = boosts->has_any_agent;
    for (size_t i = 0; !any && i < boosts->agent_count; i++)
        any = is_one_between(&boosts->agents[i], from, to);
    return any;
}

float search_boosts_most(struct search_boosts *boosts, uint32_t from, uint32_t to)
{
    const struct search_query *query = boosts->query;
    float age, boost = 1 + most_of_level_and_age(boosts, from, to, &age);
    if (boosts->has_task && is_one_between(&boosts->task, from, to))
        boost += query->same_task;
    if (has_agent_between(boosts, from, to))
        boost += query->agent;
    for (unsigned kind = 0; kind < SEARCH_BOOST_KINDS; kind++)
        boosts->needs[kind] = fmaxf(1, boost / (boost_of_kind(query, kind) + age));
    return boost;
}
