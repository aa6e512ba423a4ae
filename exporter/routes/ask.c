/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks, see ask.h. On the loop of the request. */
#include "exporter/routes/ask.h"

#include "exporter/access/api_tokens.h"

struct handoff_ask exporter_ask(struct exporter_request *request)
{
    struct handoff_ask ask = {.caller = exporter_request_caller(request),
                              .any_task = exporter_request_is_operator(request),
                              .sender = exporter_request_sender(request),
                              .scopes = exporter_request_scopes(request),
                              .traceparent = exporter_request_header(request, "traceparent"),
                              .tracestate = exporter_request_header(request, "tracestate"),
                              .idempotency_key =
                                  exporter_request_header(request, "Idempotency-Key"),
                              .lenient = exporter_request_is_lenient(request)};
    ask.body = exporter_request_body(request, &ask.size);
    return ask;
}

/* Where no tokens are asked for, nobody can be told from anybody. */
static const char *owner_of_token(const struct exporter_request *request)
{
    const char *agent = exporter_request_caller(request);
    if (agent != NULL)
        return agent;
    return exporter_request_is_operator(request) ? EXPORTER_OPERATOR : EXPORTER_ANONYMOUS;
}

struct handoff_author exporter_author(struct exporter_request *request, const char *reason)
{
    return (struct handoff_author){.who = owner_of_token(request),
                                   .by = exporter_request_header(request, "Handoff-Decided-By"),
                                   .reason = reason};
}
