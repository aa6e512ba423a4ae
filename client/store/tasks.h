/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.h - that a task is over, and how many handoffs it took.
 *
 * A task is not stored when it begins: it is whatever handoffs name it. Its completion is a row of
 * its own, written once; who completes it again is told what was written. The row goes with the
 * last envelope of the task.
 */
#ifndef HANDOFF_STORE_TASKS_H
#define HANDOFF_STORE_TASKS_H

#include "client/store/store.h"

struct handoff_stored_task {
    int64_t completed_ms; /* wall clock; 0: it is not completed */
    int64_t handoffs;     /* that were accepted for it until then */
};

/* What it points to is lent until `done`. Errors: not_found (the task has no handoffs,
   or none that the agent is a party to), or the store's. */
struct handoff_store_complete_task {
    struct handoff_store_job job;
    struct base_span task_id;
    struct base_span agent; /* who completes it: a party to it (parties.h); absent: anybody */
    int64_t now_ms;

    /* answers */
    struct handoff_stored_task task;
    bool repeated; /* it was completed before, and nothing has changed */
};

void handoff_store_complete_task(struct handoff_store *store,
                                 struct handoff_store_complete_task *complete);

/* Waits for the disk. An unknown task is not completed, nor is one that `party` is not a party to,
   as it sees it; an absent one sees all. */
enum handoff_code handoff_store_get_task(struct handoff_store *store, struct base_span task_id,
                                         struct base_span party, struct handoff_stored_task *task,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
