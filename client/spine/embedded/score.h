/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score.h - which memory is worth more for a task: the one formula.
 *
 *     score = 0.60 relevance + 0.25 recency + 0.15 importance           each from 0 to 1
 *
 *     relevance   BM25 of the memory for the query, as a share of the best memory found
 *     recency     0.5 ^ (age / half-life); age since it was last put
 *     importance  low 0, medium 1/3, high 2/3, critical 1
 *
 * Relevance leads: a memory about the task comes before a newer one about something else, whatever
 * their importance. Of two that fit equally well, one half-life of age weighs about as much as one
 * step of importance does in two and a half: recency decides unless the importance is far apart.
 *
 * BM25 is Robertson's with k1 = 1.2 and b = 0.75, the constants of FTS5's own function, and an
 * inverse document frequency that never gets negative, so that a word that most memories have is
 * worth little but never harms. A word in the summary counts twice and in a tag three times, since
 * somebody chose it to say what the memory is about.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_SCORE_H
#define HANDOFF_SPINE_EMBEDDED_SCORE_H

#include "client/spine/spine.h"

#define HANDOFF_WEIGHT_CONTENT 1.0
#define HANDOFF_WEIGHT_SUMMARY 2.0
#define HANDOFF_WEIGHT_TAGS    3.0

/* The part of BM25 that one term gives: its weighted occurrences in a text of `length` words, where
   `average` is usual, and its inverse document frequency. */
double handoff_score_term(double occurrences, double length, double average, double idf);

/* `with` of `all` memories contain the term. */
double handoff_score_idf(double with, double all);

double handoff_score(double relevance, int64_t age_ms, int64_t half_life_ms,
                     enum handoff_importance importance);

#endif
