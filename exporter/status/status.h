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
#include "lib/base/arena.h"

enum exporter_standing {
    EXPORTER_STANDING_OK,
    EXPORTER_STANDING_ATTENTION, /* to be looked at, in working hours */
    EXPORTER_STANDING_TROUBLE,   /* work does not arrive, or not whole */
};

/* One sentence about what is not as it should be. */
struct exporter_finding {
    enum exporter_standing standing;
    const char *text;
};

struct exporter_status {
    int64_t now_ms; /* wall clock, as all that is not an age */
    struct exporter_lifecycle_state daemon;
    struct handoff_stats client;
    struct exporter_own_faults_found own;
    /* the worst first */
    struct handoff_agent_stats *agents;
    size_t nagents;
    uint64_t in_flight, parked;
    int64_t oldest_in_flight_ns, oldest_parked_ns;
    struct exporter_failure failures[EXPORTER_FAILURES_KEPT];
    size_t nfailures;
    uint64_t failures_total; /* since the start */
    enum exporter_standing standing;
    struct exporter_finding *findings; /* none: all is well */
    size_t nfindings;
    struct base_arena arena; /* holds all of the above */
};

/* "ok", "attention" or "trouble"; static. */
const char *exporter_standing_name(enum exporter_standing standing);

/* Fills a status that exporter_status_clear releases. false: out of memory, and it is empty. */
bool exporter_status_read(struct exporter_status *status,
                          const struct exporter_lifecycle *lifecycle,
                          struct exporter_client_host *client_host);
void exporter_status_clear(struct exporter_status *status);

#endif
