/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes, assembled and served. The bytes of version 2 go out as they are stored; Accept chooses
 * the Markdown brief or version 1 instead.
 *
 * On the request's loop thread.
 */
#include "exporter/routes/calls.h"

#include "client/calls/call.h"
#include "exporter/client_host.h"
#include "exporter/http/accept.h"
#include "exporter/http/pending_call.h"
#include "exporter/routes/ask.h"

static const char *const content_types[] = {
    [HANDOFF_RENDER_STORED] = HANDOFF_ENVELOPE_TYPE_2,
    [HANDOFF_RENDER_VERSION_1] = HANDOFF_ENVELOPE_TYPE_1,
    [HANDOFF_RENDER_MARKDOWN] = HANDOFF_BRIEF_TYPE,
};

/* ---- what the caller reads ----------------------------------------------------------------- */

/* The first entry that names something of ours decides; clients that list several mean the first.
 */
static enum handoff_rendering rendering_of(struct exporter_request *request)
{
    const char *at = exporter_request_header_list(request, "Accept");
    struct exporter_accepted accepted;
    while (exporter_accept_next(&at, &accepted)) {
        if (exporter_accept_names(&accepted, "text/markdown"))
            return HANDOFF_RENDER_MARKDOWN;
        if (exporter_accept_names(&accepted, HANDOFF_ENVELOPE_TYPE) &&
            (exporter_accept_has(&accepted, "version=1") ||
             exporter_accept_has(&accepted, "version=\"1\"")))
            return HANDOFF_RENDER_VERSION_1;
        if (exporter_accept_names(&accepted, HANDOFF_ENVELOPE_TYPE) ||
            exporter_accept_names(&accepted, "application/json") ||
            exporter_accept_names(&accepted, "*/*"))
            return HANDOFF_RENDER_STORED;
    }
    return HANDOFF_RENDER_STORED;
}

/* ---- assembling ---------------------------------------------------------------------------- */

static void respond_assembled(struct exporter_request *request, const struct handoff_result *result)
{
    const enum handoff_rendering rendering = rendering_of(request);
    struct handoff_text text;
    struct handoff_error error;
    if (rendering == HANDOFF_RENDER_STORED) {
        exporter_respond_bytes(request, 200, content_types[rendering], result->body, result->size);
        return;
    }
    if (handoff_envelope_render(result->body, result->size, rendering, &text, &error) !=
        HANDOFF_OK) {
        exporter_respond_error(request, &error);
        return;
    }
    exporter_respond_bytes(request, 200, content_types[rendering], text.data, text.size);
    handoff_text_free(&text);
}

void exporter_call_assemble_envelope(struct exporter_request *request, void *context)
{
    struct handoff_loop *loop = exporter_client_host_loop(context, exporter_request_loop(request));
    const struct handoff_ask ask = exporter_ask(request);
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_assembled);
    if (pending != NULL)
        handoff_envelope_assemble(loop, &ask, exporter_pending_call_done, pending);
}

/* ---- serving ------------------------------------------------------------------------------- */

static void respond_envelope(struct exporter_request *request, const struct handoff_result *result)
{
    exporter_respond_bytes(request, 200, content_types[rendering_of(request)], result->body,
                           result->size);
}

/* One id names the envelope and its handoff. */
void exporter_call_get_stored_envelope(struct exporter_request *request, void *context)
{
    exporter_call_get_envelope(request, context);
}

void exporter_call_get_envelope(struct exporter_request *request, void *context)
{
    struct handoff_loop *loop = exporter_client_host_loop(context, exporter_request_loop(request));
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_envelope);
    if (pending != NULL)
        handoff_envelope_get(loop, exporter_request_input(request)->id,
                             exporter_request_caller(request), rendering_of(request),
                             exporter_pending_call_done, pending);
}

static void respond_ledger(struct exporter_request *request, const struct handoff_result *result)
{
    exporter_respond_bytes(request, 200, "application/json", result->body, result->size);
}

void exporter_call_get_ledger(struct exporter_request *request, void *context)
{
    struct handoff_loop *loop = exporter_client_host_loop(context, exporter_request_loop(request));
    const struct handoff_call_input *input = exporter_request_input(request);
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_ledger);
    if (pending != NULL)
        handoff_ledger_get(loop, input->id, exporter_request_caller(request), &input->ledger,
                           exporter_pending_call_done, pending);
}
