/* SPDX-License-Identifier: Apache-2.0 */
/* task_visits.h - what the store has of all tasks, for a count that is kept in memory. */
#ifndef HANDOFF_STORE_TASK_VISITS_H
#define HANDOFF_STORE_TASK_VISITS_H

#include "client/model/handoff_model.h"
#include "client/store/store.h"

struct handoff_task_visitor {
    /* of a handoff that is acknowledged or parked, and since when */
    void (*handoff)(void *arg, struct base_span task_id, enum handoff_state state,
                    int64_t settled_ms);
    void (*completed)(void *arg, struct base_span task_id, int64_t completed_ms);
    void *arg;
};

/* Waits for the disk: it reads the rows of all handoffs. */
enum handoff_code handoff_store_visit_tasks(struct handoff_store *store,
                                            const struct handoff_task_visitor *visitor,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
