/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a task, as reported by the agent that did its last work.
 *
 * Counted once it is on disk, and only by the call that wrote it: a repeated call, even after a
 * restart, is answered with what was written and not counted again. A completed task still accepts
 * handoffs; see docs/decisions.md.
 *
 * On the loop's thread; the store writes the end of the task on its writer thread.
 */
#include <stdio.h>
#include <string.h>

#include "client/assemble/request.h"
#include "client/calls/render.h"
#include "client/calls/reply.h"
#include "client/client.h"
#include "client/store/tasks.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { COMPLETING_MAGIC = 0x636f6d70 };

struct completing {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    char task_id[HANDOFF_ID_MAX + 1];
    char caller[HANDOFF_NAME_MAX + 1];
    struct handoff_store_complete_task complete;
};

static void report_completion(const struct completing *completing)
{
    const struct handoff_event event = {.kind = HANDOFF_EVENT_TASK_COMPLETED,
                                        .who.task_id = completing->task_id,
                                        .of.task_completed.handoffs =
                                            (uint64_t)completing->complete.task.handoffs};
    handoff_client_tell(completing->loop->client, &event);
}

static void give_task(const struct completing *completing)
{
    struct base_buffer body = {0};
    struct handoff_result result = {.created = !completing->complete.repeated};
    handoff_object_write_task(&body, base_span_text(completing->task_id),
                              &completing->complete.task);
    result.body = body.data;
    result.size = body.size;
    if (body.failed)
        handoff_error_no_memory(&result.error);
    completing->answered(completing->context, &result);
    base_buffer_free(&body);
}

static void completed(struct handoff_store_job *job)
{
    struct completing *completing = BASE_CONTAINER_OF(job, struct completing, complete.job);
    BASE_CHECK_MAGIC(completing, COMPLETING_MAGIC);
    completing->loop->pending--;
    if (job->error.code != HANDOFF_OK) {
        handoff_give_error(completing->answered, completing->context, &job->error);
    } else {
        if (completing->loop->client->open_tasks)
            handoff_open_tasks_completed(completing->loop->client->open_tasks,
                                         completing->complete.task_id,
                                         completing->complete.task.completed_ms);
        if (!completing->complete.repeated)
            report_completion(completing);
        give_task(completing);
    }
    completing->magic = 0;
    base_free(completing);
}

/* The host lends its texts for the call. An absent text stays absent. */
static struct base_span keep(char *to, size_t size, const char *text)
{
    if (!text)
        return base_span(NULL, 0);
    snprintf(to, size, "%s", text);
    return base_span_text(to);
}

/* No task has an id this long, and cutting it could yield another task's id. */
static bool is_too_long(const char *task_id, handoff_answered *answered, void *context)
{
    struct handoff_error error;
    if (strlen(task_id) <= HANDOFF_ID_MAX)
        return false;
    handoff_error_set(&error, HANDOFF_ERR_NOT_FOUND, "this task has no handoffs", "task_id",
                      task_id);
    handoff_give_error(answered, context, &error);
    return true;
}

void handoff_task_complete(struct handoff_loop *loop, const char *task_id, const char *caller,
                           handoff_answered *answered, void *context)
{
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    if (is_too_long(task_id, answered, context))
        return;
    struct completing *completing = base_calloc(1, sizeof *completing);
    if (!completing) {
        handoff_give_no_memory(answered, context);
        return;
    }
    *completing = (struct completing){
        .magic = COMPLETING_MAGIC, .loop = loop, .answered = answered, .context = context};
    struct handoff_store_complete_task *complete = &completing->complete;
    complete->job.mailbox = loop->lane->mailbox;
    complete->job.done = completed;
    complete->task_id = keep(completing->task_id, sizeof completing->task_id, task_id);
    complete->agent = keep(completing->caller, sizeof completing->caller, caller);
    complete->now_ms = base_wall_ms(loop->client->assembler.clock);
    loop->pending++;
    handoff_store_complete_task(loop->client->store, complete);
}
