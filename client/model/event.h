/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - what delivery tells whoever observes it: one event per move, with all that is known.
 *
 * An observer is called on the thread on which it happened, between two steps of delivery, so it
 * must be quick and may not block. Everything an event points to is lent for the call.
 */
#ifndef HANDOFF_MODEL_EVENT_H
#define HANDOFF_MODEL_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/agents/breaker.h"
#include "client/model/life.h"
#include "client/protocol/handoff/verdict.h"
#include "lib/base/span.h"

enum handoff_happening {
    HANDOFF_HAPPENED_MOVE, /* from one state to another; `attempt` tells of the one that caused it
                            */
    HANDOFF_HAPPENED_REFUSED, /* not accepted: circuit_open, so nothing was stored */
    HANDOFF_HAPPENED_CIRCUIT, /* the breaker of `target` changed */
};

/* How a handoff ended; the label `outcome` of handoff_handoffs_total. */
enum handoff_outcome {
    HANDOFF_OUTCOME_NONE, /* it has not ended */
    HANDOFF_OUTCOME_ACKNOWLEDGED,
    HANDOFF_OUTCOME_EXHAUSTED,
    HANDOFF_OUTCOME_REFUSED,
    HANDOFF_OUTCOME_EXPIRED,
    HANDOFF_OUTCOME_HOP_LIMIT,
    HANDOFF_OUTCOME_CIRCUIT_OPEN,
};

/* "acknowledged" and so on; "" for NONE. Static. */
const char *handoff_outcome_name(enum handoff_outcome outcome);

struct handoff_delivery_event {
    enum handoff_happening happened;
    const char *handoff_id;
    struct base_span source, trace_id; /* trace_id: 32 digits, or absent */
    const char *target;                /* the agent that has it now, or whose circuit it is */
    int pattern;

    /* a move; from is 0 when it was just accepted, or found at the start */
    enum handoff_state from, to;
    bool resumed; /* found at the start */
    enum handoff_outcome outcome;
    const char *reason; /* code, or "" */
    int64_t elapsed_us; /* since it was accepted */
    uint32_t attempts;  /* so far */
    uint32_t replays;   /* so far; this one, where it is one */

    /* the attempt that ended with this move */
    bool has_attempt;
    const char *attempt_target;
    enum handoff_attempt_result result;
    int64_t attempt_us;
    const char *said; /* why the last attempt failed, in the best words there are, or ""; a move */

    /* a circuit */
    enum handoff_circuit circuit;
    bool opened, closed; /* just now */
    unsigned consecutive_failures;
};

typedef void handoff_delivery_observer(void *observer, const struct handoff_delivery_event *event);

#endif
