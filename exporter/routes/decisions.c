/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about what was decided. On the loop of the request. */
#include "exporter/routes/calls.h"

#include <string.h>

#include "client/calls/call.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"

#define LINES_TYPE "application/x-ndjson"

static bool wants_lines(struct exporter_request *request)
{
    const char *accept = exporter_request_header_list(request, "Accept");
    return accept != NULL && strstr(accept, LINES_TYPE) != NULL;
}

static void respond_decisions(struct exporter_request *request, const struct handoff_result *result)
{
    exporter_respond_bytes(request, 200, wants_lines(request) ? LINES_TYPE : "application/json",
                           result->body, result->size);
}

void exporter_call_list_decisions(struct exporter_request *request, void *context)
{
    struct handoff_decision_query query = exporter_request_input(request)->decisions;
    query.lines = wants_lines(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_decisions);
    if (pending != NULL)
        handoff_decisions(exporter_client_host_loop(context, exporter_request_loop(request)),
                          &query, exporter_pending_call_done, pending);
}
