/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collectors.h - the daemon's own metrics: every row of metrics.def, registered, and a function for
 * each event that changes one.
 *
 * Any thread may call any function, except collectors_new and collectors_free. What is only known
 * by looking (process_*, the number of dropped series) is read when a scrape begins.
 */
#ifndef COLLECTORS_H
#define COLLECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"
#include "lib/metrics/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

struct collectors;

struct collectors_options {
    const char *version;  /* "0.1.0" */
    const char *revision; /* of the source; NULL or "" when it is not known */
    unsigned threads;     /* as in struct metric_registry_options */
    size_t max_series;
};

/* NULL: out of memory. */
struct collectors *collectors_new(const struct collectors_options *options);
void collectors_free(struct collectors **collectors);

/* Lent: where scrapes read, and where others register theirs. */
struct metric_registry *collectors_registry(struct collectors *collectors);

/* The rows of metrics.def, in their order. */
const struct metric_desc *collectors_metrics(size_t *count);

/* Around each request for metrics, whatever its end: `code` is the HTTP status of the answer. */
void collectors_scrape_started(struct collectors *collectors);
void collectors_scrape_done(struct collectors *collectors, int code, double seconds);

/* A configuration file was read; `ok`: it is now current. The first one counts too. */
void collectors_config_reloaded(struct collectors *collectors, bool ok);

/* An observer for handoff_client_open, with the collectors as the observer's argument. Any thread;
 * no lock, no allocation. */
void collectors_observe(void *observer, const struct handoff_event *event);

/* Scrapes read this client's numbers from now on. Before the first scrape; the client lives as long
 * as there are scrapes. */
void collectors_watch_client(struct collectors *collectors, struct handoff_client *client);

/* The daemon's event loops, by what they serve. */
enum collectors_loop {
    COLLECTORS_LOOP_CONTROL,
    COLLECTORS_LOOP_WEB,
    COLLECTORS_LOOP_API, /* the slowest of them */
    COLLECTORS_LOOPS
};
/* Scrapes ask for the longest turn of each from now on, in seconds. Before the first scrape; the
 * host lives as long as there are scrapes. */
void collectors_watch_loops(struct collectors *collectors,
                            double (*longest_turn)(void *host, enum collectors_loop loop),
                            void *host);

/* The agents that have their own series from now on, at 0 from the start; all others share those
 * of the agent "other". The series of agents that are no longer named end. Before the first event,
 * and whenever the configuration changes. false: out of memory, and nothing changed. */
bool collectors_configure(struct collectors *collectors, const struct handoff_agent_options *agents,
                          size_t count);

/* A call of the agent API, and the codes that are its own; ends with HANDOFF_OK. NULL: none. */
struct collectors_call {
    const char *name;
    const enum handoff_code *codes;
};
enum { COLLECTORS_CALLS_MAX = 64 };
/* Before the first answer; the calls are lent for good. */
void collectors_count_calls(struct collectors *collectors, const struct collectors_call *calls,
                            size_t count);
/* A call, by its place among them, was answered; HANDOFF_OK: without a problem. */
void collectors_answered(struct collectors *collectors, size_t call, enum handoff_code code);

/* ---- reading what was counted, for the status page ------------------------------------------- */

/* Of one agent, since the start; summed over the patterns. */
enum collectors_counted {
    COLLECTORS_COUNTED_OUTCOME, /* + an outcome of handoff_model.h */
    COLLECTORS_COUNTED_OPENED = COLLECTORS_COUNTED_OUTCOME + HANDOFF_OUTCOME_COUNT,
    COLLECTORS_COUNTED_REFS_INCLUDED,
    COLLECTORS_COUNTED_REFS_REQUESTED,
    COLLECTORS_COUNTED_UNRECOVERED, /* memories that its receivers flagged */
    COLLECTORS_COUNTED_ENVELOPES,   /* of which the completeness is known */
    COLLECTORS_COUNTED_ITEMS,
    COLLECTORS_COUNTED_ITEMS_OMITTED,
    COLLECTORS_COUNTED_BUDGETS,        /* envelopes that had one */
    COLLECTORS_COUNTED_BUDGET_PERMILL, /* the shares of them that were used, in thousandths */
    COLLECTORS_COUNTED_LATENCY,        /* + a bucket of the acknowledged ones */
    COLLECTORS_LATENCY_BUCKETS = 19,   /* the last has no bound */
    COLLECTORS_COUNTED = COLLECTORS_COUNTED_LATENCY + COLLECTORS_LATENCY_BUCKETS,
};

/* The bounds of the latency's buckets but the last, in seconds. */
const double *collectors_latency_bounds(void);

/* Fills the counts of the agent, or those of "other" if it has no series. */
void collectors_read_agent(const struct collectors *collectors, const char *agent,
                           uint64_t counts[COLLECTORS_COUNTED]);
/* The answers to a call with this code; those of the call behind the last one are the answers to
 * all calls whose series are beyond the limit. */
uint64_t collectors_read_answers(const struct collectors *collectors, size_t call,
                                 enum handoff_code code);
/* The calls that are counted, by their place. */
const struct collectors_call *collectors_calls(const struct collectors *collectors, size_t *count);
/* As its series name it: "other" behind the last one. */
const char *collectors_call_name(const struct collectors *collectors, size_t call);
uint64_t collectors_read_commit_failures(const struct collectors *collectors);
uint64_t collectors_read_ping_pongs(const struct collectors *collectors);
uint64_t collectors_read_shortages(const struct collectors *collectors,
                                   enum handoff_shortage resource);

/* `lines` log lines were not written because they repeated too fast. */
void collectors_log_suppressed(struct collectors *collectors, uint64_t lines);

#ifdef __cplusplus
}
#endif

#endif
