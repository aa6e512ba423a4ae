/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about bulk jobs. On the loop of the request; the client answers there too. */
#include "exporter/routes/calls.h"

#include "client/calls/call.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"
#include "exporter/routes/ask.h"

static struct handoff_loop *jobs_loop(const struct exporter_request *request, void *context)
{
    return exporter_client_host_loop(context, exporter_request_loop(request));
}

static void respond_job(struct exporter_request *request, const struct handoff_result *result)
{
    exporter_respond_bytes(request, 200, "application/json", result->body, result->size);
}

static void respond_turned_job(struct exporter_request *request,
                               const struct handoff_result *result)
{
    exporter_respond_bytes(request, 202, "application/json", result->body, result->size);
}

void exporter_call_begin_job(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const struct handoff_job_query query = {.action = input->job.action,
                                            .filter = input->job.filter,
                                            .to = input->job.to,
                                            .author = exporter_author(request, input->job.reason),
                                            .limit = input->job.limit,
                                            .rate = input->job.rate,
                                            .canary = input->job.canary,
                                            .dry_run = input->job.dry_run};
    struct exporter_pending_call *pending =
        exporter_pending_call_start(request, query.dry_run ? respond_job : respond_turned_job);
    if (pending != NULL)
        handoff_job_begin(jobs_loop(request, context), &query, exporter_pending_call_done, pending);
}

void exporter_call_list_jobs(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending = exporter_pending_call_start_read(request, respond_job);
    if (pending != NULL)
        handoff_job_list(jobs_loop(request, context), exporter_pending_call_done, pending);
}

void exporter_call_get_job(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending = exporter_pending_call_start_read(request, respond_job);
    if (pending != NULL)
        handoff_job_get(jobs_loop(request, context), exporter_request_input(request)->id,
                        exporter_pending_call_done, pending);
}

void exporter_call_list_job_items(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    struct exporter_pending_call *pending = exporter_pending_call_start_read(request, respond_job);
    if (pending != NULL)
        handoff_job_items(jobs_loop(request, context), input->id, &input->job_items,
                          exporter_pending_call_done, pending);
}

void exporter_call_continue_job(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending =
        exporter_pending_call_start(request, respond_turned_job);
    if (pending != NULL)
        handoff_job_continue(jobs_loop(request, context), exporter_request_input(request)->id,
                             exporter_pending_call_done, pending);
}

void exporter_call_stop_job(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending =
        exporter_pending_call_start(request, respond_turned_job);
    if (pending != NULL)
        handoff_job_stop(jobs_loop(request, context), exporter_request_input(request)->id,
                         exporter_pending_call_done, pending);
}
