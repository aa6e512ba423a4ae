/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking, see match.h. On a reader thread of the store; nothing waits for a disk but where the
 * index's pages are not in memory.
 */
#include "client/spine/embedded/match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/spine/embedded/describe.h"
#include "lib/base/check.h"
#include "lib/words/words.h"

enum {
    READ_BATCH = 64,
    MANY = 1024,   /* memories: it takes long to look at so many */
    EXPECTED = 8,  /* words that say most of a query: no memory has all words of a long one */
    TELLING = 7,   /* so many find without the common ones */
    COMPARED = 64, /* with so many of those kept before, the last ones, a text is compared */
    WIDER = 8,     /* times as many candidates, where copies take the places of others, */
    WIDEST = 4096, /* until there are so many */
};

static const float k1 = 1.8F, b = 0.75F;
static const float intent_share = 0.5F;
static const float order_worth = 0.3F;
/* Of what a query says: words that say so little of it are not looked for, and others bring no
   memory among the best if many have them and the query has enough words beside. */
static const float unsought_share = 0.05F, common_share = 0.25F;
static const float similar_relevance = 0.25F; /* differs by less */
/* Of the best one's relevance, and of what a memory of usual length has that has all expected words
   once. */
static const float least_of_best = 0.2F, least_of_query = 0.2F;

struct handoff_match_boosts handoff_match_boosts(const struct handoff_search_boosts *percents)
{
    return (struct handoff_match_boosts){.importance = (float)percents->importance / 100,
                                         .recency = (float)percents->recency / 100,
                                         .task = (float)percents->task / 100,
                                         .agent = (float)percents->agent / 100,
                                         .half_life_ms = percents->half_life_ms};
}

/* ---- the query ------------------------------------------------------------------------------- */

static struct handoff_match_term *known_term(struct handoff_match *match, uint64_t hash)
{
    for (size_t i = 0; i < match->term_count; i++)
        if (match->terms[i].hash == hash)
            return &match->terms[i];
    if (match->term_count == HANDOFF_MATCH_WORDS)
        return NULL;
    struct handoff_match_term *added = &match->terms[match->term_count++];
    *added = (struct handoff_match_term){.hash = hash};
    return added;
}

static bool has_order(const struct words_term *term)
{
    return term->kind == WORDS_WORD || term->kind == WORDS_PAIR;
}

/* A word counts once in each text, however often it occurs. */
static void read_query_text(struct handoff_match *match, struct base_span text, float share,
                            bool ordered)
{
    struct words_reader reader;
    struct words_term terms[READ_BATCH];
    size_t count;
    const size_t before = match->term_count;
    words_begin(&reader, text, match->query.flags | WORDS_QUERY);
    while ((count = words_read(&reader, terms, READ_BATCH)) > 0)
        for (size_t i = 0; i < count; i++) {
            struct handoff_match_term *term = known_term(match, terms[i].hash);
            if (term && (term >= match->terms + before || term->share == 1))
                term->share = term < match->terms + before ? 1 + share : share;
            if (term && !term->text.data)
                term->text = base_span(text.data + terms[i].begin, terms[i].end - terms[i].begin);
            if (ordered && has_order(&terms[i]) && match->order_count < HANDOFF_MATCH_ORDER)
                match->order_hashes[match->order_count++] = terms[i].hash;
        }
}

/* ---- the best of the index ------------------------------------------------------------------- */

static float inverse_frequency(int64_t with, int64_t all)
{
    const double bounded = (double)(with < all ? with : all);
    return (float)log(1 + ((double)all - bounded + 0.5) / (bounded + 0.5));
}

static int weightiest_first(const void *left, const void *right)
{
    const float l = ((const struct handoff_match_term *)left)->weight;
    const float r = ((const struct handoff_match_term *)right)->weight;
    return (l < r) - (l > r);
}

static struct search_query question_of(const struct handoff_match *match,
                                       struct search_wanted *wanted)
{
    return (struct search_query){.ranges = match->ranges,
                                 .range_count = match->range_count,
                                 .terms = wanted,
                                 .k1 = k1,
                                 .b = b,
                                 .deadline_ns = match->query.deadline_ns};
}

/* The index counts a bounded number of terms at once. What nothing has weighs nothing. */
static void weigh_terms(struct handoff_match *match)
{
    struct search_wanted wanted[SEARCH_TERMS_MAX];
    struct search_query counted = question_of(match, wanted), *query = &counted;
    for (size_t from = 0; from < match->term_count; from += query->term_count) {
        const size_t left = match->term_count - from;
        query->term_count = left < SEARCH_TERMS_MAX ? left : SEARCH_TERMS_MAX;
        for (size_t i = 0; i < query->term_count; i++)
            wanted[i] = (struct search_wanted){.hash = match->terms[from + i].hash};
        search_view_count(match->view, query);
        for (size_t i = 0; i < query->term_count; i++) {
            struct handoff_match_term *term = &match->terms[from + i];
            const int64_t with = wanted[i].documents;
            term->documents = with;
            term->weight = with > 0 ? term->share * inverse_frequency(with, query->documents) : 0;
        }
    }
    match->documents = query->documents;
    match->average_length = query->average_length;
    match->cut = query->cut;
    match->damaged = query->damaged;
    if (match->term_count > 1)
        qsort(match->terms, match->term_count, sizeof *match->terms, weightiest_first);
}

/* So many of the weightiest words, that the others say no more than this share. */
static size_t count_saying(const struct handoff_match *match, float share)
{
    float all = 0, left = 0;
    size_t count = match->term_count;
    for (size_t i = 0; i < match->term_count; i++)
        all += match->terms[i].weight;
    for (; count > 0; count--) {
        left += match->terms[count - 1].weight;
        if (left > all * share)
            break;
    }
    return count;
}

/* The words that most memories have say next to nothing, and cost most. Of few words each counts:
   hundreds of memories may have all the telling ones, and only one the others as well. */
static void choose_sought(struct handoff_match *match)
{
    const size_t sought = count_saying(match, unsought_share);
    match->sought = sought < HANDOFF_MATCH_TERMS ? sought : HANDOFF_MATCH_TERMS;
    const size_t telling = count_saying(match, common_share);
    for (size_t i = 0; i < match->term_count; i++)
        match->terms[i].common =
            telling >= TELLING && i >= telling && match->terms[i].documents > MANY;
}

bool handoff_match_begin(struct handoff_match *match, const struct handoff_match_query *query,
                         struct search_view *view, const struct search_range *ranges,
                         size_t range_count)
{
    match->query = *query;
    if (query->agent_count > HANDOFF_MATCH_AGENTS)
        match->query.agent_count = HANDOFF_MATCH_AGENTS;
    match->view = view;
    match->ranges = ranges;
    match->range_count = range_count;
    match->term_count = match->order_count = match->count = 0;
    match->best = 0;
    read_query_text(match, query->text, 1, true);
    if (query->intent.data)
        read_query_text(match, query->intent, intent_share, false);
    words_order_begin(&match->order, match->order_hashes, match->order_count);
    weigh_terms(match);
    choose_sought(match);
    return match->term_count > 0;
}

static void want_sought(const struct handoff_match *match, struct search_query *query,
                        struct search_wanted *wanted)
{
    query->term_count = match->sought;
    for (size_t i = 0; i < query->term_count; i++)
        wanted[i] = (struct search_wanted){.hash = match->terms[i].hash,
                                           .weight = match->terms[i].weight,
                                           .common = match->terms[i].common};
}

static void set_boosts(const struct handoff_match_query *from, struct search_query *query,
                       uint32_t agents[HANDOFF_MATCH_AGENTS])
{
    for (int level = 0; level < SEARCH_LEVELS; level++)
        query->level[level] = from->boosts.importance * (float)level / (float)(SEARCH_LEVELS - 1);
    query->recency = from->boosts.recency;
    query->half_life_ms = from->boosts.half_life_ms;
    query->now_ms = from->now_ms;
    query->task = handoff_name_hash(from->task);
    query->same_task = from->boosts.task;
    query->agent = from->boosts.agent;
    query->agents = agents;
    for (size_t i = 0; i < from->agent_count; i++)
        agents[query->agent_count++] = handoff_name_hash(from->agents[i]);
}

/* Whether there were any. */
static bool let_common_find(struct search_query *query)
{
    bool any = false;
    for (size_t i = 0; i < query->term_count; i++) {
        any = any || query->terms[i].common;
        query->terms[i].common = false;
    }
    return any;
}

/* Where the telling words are in hardly any memory, such as misspelt ones, the common ones find
   too. However many are wanted, the same words find. */
static size_t find_best(const struct handoff_match *match, struct search_query *query,
                        struct search_result *results, size_t most)
{
    query->completed = HANDOFF_MATCH_CANDIDATES;
    size_t count = search_view_find(match->view, query, results, most);
    if (count < HANDOFF_MATCH_CANDIDATES && !query->cut && let_common_find(query))
        count = search_view_find(match->view, query, results, most);
    return count;
}

/* ---- ranked again ---------------------------------------------------------------------------- */

struct candidate {
    float boost;
    uint8_t pairs[WORDS_SKETCH_ORDERS];
};

static float weight_of_word(const struct handoff_match *match, uint64_t hash)
{
    for (size_t i = 0; i < match->term_count; i++)
        if (match->terms[i].hash == hash)
            return match->terms[i].weight;
    return 0;
}

/* However many are wanted, so that a longer list begins as a shorter one does. */
static size_t ranked_again(const struct handoff_match *match)
{
    return match->count < HANDOFF_MATCH_CANDIDATES ? match->count : HANDOFF_MATCH_CANDIDATES;
}

/* What a pair of words is worth: as much as the more common of the two, and the more, the fewer of
   the candidates have it. */
static float worth_of_pair(const struct handoff_match *match, size_t pair, size_t with)
{
    const struct words_order_pair *order = &match->order.pairs[pair];
    const float first = weight_of_word(match, match->order_hashes[order->at]);
    const float second = weight_of_word(match, match->order_hashes[order->at + order->apart]);
    return with == 0 ? 0
                     : order_worth * (first < second ? first : second) *
                           logf(1 + (float)ranked_again(match) / (float)with) / (float)order->apart;
}

static void weigh_pairs(const struct handoff_match *match, const struct candidate *candidates,
                        float worth[WORDS_SKETCH_ORDERS])
{
    for (size_t pair = 0; pair < match->order.count; pair++) {
        size_t with = 0;
        for (size_t i = 0; i < ranked_again(match); i++)
            with += candidates[i].pairs[pair] > 0;
        worth[pair] = worth_of_pair(match, pair, with);
    }
}

/* BM25 of what the pairs are worth, in a text as long as its sketch. */
static float relevance_of_order(const struct handoff_match *match,
                                const struct candidate *candidate,
                                const float worth[WORDS_SKETCH_ORDERS], float usual)
{
    float sum = 0;
    for (size_t pair = 0; pair < match->order.count; pair++) {
        const float count = (float)candidate->pairs[pair] / 2;
        if (count > 0)
            sum += worth[pair] * count * (k1 + 1) / (count + k1 * (1 - b + b * usual));
    }
    return sum;
}

static void add_order(struct handoff_match *match, struct candidate *candidates, double average)
{
    float worth[WORDS_SKETCH_ORDERS];
    for (size_t i = 0; i < ranked_again(match); i++)
        words_order_count(&match->order, (const uint8_t *)match->places[i].sketch.data,
                          match->places[i].sketch.size, candidates[i].pairs);
    weigh_pairs(match, candidates, worth);
    for (size_t i = 0; i < ranked_again(match); i++) {
        struct handoff_match_place *place = &match->places[i];
        const float length = (float)place->sketch.size - (float)WORDS_SKETCH_HEAD;
        place->relevance +=
            relevance_of_order(match, &candidates[i], worth, length / (float)average);
        place->score = place->relevance * candidates[i].boost;
    }
}

static int by_place(const void *left, const void *right)
{
    const struct handoff_match_place *l = left, *r = right;
    if (l->score != r->score)
        return l->score < r->score ? 1 : -1;
    const int64_t l_time = search_time_of(l->seq), r_time = search_time_of(r->seq);
    return (l_time < r_time) - (l_time > r_time);
}

/* ---- what is left out ------------------------------------------------------------------------ */

static float least_relevance(const struct handoff_match *match, const struct search_query *query)
{
    float all = 0;
    for (size_t i = 0; i < query->term_count && i < EXPECTED; i++)
        all += query->terms[i].weight;
    const float of_best = match->best * least_of_best, of_query = all * least_of_query;
    return of_best > of_query ? of_best : of_query;
}

/* Nearly the same words are nearly as relevant, which is cheaper to see. */
static bool stands_for(const struct handoff_match_place *kept,
                       const struct handoff_match_place *place)
{
    return fabsf(kept->relevance - place->relevance) <= kept->relevance * similar_relevance &&
           words_sketch_is_near((const uint8_t *)kept->sketch.data, kept->sketch.size,
                                (const uint8_t *)place->sketch.data, place->sketch.size);
}

static bool is_similar_to_kept(struct handoff_match *match, size_t kept,
                               const struct handoff_match_place *place)
{
    for (size_t i = kept > COMPARED ? kept - COMPARED : 0; i < kept; i++)
        if (stands_for(&match->places[i], place)) {
            match->places[i].similar++;
            return true;
        }
    return false;
}

/* What was left out, of the candidates. */
struct left_out {
    size_t irrelevant, similar;
};

static struct left_out keep_best(struct handoff_match *match, float least, size_t most)
{
    struct left_out left_out = {0};
    size_t kept = 0;
    for (size_t i = 0; i < match->count; i++) {
        const struct handoff_match_place place = match->places[i];
        if (place.relevance < least)
            left_out.irrelevant++;
        else if (is_similar_to_kept(match, kept, &place))
            left_out.similar++;
        else if (kept < most)
            match->places[kept++] = place;
    }
    match->count = kept;
    return left_out;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* What is found on the way, in the arena. */
struct found {
    struct search_result *results;
    struct candidate *candidates;
    size_t room;
};

static bool make_room_of(struct found *found, struct handoff_match *match, size_t room,
                         struct base_arena *arena)
{
    found->room = room;
    found->results = base_arena_alloc(arena, room * sizeof *found->results);
    found->candidates = base_arena_alloc(arena, room * sizeof *found->candidates);
    match->places = base_arena_alloc(arena, room * sizeof *match->places);
    return found->results && found->candidates && match->places;
}

static void take_results(struct handoff_match *match, const struct found *found, size_t count)
{
    match->count = count;
    for (size_t i = 0; i < count; i++) {
        const struct search_result *result = &found->results[i];
        match->places[i] = (struct handoff_match_place){.seq = result->key,
                                                        .relevance = result->relevance,
                                                        .score = result->score,
                                                        .sketch = result->sketch};
        found->candidates[i].boost = result->relevance > 0 ? result->score / result->relevance : 1;
    }
}

static struct left_out rank_places(struct handoff_match *match, const struct search_query *query,
                                   size_t most)
{
    match->best = 0;
    for (size_t i = 0; i < ranked_again(match); i++)
        match->best = fmaxf(match->best, match->places[i].relevance);
    if (match->count > 1)
        qsort(match->places, match->count, sizeof *match->places, by_place);
    return keep_best(match, least_relevance(match, query), most);
}

/* Whether copies of a few memories took all places of the candidates, and left none to others that
   fit less well. */
static bool is_full_of_copies(const struct handoff_match *match, const struct left_out *left_out,
                              size_t found, size_t room, size_t most)
{
    return match->count < most && left_out->similar > 0 && left_out->irrelevant == 0 &&
           found == room && !match->cut;
}

/* *crowded: with more candidates there may be more of the best. */
static bool find_among(struct handoff_match *match, struct search_query *query, size_t room,
                       size_t most, struct base_arena *arena, bool *crowded)
{
    struct found found;
    if (!make_room_of(&found, match, room, arena))
        return false;
    want_sought(match, query, query->terms);
    const size_t count = find_best(match, query, found.results, room);
    take_results(match, &found, count);
    match->cut |= query->cut;
    match->damaged |= query->damaged;
    match->behind |= query->behind;
    if (match->average_length > 0)
        add_order(match, found.candidates, match->average_length);
    const struct left_out left_out = rank_places(match, query, most);
    *crowded = is_full_of_copies(match, &left_out, count, room, most);
    return true;
}

/* Where the time is over before, it is as it was. */
static bool find_among_more(struct handoff_match *match, struct search_query *query, size_t room,
                            size_t most, struct base_arena *arena, bool *crowded)
{
    struct handoff_match_place *const places = match->places;
    const size_t count = match->count;
    if (!find_among(match, query, room, most, arena, crowded))
        return false;
    if (match->cut) {
        match->places = places;
        match->count = count;
    }
    return true;
}

/* A quarter more than wanted, as some are left out. */
static size_t usual_room(size_t most)
{
    const size_t room = most + most / 4;
    return room > HANDOFF_MATCH_CANDIDATES ? room : HANDOFF_MATCH_CANDIDATES;
}

bool handoff_match_best(struct handoff_match *match, size_t most, struct base_arena *arena)
{
    struct search_wanted wanted[SEARCH_TERMS_MAX];
    struct search_query query = question_of(match, wanted);
    uint32_t agents[HANDOFF_MATCH_AGENTS];
    bool crowded = true;
    query.documents = match->documents;
    query.average_length = match->average_length;
    set_boosts(&match->query, &query, agents);
    match->behind = false;
    if (!find_among(match, &query, usual_room(most), most, arena, &crowded))
        return false;
    for (size_t room = usual_room(most); crowded && room < WIDEST;) {
        room *= WIDER;
        if (!find_among_more(match, &query, room, most, arena, &crowded))
            return false;
    }
    return true;
}

/* ---- one memory ------------------------------------------------------------------------------ */

enum { FIT_BYTES = 16384 };

/* How often each term of the query occurs. */
struct occurrences {
    uint16_t counts[HANDOFF_MATCH_WORDS];
    uint32_t length;
};

static void count_in_text(const struct handoff_match *match, struct base_span text, uint16_t weight,
                          struct occurrences *occurrences)
{
    struct words_reader reader;
    struct words_term terms[READ_BATCH];
    size_t count;
    words_begin(&reader, text, match->query.flags);
    while ((count = words_read(&reader, terms, READ_BATCH)) > 0)
        for (size_t i = 0; i < count; i++) {
            occurrences->length += has_order(&terms[i]);
            for (size_t term = 0; term < match->term_count; term++)
                if (match->terms[term].hash == terms[i].hash &&
                    occurrences->counts[term] < UINT16_MAX - weight)
                    occurrences->counts[term] = (uint16_t)(occurrences->counts[term] + weight);
        }
}

static float boost_of_memory(const struct handoff_match_query *query,
                             const struct handoff_memory *memory)
{
    const struct handoff_match_boosts *boosts = &query->boosts;
    const double age = (double)(query->now_ms - memory->updated_ms);
    float boost = 1 + boosts->importance * (float)memory->importance / (float)(SEARCH_LEVELS - 1);
    boost += boosts->recency * (float)exp2(-(age > 0 ? age : 0) / (double)boosts->half_life_ms);
    if (query->task.data && memory->task_id.data && base_span_equal(query->task, memory->task_id))
        boost += boosts->task;
    for (size_t i = 0; i < query->agent_count && memory->agent.data; i++)
        if (base_span_equal(query->agents[i], memory->agent))
            return boost + boosts->agent;
    return boost;
}

static void count_in_memory(const struct handoff_match *match, const struct handoff_memory *memory,
                            struct occurrences *found)
{
    const size_t read = memory->content.size < FIT_BYTES ? memory->content.size : FIT_BYTES;
    count_in_text(match, base_span(memory->content.data, read), HANDOFF_CONTENT_WEIGHT, found);
    if (memory->summary.data)
        count_in_text(match, memory->summary, HANDOFF_SUMMARY_WEIGHT, found);
    for (size_t i = 0; i < memory->tag_count; i++)
        count_in_text(match, memory->tags[i], HANDOFF_TAG_WEIGHT, found);
}

void handoff_match_fit(const struct handoff_match *match, const struct handoff_memory *memory,
                       bool measure, struct handoff_match_fit *fit)
{
    struct occurrences found = {.length = 0};
    if (measure)
        count_in_memory(match, memory, &found);
    fit->relevance = 0;
    fit->word_count = 0;
    fit->boost = boost_of_memory(&match->query, memory);
    const float usual =
        match->average_length > 0 ? (float)found.length / (float)match->average_length : 1;
    for (size_t term = 0; term < match->term_count; term++) {
        const float count = (float)found.counts[term];
        if (count == 0 || match->terms[term].weight == 0)
            continue;
        if (term < match->sought)
            fit->relevance +=
                match->terms[term].weight * count * (k1 + 1) / (count + k1 * (1 - b + b * usual));
        if (fit->word_count < HANDOFF_MATCH_SHOWN)
            fit->words[fit->word_count++] = match->terms[term].text;
    }
}
