/* SPDX-License-Identifier: Apache-2.0 */
/*
 * windows.h - what the rules of alerts/ look at, over the last hour: the counts of every agent, of
 * every call, and of the sidecar itself.
 *
 * Nothing is counted twice: every 15 s the control thread reads what the collectors have counted,
 * the same cells that a scrape prints. So the page and the alerts see the same numbers, and a
 * handoff costs what it did.
 *
 * The control thread owns all of it.
 */
#ifndef EXPORTER_STATUS_WINDOWS_H
#define EXPORTER_STATUS_WINDOWS_H

#include "client/handoff.h"
#include "collectors/collectors.h"
#include "exporter/status/history.h"

/* The numbers of an agent: the counters of collectors.h, then gauges. */
enum exporter_watched {
    EXPORTER_WATCHED_FAILURES = COLLECTORS_COUNTED, /* in a row */
    EXPORTER_WATCHED_REFUSALS,
    EXPORTER_WATCHED_NOT_CLOSED, /* 1: its circuit is open or half open */
    EXPORTER_WATCHED_OPEN,       /* 1: its circuit is open */
    EXPORTER_WATCHED_OF_AGENT,
};

/* The numbers of the sidecar. */
enum exporter_watched_own {
    EXPORTER_WATCHED_SPINE_DOWN, /* a gauge */
    EXPORTER_WATCHED_COMMITS_FAILED,
    EXPORTER_WATCHED_SERIES_DROPPED,
    EXPORTER_WATCHED_CHAINS_BY_SIZE,
    EXPORTER_WATCHED_PING_PONGS,
    EXPORTER_WATCHED_SHORTAGE, /* + a resource */
    EXPORTER_WATCHED_OWN = EXPORTER_WATCHED_SHORTAGE + HANDOFF_SHORTAGE_COUNT,
};

struct exporter_watched_agent {
    const char *name;
    struct exporter_history history;
};

/* Answers to a call with one code. */
struct exporter_watched_answers {
    size_t call; /* its place in collectors_calls */
    enum handoff_code code;
    struct exporter_history history;
};

struct exporter_windows {
    struct collectors *collectors;
    struct handoff_client *client;
    struct exporter_history_times times;
    int64_t since_ms; /* wall clock: since when it has been looking */
    /* of the error budget's alert, on the clock of `times`; 0: not at all (rules.h) */
    int64_t burning_since_ms; /* its condition holds since then */
    int64_t burnt_ms;         /* it would have rung then, last */
    struct exporter_history own;
    /* sorted by name; those that were ever configured, and "other" */
    struct exporter_watched_agent **agents;
    size_t nagents;
    /* each was given at least once */
    struct exporter_watched_answers *answers;
    size_t nanswers;
};

/* Looks for the first time. The collectors and the client are lent. NULL: out of memory. */
struct exporter_windows *exporter_windows_new(struct collectors *collectors,
                                              struct handoff_client *client);
void exporter_windows_free(struct exporter_windows **freeing);

/* Reads what is now; and remembers it, which is to be done every EXPORTER_HISTORY_STEP_MS. What
 * there is no memory for is not watched. */
void exporter_windows_look(struct exporter_windows *windows, int64_t now_ms);
void exporter_windows_record(struct exporter_windows *windows, int64_t now_ms);

/* The numbers of an agent; NULL: it has none of its own. */
const struct exporter_history *exporter_windows_agent(const struct exporter_windows *windows,
                                                      const char *name);

/* What a counter of all agents together grew by in the last seconds. */
double exporter_windows_sum(const struct exporter_windows *windows, size_t number, int seconds);

#endif
