/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - the state of the daemon and its agents, gathered for one answer of the status page.
 *
 * Read on the control thread, which may block on the disk: what is parked comes from the store.
 */
#ifndef EXPORTER_STATUS_STATUS_H
#define EXPORTER_STATUS_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"
#include "exporter/client_host.h"
#include "exporter/lifecycle.h"
#include "exporter/status/failures.h"
#include "exporter/status/rejections.h"
#include "exporter/status/windows.h"
#include "lib/base/arena.h"

enum exporter_standing {
    EXPORTER_STANDING_OK,
    EXPORTER_STANDING_ATTENTION, /* to be looked at, in working hours */
    EXPORTER_STANDING_TROUBLE,   /* work does not arrive, or not whole */
};

/* Of an alert. */
enum exporter_severity {
    EXPORTER_SEVERITY_INFO,
    EXPORTER_SEVERITY_WARNING,
    EXPORTER_SEVERITY_CRITICAL,
};

/* One sentence about what is not as it should be. */
struct exporter_finding {
    enum exporter_severity severity;
    const char *alert; /* whose rule would fire, and its runbook; NULL: no alert is about it */
    const char *agent; /* NULL: about all of them, or about none */
    const char *text;
};

/* The last hour of one agent, or of all. */
struct exporter_hour {
    double ended[HANDOFF_OUTCOME_COUNT];
    double included, requested;    /* memories */
    double latency_50, latency_99; /* seconds until acknowledged; 0: none was. Not of all */
};

struct exporter_status {
    int64_t now_ms; /* wall clock, as all that is not an age */
    struct exporter_lifecycle_state daemon;
    struct handoff_stats client;
    /* the worst first */
    struct handoff_agent_stats *agents;
    size_t nagents;
    struct exporter_hour *hours; /* of each agent */
    /* those that are furthest behind first */
    struct handoff_feed_stats *feeds;
    size_t nfeeds;
    struct exporter_hour hour; /* of all */
    int64_t since_ms;          /* since when the rules have been looking */
    uint64_t in_flight, parked;
    int64_t oldest_in_flight_ns, oldest_parked_ns;
    struct exporter_failure failures[EXPORTER_FAILURES_KEPT];
    size_t nfailures;
    uint64_t failures_total; /* since the start */
    const char *review_link; /* of the review page, for this reader; "": none */
    struct exporter_rejection rejections[EXPORTER_REJECTIONS_KEPT];
    size_t nrejections;
    enum exporter_standing standing;
    struct exporter_finding *findings; /* none: healthy */
    size_t nfindings;
    struct base_arena arena; /* holds all of the above */
};

/* "ok", "attention" or "trouble"; static. */
const char *exporter_standing_name(enum exporter_standing standing);

/* "info", "warning" or "critical"; static. */
const char *exporter_severity_name(enum exporter_severity severity);
enum exporter_standing exporter_severity_standing(enum exporter_severity severity);

/* Adds a finding, whose text is copied; for those who look. */
void exporter_status_find(struct exporter_status *status, const struct exporter_finding *finding);

/* Fills a status that exporter_status_clear releases. false: out of memory, and it is empty. */
bool exporter_status_read(struct exporter_status *status,
                          const struct exporter_lifecycle *lifecycle,
                          struct exporter_client_host *client_host,
                          struct exporter_windows *windows);
void exporter_status_clear(struct exporter_status *status);

#endif
