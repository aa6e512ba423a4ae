/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about runs that deliver parked handoffs again. On the loop of the request. */
#include "exporter/routes/calls.h"

#include "client/calls/call.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"

/* A run, or the list of them, that the client gave away; or its error. */
static void respond_run(struct exporter_request *request, unsigned status, enum handoff_code code,
                        struct handoff_text *text, const struct handoff_error *error)
{
    if (code != HANDOFF_OK) {
        exporter_respond_error(request, error);
        return;
    }
    exporter_respond_bytes(request, status, "application/json", text->data, text->size);
    handoff_text_free(text);
}

void exporter_call_replay_parked(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const struct handoff_replay_query query = {.target = input->replay_parked.target,
                                               .reason = input->replay_parked.reason,
                                               .to = input->replay_parked.to,
                                               .limit = (uint64_t)input->replay_parked.limit,
                                               .rate = (unsigned)input->replay_parked.rate};
    struct handoff_text text;
    struct handoff_error error;
    enum handoff_code code = handoff_replay_many(
        exporter_client_host_loop(context, exporter_request_loop(request)), &query, &text, &error);
    respond_run(request, 202, code, &text, &error);
}

void exporter_call_list_replays(struct exporter_request *request, void *context)
{
    struct handoff_text text;
    struct handoff_error error;
    enum handoff_code code =
        handoff_replay_list(exporter_client_host_client(context), &text, &error);
    respond_run(request, 200, code, &text, &error);
}

void exporter_call_get_replay(struct exporter_request *request, void *context)
{
    struct handoff_text text;
    struct handoff_error error;
    enum handoff_code code = handoff_replay_get(exporter_client_host_client(context),
                                                exporter_request_input(request)->id, &text, &error);
    respond_run(request, 200, code, &text, &error);
}

void exporter_call_stop_replay(struct exporter_request *request, void *context)
{
    struct handoff_text text;
    struct handoff_error error;
    enum handoff_code code = handoff_replay_stop(
        exporter_client_host_client(context), exporter_request_input(request)->id, &text, &error);
    respond_run(request, 202, code, &text, &error);
}
