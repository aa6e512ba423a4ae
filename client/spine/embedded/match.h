/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.h - the memories that fit a query best, among all that may be seen.
 *
 * The index gives the 64 best by
 *
 *     BM25 * (1 + importance + recency + same task + agent)
 *
 * of its words; where it has many, those that say most of it find, and common ones count in what is
 * found. Each boost is bounded (struct handoff_match_boosts), so that what fits twice as well comes
 * first however old and unimportant it is. Those are ranked again: for words of the query that are
 * next to each other in the memory, or have one word between them, the relevance grows; the
 * rarer these words, and the fewer of the 64 have them together, the more. Then
 *
 *   - what is hardly relevant is left out: a small share of the best one's relevance, or only words
 *     that say little of the query;
 *   - of memories that are nearly the same text, the best one stands for all (`similar`). Where
 *     such copies take the places of what else fits, more than 64 are looked at.
 *
 * The constants were chosen on the Cranfield collection; docs/decisions.md has the figures, and
 * tests/unit/test_match.c holds them.
 *
 * A struct handoff_match has some 10 KiB; it is used by one thread, for one query after the other.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_MATCH_H
#define HANDOFF_SPINE_EMBEDDED_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/spine/spine.h"
#include "lib/base/arena.h"
#include "lib/base/span.h"
#include "lib/search/search.h"
#include "lib/words/sketch.h"

enum {
    HANDOFF_MATCH_WORDS = 256,     /* different terms of a query; those after them do not count */
    HANDOFF_MATCH_TERMS = 32,      /* of them, those that say most are looked for at most */
    HANDOFF_MATCH_CANDIDATES = 64, /* that are ranked again */
    HANDOFF_MATCH_ORDER = 128,     /* words of a query whose order counts */
    HANDOFF_MATCH_AGENTS = 16,     /* of the chain; those after them do not count */
    HANDOFF_MATCH_RANGES = 17,
};

/* What is added to 1. */
struct handoff_match_boosts {
    float importance; /* critical has all of it, high two thirds, medium one third */
    float recency;    /* just changed has all of it; half of it after the half-life */
    float task;       /* put for the task that asks */
    float agent;      /* put by an agent of the chain */
    int64_t half_life_ms;
};

/* From percents. */
struct handoff_match_boosts handoff_match_boosts(const struct handoff_search_boosts *percents);

struct handoff_match_query {
    struct base_span text;   /* what is asked for */
    struct base_span intent; /* its words count half beside it; absent: none */
    struct base_span task;   /* absent: none */
    const struct base_span *agents;
    size_t agent_count;
    unsigned flags; /* of words_begin */
    struct handoff_match_boosts boosts;
    int64_t now_ms;      /* wall clock */
    int64_t deadline_ns; /* on the monotonic clock; 0: none */
};

struct handoff_match_place {
    int64_t seq;
    float relevance;  /* without boosts */
    float score;      /* with them */
    uint32_t similar; /* how many others are nearly the same */
    struct base_span sketch;
};

struct handoff_match_term {
    uint64_t hash;
    struct base_span text; /* as it is written in the query */
    float share;           /* 1 of the text, 0.5 of the intent, or both */
    float weight;          /* its share of what it says: its inverse document frequency */
    int64_t documents;     /* that have it */
    bool common;           /* struct search_wanted */
};

struct handoff_match {
    struct handoff_match_query query;
    struct handoff_match_term terms[HANDOFF_MATCH_WORDS]; /* the weightiest first */
    size_t term_count;
    size_t sought; /* of them, those that are looked for */
    uint64_t order_hashes[HANDOFF_MATCH_ORDER];
    size_t order_count;
    struct words_order order;
    struct search_view *view;
    const struct search_range *ranges;
    size_t range_count;
    int64_t documents;     /* in the ranges */
    double average_length; /* of these */

    /* results of handoff_match_best, the best first */
    struct handoff_match_place *places; /* in the arena */
    size_t count;
    bool cut;     /* the deadline came first: this is what was found */
    bool damaged; /* a file of the index is, and was not searched */
    bool behind;  /* the view may lack what was put in the place of one of the best */
    float best;   /* the highest relevance */
};

/* Reads the words of a query and weighs them in the ranges. The texts, the view and the ranges are
   lent until the next one. False: it has no words. */
bool handoff_match_begin(struct handoff_match *match, const struct handoff_match_query *query,
                         struct search_view *view, const struct search_range *ranges,
                         size_t range_count);

/* Finds up to `most`. Sketches are lent until the view is closed. False: out of memory. */
bool handoff_match_best(struct handoff_match *match, size_t most, struct base_arena *arena);

enum { HANDOFF_MATCH_SHOWN = 8 }; /* words that say why a memory was found */

/* How a memory fits, from its text. */
struct handoff_match_fit {
    float relevance; /* BM25, without the order of words */
    float boost;
    struct base_span
        words[HANDOFF_MATCH_SHOWN]; /* of the query, the weightiest first; lent by it */
    size_t word_count;
};

/* Looks at the first 16 KiB of the content; or, where it is not to be measured, at no text. */
void handoff_match_fit(const struct handoff_match *match, const struct handoff_memory *memory,
                       bool measure, struct handoff_match_fit *fit);

#endif
