/* SPDX-License-Identifier: Apache-2.0 */
/*
 * observation.h - one handoff that an agent made by itself and reports, checked.
 *
 * docs/observations.md has the fields; the table in observation.c is what is read. What was not
 * told has a value of its own (below), which counts nothing. Texts are lent by the document.
 */
#ifndef HANDOFF_CALLS_OBSERVATION_H
#define HANDOFF_CALLS_OBSERVATION_H

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "client/model/field.h"
#include "lib/base/error.h"
#include "lib/base/span.h"

enum {
    HANDOFF_OBSERVATION_ID_MAX = 64,        /* bytes; an exemplar has room for so many */
    HANDOFF_OBSERVATION_PAST_MS = 3600000,  /* what is older is over: counting it now would
                                               raise alerts for it */
    HANDOFF_OBSERVATION_FUTURE_MS = 300000, /* clocks differ */
    HANDOFF_OBSERVATION_LATENCY_MAX_S = 604800,
    HANDOFF_OBSERVATION_ATTEMPTS_MAX = 1000, /* of one result */
    HANDOFF_OBSERVATION_HOPS_MAX = 1000,
    HANDOFF_OBSERVATION_REFS_MAX = 100000,
    HANDOFF_OBSERVATION_TASK_MAX = 100000,
};

#define HANDOFF_OBSERVATION_NO_TIME INT64_MIN

/* What became of the memories that were asked for. -1: not told. */
struct handoff_observed_refs {
    int64_t requested, included, missing, trimmed;
    double ratio;
};

struct handoff_observation {
    struct base_span source_agent, target_agent;
    struct base_span id, task_id, trace_id; /* each absent: not told */
    int pattern;                            /* enum handoff_pattern */
    int outcome;                            /* enum handoff_outcome */
    int64_t at_ms;                          /* wall clock; NO_TIME: not told */
    double latency_s;                       /* -1: not told */
    int64_t attempts[HANDOFF_RESULT_COUNT]; /* by result */
    /* where one of the four numbers is told, all are, and they add up; and then, or alone, ratio */
    struct handoff_observed_refs refs;
    int64_t tokens; /* -1: not told */
    int64_t budget; /* 0: not told */
    int64_t hops;   /* 0: not told */
    bool cycle;
    int64_t task_handoffs; /* the task ended with it and took so many; 0: not told */
};

/* What one may have. */
extern const struct handoff_fields handoff_observation_fields;

/* Reads and judges one. `caller`, where present, is who tells for sure: the field source_agent may
 * then be left out, and may not differ. */
enum handoff_code handoff_observation_read(yyjson_val *value, struct base_span caller,
                                           int64_t now_ms, struct handoff_observation *observation,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
