/* SPDX-License-Identifier: Apache-2.0 */
/* The call that reports observed handoffs. On the loop of the request. */
#include "exporter/routes/calls.h"

#include "client/calls/call.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"

/* Answered at once: a full batch takes about two milliseconds. */
void exporter_call_observe(struct exporter_request *request, void *context)
{
    struct handoff_ask ask = {.caller = exporter_request_caller(request),
                              .sender = exporter_request_sender(request)};
    struct handoff_text text;
    struct handoff_error error;
    ask.body = exporter_request_body(request, &ask.size);
    if (handoff_observe(exporter_client_host_client(context), &ask, &text, &error) != HANDOFF_OK) {
        exporter_respond_error(request, &error);
        return;
    }
    exporter_respond_bytes(request, 200, "application/json", text.data, text.size);
    handoff_text_free(&text);
}
