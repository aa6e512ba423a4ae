/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open_tasks.h - since when the tasks wait that no agent works on: not completed, nothing of them
 * in flight or parked, and their last handoff acknowledged. The agent that took it may have died.
 *
 * A scrape asks for the oldest, and may not wait for a disk. So the moves of handoffs are noted
 * here, and what the store has is noted once at the start. A task is known by a digest of its id.
 * Those that wait are in a heap by their last acknowledgement; a completed one is remembered, as it
 * may get handoffs still (docs/decisions.md), until retention has removed it.
 *
 * Any thread; takes a lock for an instant.
 */
#ifndef HANDOFF_DELIVER_OPEN_TASKS_H
#define HANDOFF_DELIVER_OPEN_TASKS_H

#include <stdint.h>

#include "client/model/handoff_model.h"
#include "lib/base/span.h"

struct handoff_open_tasks;

/* NULL: out of memory. */
struct handoff_open_tasks *handoff_open_tasks_new(void);
/* NULL is fine. */
void handoff_open_tasks_free(struct handoff_open_tasks **tasks);

/* A handoff of the task went from one state to another, NONE: it is new. settled_ms: wall clock,
   where it was acknowledged. Without memory the task is not seen. */
void handoff_open_tasks_moved(struct handoff_open_tasks *tasks, struct base_span task_id,
                              enum handoff_state from, enum handoff_state to, int64_t settled_ms);
void handoff_open_tasks_completed(struct handoff_open_tasks *tasks, struct base_span task_id,
                                  int64_t completed_ms);

/* The last acknowledgement of the task that has waited longest; 0: none waits. Forgets those that
   ended before kept_ms, since retention has removed them. Wall clock. */
int64_t handoff_open_tasks_oldest_ms(struct handoff_open_tasks *tasks, int64_t kept_ms);

#endif
