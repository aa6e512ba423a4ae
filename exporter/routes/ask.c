/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks, see ask.h. On the loop of the request. */
#include "exporter/routes/ask.h"

#include <inttypes.h>
#include <stdio.h>

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

struct exporter_preferences exporter_preferences_of(struct exporter_request *request)
{
    struct exporter_preferences preferences = {.wait_s = -1};
    if (exporter_request_header(request, "Prefer") != NULL) /* cheaper than to join several */
        exporter_read_prefer(exporter_request_header_list(request, "Prefer"), &preferences);
    return preferences;
}

/* What was preferred and done: respond-async only if the answer came before the end. */
static void name_applied(const struct exporter_preferences *preferences, bool under_way, char *to,
                         size_t size)
{
    const bool async = preferences->respond_async && under_way;
    to[0] = '\0';
    if (preferences->wait_s >= 0)
        snprintf(to, size, "%swait=%" PRId64, async ? "respond-async, " : "", preferences->wait_s);
    else if (async)
        snprintf(to, size, "respond-async");
}

void exporter_respond_preferred(struct exporter_request *request,
                                const struct handoff_result *result)
{
    const struct exporter_preferences preferences = exporter_preferences_of(request);
    char applied[64];
    struct exporter_reply reply = {
        .status = result->under_way ? 202 : 200, /* a repeat with a key may find it settled */
        .content_type = "application/json",
        .bytes = result->body,
        .length = result->size,
        .body = EXPORTER_BODY_COPY};
    name_applied(&preferences, result->under_way, applied, sizeof applied);
    if (applied[0] != '\0')
        reply.headers[0] = (struct exporter_header){"Preference-Applied", applied};
    exporter_respond(request, &reply);
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
