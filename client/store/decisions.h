/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decisions.h - who decided what about a handoff, when, and why.
 *
 * A decision is stored in the commit that carries it out, with the handoff's move or with the new
 * handoff that takes its place, so neither is there without the other. It is never changed, and
 * retention keeps it longer than anything else: it says what became of handoffs that are gone.
 */
#ifndef HANDOFF_STORE_DECISIONS_H
#define HANDOFF_STORE_DECISIONS_H

#include "client/model/handoff_model.h"
#include "client/store/store.h"

/* Texts that say nothing are empty or absent; ids that name nothing are nil. */
struct handoff_stored_decision {
    int64_t number; /* the store's: later decisions have greater ones */
    struct base_uuid handoff;
    int64_t at_ms; /* wall clock */
    enum handoff_action action;
    struct base_span who;    /* whose token it was */
    struct base_span by;     /* what the caller calls itself */
    struct base_span reason; /* why */
    struct base_span task_id, source;
    struct base_span target;      /* the agent that had the handoff */
    struct base_span to;          /* another agent that gets it */
    struct base_span cause;       /* why it was parked; of others their state */
    struct base_span fields;      /* that an edit replaced, separated by commas */
    struct base_uuid replacement; /* the handoff that took its place */
    struct base_uuid job;         /* the bulk job that it belongs to */
};

/* What is nil or absent narrows nothing. */
struct handoff_decision_filter {
    struct base_uuid handoff, job;
    struct base_span task_id, who, by, target;
    uint32_t actions;           /* bit 1 << action for each one wanted */
    int64_t since_ms, until_ms; /* from, and before; 0: any time */
    bool oldest_first;
    int64_t beyond; /* only those behind this number, in that order; 0: from the first */
    size_t limit;
};

/* Calls `visit` for each, in their order; what it gets is lent for the call. Waits for the disk. */
enum handoff_code
handoff_store_visit_decisions(struct handoff_store *store,
                              const struct handoff_decision_filter *filter,
                              void (*visit)(void *arg, const struct handoff_stored_decision *row),
                              void *arg, struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
