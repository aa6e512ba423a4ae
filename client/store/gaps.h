/* SPDX-License-Identifier: Apache-2.0 */
/* gaps.h - keeps with a handoff which memories its receiver lacked (client/model/gaps.h). */
#ifndef HANDOFF_STORE_GAPS_H
#define HANDOFF_STORE_GAPS_H

#include "client/handoff.h"
#include "client/store/store.h"

enum { HANDOFF_GAPS_AGENT_SIZE = 129 }; /* an agent's name with its NUL */

struct handoff_store_gaps {
    struct handoff_store_job job;
    struct base_uuid id;             /* of the handoff */
    struct base_span lacking, found; /* ids, one on each line */
    struct base_span agent;          /* that lacks or found them; absent: the one that has it */
    int64_t at_ms;

    /* answers */
    size_t flagged, recovered;            /* that were not before */
    char target[HANDOFF_GAPS_AGENT_SIZE]; /* the agent that has the handoff */
};

/* A repeat changes nothing. not_found; invalid_request: too many. */
void handoff_store_keep_gaps(struct handoff_store *store, struct handoff_store_gaps *gaps);

#endif
