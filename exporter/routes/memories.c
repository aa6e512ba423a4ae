/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about memories: each asks the client, and answers with its JSON. On the loop of the
 * request. */
#include "exporter/routes/calls.h"

#include "client/calls/call.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"

static struct handoff_loop *memories_loop(const struct exporter_request *request, void *context)
{
    return exporter_client_host_loop(context, exporter_request_loop(request));
}

static struct handoff_memory_caller memory_caller(const struct exporter_request *request)
{
    return (struct handoff_memory_caller){exporter_request_caller(request),
                                          exporter_request_scopes(request)};
}

static void respond_memory(struct exporter_request *request, const struct handoff_result *result)
{
    exporter_respond_bytes(request, result->created ? 201 : 200, "application/json", result->body,
                           result->size);
}

static void respond_deleted(struct exporter_request *request, const struct handoff_result *result)
{
    (void)result;
    exporter_respond(request, &(struct exporter_reply){.status = 204});
}

void exporter_call_put_memory(struct exporter_request *request, void *context)
{
    const struct handoff_memory_caller caller = memory_caller(request);
    size_t size;
    const char *body = exporter_request_body(request, &size);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_memory);
    if (pending != NULL)
        handoff_memory_put(memories_loop(request, context), exporter_request_input(request)->id,
                           body, size, &caller, exporter_pending_call_done, pending);
}

void exporter_call_get_memory(struct exporter_request *request, void *context)
{
    const struct handoff_memory_caller caller = memory_caller(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_memory);
    if (pending != NULL)
        handoff_memory_get(memories_loop(request, context), exporter_request_input(request)->id,
                           &caller, exporter_pending_call_done, pending);
}

void exporter_call_delete_memory(struct exporter_request *request, void *context)
{
    const struct handoff_memory_caller caller = memory_caller(request);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_deleted);
    if (pending != NULL)
        handoff_memory_delete(memories_loop(request, context), exporter_request_input(request)->id,
                              &caller, exporter_pending_call_done, pending);
}

static void change_pin(struct exporter_request *request, void *context, bool pinned)
{
    const struct handoff_memory_caller caller = memory_caller(request);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_memory);
    if (pending != NULL)
        handoff_memory_pin(memories_loop(request, context), exporter_request_input(request)->id,
                           pinned, &caller, exporter_pending_call_done, pending);
}

void exporter_call_pin_memory(struct exporter_request *request, void *context)
{
    change_pin(request, context, true);
}

void exporter_call_unpin_memory(struct exporter_request *request, void *context)
{
    change_pin(request, context, false);
}

void exporter_call_list_memories(struct exporter_request *request, void *context)
{
    struct handoff_memory_query query = exporter_request_input(request)->memories;
    query.caller = memory_caller(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_memory);
    if (pending != NULL)
        handoff_memory_list(memories_loop(request, context), &query, exporter_pending_call_done,
                            pending);
}
