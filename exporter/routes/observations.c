/* SPDX-License-Identifier: Apache-2.0 */
/* The call that reports observed handoffs. On the loop of the request. */
#include "exporter/routes/calls.h"

#include "client/calls/call.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"
#include "exporter/routes/ask.h"

/* Answered at once: a full batch takes about two milliseconds. */
void exporter_call_observe(struct exporter_request *request, void *context)
{
    const struct handoff_ask ask = exporter_ask(request);
    struct handoff_text text;
    struct handoff_error error;
    if (handoff_observe(exporter_client_host_client(context), &ask, &text, &error) != HANDOFF_OK) {
        exporter_respond_error(request, &error);
        return;
    }
    exporter_respond_bytes(request, 200, "application/json", text.data, text.size);
    handoff_text_free(&text);
}
