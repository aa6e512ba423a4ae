/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/routes/replays.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "exporter/client_host.h"
#include "exporter/http/body.h"
#include "exporter/http/pending_call.h"

/* A run, or the list of them, that the client gave away; or its error. */
static void respond(struct exporter_request *request, unsigned status, enum handoff_code code,
                    struct handoff_text *text, const struct handoff_error *error)
{
    if (code != HANDOFF_OK) {
        exporter_respond_error(request, error);
        return;
    }
    exporter_respond_bytes(request, status, "application/json", text->data, text->size);
    handoff_text_free(text);
}

void exporter_route_replay_many(struct exporter_request *request, void *context)
{
    struct handoff_replay_query query = {0};
    struct handoff_text text;
    struct handoff_error error;
    uint64_t rate = 0;
    yyjson_doc *doc;
    yyjson_val *root;
    const struct exporter_body_field fields[] = {{.name = "target", .text = &query.target},
                                                 {.name = "reason", .text = &query.reason},
                                                 {.name = "to", .text = &query.to},
                                                 {.name = "limit", .number = &query.limit},
                                                 {.name = "rate", .number = &rate}};
    if (!exporter_body_object(request, &doc, &root))
        return;
    if (exporter_body_read(request, root, fields, sizeof fields / sizeof fields[0])) {
        query.rate = rate < UINT_MAX ? (unsigned)rate : UINT_MAX;
        enum handoff_code code = handoff_replay_many(
            exporter_hosting_loop(context, exporter_request_loop(request)), &query, &text, &error);
        respond(request, 202, code, &text, &error);
    }
    yyjson_doc_free(doc);
}

void exporter_route_replays(struct exporter_request *request, void *context)
{
    struct handoff_text text;
    struct handoff_error error;
    enum handoff_code code = handoff_replay_list(exporter_hosting_client(context), &text, &error);
    respond(request, 200, code, &text, &error);
}

void exporter_route_replay_run(struct exporter_request *request, void *context)
{
    struct handoff_text text;
    struct handoff_error error;
    enum handoff_code code = handoff_replay_get(exporter_hosting_client(context),
                                                exporter_request_param(request, 0), &text, &error);
    respond(request, 200, code, &text, &error);
}

void exporter_route_replay_stop(struct exporter_request *request, void *context)
{
    struct handoff_text text;
    struct handoff_error error;
    enum handoff_code code = handoff_replay_stop(exporter_hosting_client(context),
                                                 exporter_request_param(request, 0), &text, &error);
    respond(request, 202, code, &text, &error);
}
