/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of metrics.def as an index, for the collectors among themselves.
 *
 * What is set (gauges, and counters that are kept elsewhere), mostly when a scrape begins, goes
 * through prom.h, as in any program that uses it. What is counted as it happens goes to series of
 * the core: they take an exemplar and more than 1 at a time, and need no check of a result.
 */
#ifndef COLLECTORS_ROWS_H
#define COLLECTORS_ROWS_H

#include <stdatomic.h>

#include "collectors/collectors.h"
#include "collectors/targets.h"
#include "lib/metrics/metric.h"
#include "lib/prom/prom_counter.h"
#include "lib/prom/prom_gauge.h"

enum collectors_row {
#define METRIC(symbol, ...) COLLECTORS_##symbol,
#include "collectors/metrics.def"
    COLLECTORS_ROWS,
};

#define COLLECTORS_MAGIC 0x6d636f01u

/* The label values of handoff_stage_duration_seconds and handoff_spine_request_duration_seconds,
 * which are known beforehand. */
enum collectors_stage {
    COLLECTORS_RESOLVE,
    COLLECTORS_TRIM,
    COLLECTORS_ENCODE,
    COLLECTORS_PERSIST,
    COLLECTORS_STAGE_ATTEMPT, /* those before it are stages of assembling */
    COLLECTORS_STAGES,
};
enum { COLLECTORS_OUTCOMES = 3 };
/* ... and of handoff_spine_cache_total */
enum { COLLECTORS_CACHE_HIT, COLLECTORS_CACHE_MISS, COLLECTORS_CACHE_OUTCOMES };
/* ... and of handoff_observations_total */
enum collectors_observation {
    COLLECTORS_ACCEPTED,
    COLLECTORS_REPEATED,
    COLLECTORS_REJECTED,
    COLLECTORS_OBSERVATIONS,
};

/* ... and of the metrics of retention; a body goes by size only */
enum collectors_removal {
    COLLECTORS_BODY_BY_SIZE,
    COLLECTORS_CHAIN_BY_AGE,
    COLLECTORS_CHAIN_BY_SIZE,
    COLLECTORS_REMOVALS,
};
struct collectors_retention {
    prom_metric_sample_t *body_bytes, *index_bytes;
    prom_metric_sample_t *oldest_body, *oldest_key, *oldest_chain;
};

struct collectors {
    unsigned magic;
    struct metric_registry *registry;
    struct metric_family *families[COLLECTORS_ROWS];
    struct metric_series *single[COLLECTORS_ROWS]; /* the series of a row without labels */
    prom_metric_t *metrics[COLLECTORS_ROWS];       /* the families once more, for what is set */
    struct metric_series *stages[COLLECTORS_STAGES];
    struct metric_series *hop_depth[HANDOFF_PATTERN_COUNT];
    struct metric_series *observations[COLLECTORS_OBSERVATIONS];
    struct collectors_retention retention;
    struct metric_series *shortages[HANDOFF_SHORTAGE_COUNT];
    prom_metric_sample_t *loop_turns[COLLECTORS_LOOPS];
    struct metric_series *decisions[HANDOFF_ACTION_COUNT];
    struct metric_series *secrets[HANDOFF_SECRET_COUNT][HANDOFF_SECRET_PLACE_COUNT];
    const struct collectors_call *calls; /* constant once they are counted */
    size_t ncalls;
    _Atomic(struct metric_series *) answers[COLLECTORS_CALLS_MAX][HANDOFF_CODE_COUNT];
    struct collectors_targets targets;
    struct metric_series *spine[HANDOFF_OPERATION_COUNT][COLLECTORS_OUTCOMES];
    struct metric_series *spine_cache[COLLECTORS_CACHE_OUTCOMES];
    struct handoff_client *client; /* whose numbers a scrape reads; NULL: none yet */
    double (*longest_turn)(void *host, enum collectors_loop loop); /* NULL: not known yet */
    void *loops_host;
};

/* The series of a gauge, found once; that of "other" if the family is full. */
prom_metric_sample_t *collectors_gauge(const struct collectors *collectors, enum collectors_row row,
                                       const char *const *labels);

/* The hook that reads process_*. Sets what it can read and leaves the rest as it was. */
void collectors_process_read(void *arg);

/* Resolves the series that events of the client go to, so that each begins at 0. */
void collectors_client_init(struct collectors *collectors);
void collectors_loops_init(struct collectors *collectors);
/* The hook that asks the daemon's loops. */
void collectors_loops_read(void *arg);

/* The hook that reads the client's numbers. */
void collectors_client_read(void *arg);

#endif
