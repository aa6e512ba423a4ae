/* SPDX-License-Identifier: Apache-2.0 */
/* The formula of score.h, and nothing else. Pure; any thread. */
#include "client/spine/embedded/score.h"

#include <math.h>

static const double relevance_weight = 0.60, recency_weight = 0.25, importance_weight = 0.15;
static const double k1 = 1.2, b = 0.75;

double handoff_score_term(double occurrences, double length, double average, double idf)
{
    double usual = average > 0 ? length / average : 1;
    return idf * occurrences * (k1 + 1) / (occurrences + k1 * (1 - b + b * usual));
}

double handoff_score_idf(double with, double all)
{
    double bounded = with < all ? with : all;
    return log(1 + (all - bounded + 0.5) / (bounded + 0.5));
}

double handoff_score(double relevance, int64_t age_ms, int64_t half_life_ms,
                     enum handoff_importance importance)
{
    double age = age_ms > 0 ? (double)age_ms : 0; /* the clock may have been set back */
    return relevance_weight * relevance + recency_weight * exp2(-age / (double)half_life_ms) +
           importance_weight * (double)importance / (double)HANDOFF_IMPORTANCE_CRITICAL;
}
