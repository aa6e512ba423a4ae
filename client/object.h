/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - a handoff, an attempt and an agent as the JSON objects that the API answers with. */
#ifndef HANDOFF_OBJECT_H
#define HANDOFF_OBJECT_H

#include "client/agents.h"
#include "client/base/buffer.h"
#include "client/deliver/life.h"
#include "client/store/handoffs.h"
#include "client/store/tasks.h"

/* How it stands with a handoff, beside its envelope, which knows the rest. */
struct handoff_object {
    struct handoff_span envelope;
    size_t context_at, context_size; /* where its context stands; size 0: not known */
    enum handoff_state state;
    struct handoff_span target, reason;
    uint32_t attempts;
    int64_t settled_ms; /* 0: not yet */
};

/* An envelope that cannot be read (it was checked when it was stored) leaves null in its fields. */
void handoff_object_write(struct handoff_buffer *out, const struct handoff_object *object);

void handoff_object_write_attempt(struct handoff_buffer *out,
                                  const struct handoff_attempt *attempt);

/* {"task_id", "completed_at", "handoffs"}; of a task that goes on, the last two are null. */
void handoff_object_write_task(struct handoff_buffer *out, struct handoff_span task_id,
                               const struct handoff_stored_task *task);

/* The circuit as it is at now_ms, monotonic. */
void handoff_object_write_agent(struct handoff_buffer *out, struct handoff_agent *agent,
                                int64_t now_ms);

#endif
