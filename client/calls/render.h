/* SPDX-License-Identifier: Apache-2.0 */
/* render.h - a handoff, an attempt and an agent as the JSON objects that the API answers with. */
#ifndef HANDOFF_CALLS_RENDER_H
#define HANDOFF_CALLS_RENDER_H

#include "client/agents/agents.h"
#include "client/deliver/engine.h"
#include "client/store/decisions.h"
#include "client/store/handoffs.h"
#include "client/store/jobs.h"
#include "client/store/tasks.h"
#include "lib/base/buffer.h"

/* An envelope that cannot be read leaves null in the fields that only it knows. */
void handoff_object_write(struct base_buffer *out, const struct handoff_status *status);
/* In a list: with the beginning of its task, its last error, and how often it was replayed. */
void handoff_object_write_listed(struct base_buffer *out, const struct handoff_status *status);

void handoff_object_write_attempt(struct base_buffer *out, const struct handoff_attempt *attempt);

void handoff_object_write_decision(struct base_buffer *out,
                                   const struct handoff_stored_decision *decision);

void handoff_object_write_job(struct base_buffer *out, const struct handoff_stored_job *job);

void handoff_object_write_job_item(struct base_buffer *out,
                                   const struct handoff_stored_job_item *item);

/* {"task_id", "completed_at", "handoffs"}; of a task that goes on, the last two are null. */
void handoff_object_write_task(struct base_buffer *out, struct base_span task_id,
                               const struct handoff_stored_task *task);

/* ,"next_refused":[...] */
void handoff_object_write_refusals(struct base_buffer *out,
                                   const struct handoff_stored_refusal *list, size_t count);

/* The circuit as it is at now_ms, monotonic. */
void handoff_object_write_agent(struct base_buffer *out, struct handoff_agent *agent,
                                int64_t now_ms);

#endif
