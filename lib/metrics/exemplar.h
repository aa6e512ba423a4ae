/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exemplar.h - the newest exemplar of a bucket or a counter.
 *
 * A slot is a sequence lock: odd while it is written. A writer that finds it odd gives up, because
 * an exemplar is only a sample and the one being written is as good. A reader tries a few times and
 * then leaves the exemplar out. So no thread ever waits.
 *
 * The content is copied in atomic words, release on the way in and acquire on the way out: that
 * orders them against the sequence without a fence, and makes the race defined.
 */
#ifndef METRIC_EXEMPLAR_H
#define METRIC_EXEMPLAR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/metrics/metric.h"

enum {
    METRIC_EXEMPLAR_CODE_POINTS = 128, /* the rule of OpenMetrics, names and values together */
    /* One slot fills three cache lines. Holds 128 code points of ASCII with room for some others; a
     * larger exemplar is left out, like one over the limit of OpenMetrics. */
    METRIC_EXEMPLAR_BYTES = 167,
    METRIC_EXEMPLAR_WORDS = 23,
};

/* An exemplar at rest: `text` is name, value, name, value, each ended by NUL. */
struct metric_exemplar_copy {
    double value;
    int64_t at_ms;
    uint8_t pairs;
    char text[METRIC_EXEMPLAR_BYTES];
};

struct metric_exemplar_slot {
    _Atomic(uint64_t) sequence; /* 0: never written */
    _Atomic(uint64_t) words[METRIC_EXEMPLAR_WORDS];
};

void metric_exemplar_store(struct metric_exemplar_slot *slot, double value,
                           const struct metric_exemplar *exemplar);

/* false: none was stored, or every try met a writer. */
bool metric_exemplar_load(const struct metric_exemplar_slot *slot,
                          struct metric_exemplar_copy *copy);

#endif
