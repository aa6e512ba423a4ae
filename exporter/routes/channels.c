/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls about channels and publications: each asks the client, and answers with its JSON.
 *
 * On the loop of the request; the client answers there too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/calls/call.h"
#include "exporter/access/admission.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"
#include "exporter/http/prefer.h"
#include "exporter/http/problem.h"
#include "exporter/routes/ask.h"
#include "exporter/routes/calls.h"

static struct handoff_loop *channels_loop(const struct exporter_request *request, void *context)
{
    return exporter_client_host_loop(context, exporter_request_loop(request));
}

static void respond_channel(struct exporter_request *request, const struct handoff_result *result)
{
    exporter_respond_bytes(request, 200, "application/json", result->body, result->size);
}

enum { EXPORTER_BOUND_CHANNELS_SIZE = 260 }; /* of `publish=`, and of `receive=`, with a comma */

/* ---- channels that a token is bound to --------------------------------------------------------
 */

/* `bound` separated by commas; NULL: to none in particular. */
static bool may_use(const char *bound, const char *channel)
{
    const size_t size = strlen(channel);
    for (const char *at = bound; at != NULL && *at != '\0'; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        if (length == size && memcmp(at, channel, size) == 0)
            return true;
        at += length;
    }
    return bound == NULL;
}

static void refuse_unbound(struct exporter_request *request, const char *detail,
                           const char *allowed)
{
    const struct exporter_problem problem = {.code = HANDOFF_ERR_FORBIDDEN,
                                             .detail = detail,
                                             .field = "channel",
                                             .seen = exporter_request_input(request)->channel,
                                             .allowed = allowed[0] != '\0' ? allowed : "none"};
    exporter_respond_problem(request, &problem);
}

/* false: it may not, which was answered. */
static bool check_bound(struct exporter_request *request, const char *bound, const char *detail)
{
    if (may_use(bound, exporter_request_input(request)->channel))
        return true;
    refuse_unbound(request, detail, bound);
    return false;
}

static bool may_publish(struct exporter_request *request)
{
    return check_bound(request, exporter_request_publish_channels(request),
                       "the token does not allow publishing to this channel (publish= in "
                       "api.tokens_file)");
}

static bool may_receive(struct exporter_request *request)
{
    return check_bound(request, exporter_request_receive_channels(request),
                       "the token does not allow receiving from this channel (receive= in "
                       "api.tokens_file)");
}

/* What it may publish to, it may look at as well. */
static bool may_look_at_channel(struct exporter_request *request)
{
    const char *channel = exporter_request_input(request)->channel;
    const char *publish = exporter_request_publish_channels(request);
    const char *receive = exporter_request_receive_channels(request);
    char allowed[2 * EXPORTER_BOUND_CHANNELS_SIZE];
    if (may_use(publish, channel) || may_use(receive, channel))
        return true;
    snprintf(allowed, sizeof allowed, "%s%s%s", publish,
             publish[0] != '\0' && receive[0] != '\0' ? "," : "", receive);
    refuse_unbound(request,
                   "the token allows neither publishing to this channel nor receiving from it "
                   "(publish= and receive= in api.tokens_file)",
                   allowed);
    return false;
}

/* ---- publishing ------------------------------------------------------------------------------ */

static void take_wait(struct exporter_request *request, struct handoff_ask *ask)
{
    const struct exporter_preferences preferences = exporter_preferences_of(request);
    ask->wait_ms = preferences.wait_s > 0 ? preferences.wait_s * 1000 : 0;
}

/* One of the two ways to name what is published. */
static bool names_what(struct exporter_request *request)
{
    static const struct exporter_problem neither = {.code = HANDOFF_ERR_INVALID,
                                                    .detail =
                                                        "give either a request or an envelope_id",
                                                    .field = "request",
                                                    .allowed = "request, or envelope_id"};
    const struct handoff_call_input *input = exporter_request_input(request);
    if ((input->publish.request != NULL) != (input->publish.envelope_id != NULL))
        return true;
    exporter_respond_problem(request, &neither);
    return false;
}

static void publish_call(struct exporter_request *request, void *context,
                         const struct handoff_publish_options *options, struct handoff_ask *ask)
{
    struct exporter_pending_call *pending =
        exporter_pending_call_start(request, exporter_respond_preferred);
    if (pending != NULL)
        handoff_publish(channels_loop(request, context), options, ask, exporter_pending_call_done,
                        pending);
}

/* Lends the texts of the document; free() it. NULL: out of memory. */
static const char **receiver_names(yyjson_val *receivers)
{
    size_t i;
    size_t n;
    yyjson_val *name;
    const char **names = calloc(yyjson_arr_size(receivers) + 1, sizeof *names);
    yyjson_arr_foreach(receivers, i, n, name)
    {
        if (names != NULL)
            names[i] = yyjson_get_str(name);
    }
    return names;
}

void exporter_call_publish(struct exporter_request *request, void *context)
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (request)"};
    const struct handoff_call_input *input = exporter_request_input(request);
    if (!may_publish(request) || !names_what(request))
        return;
    yyjson_val *receivers = input->publish.receivers;
    const char **names = receiver_names(receivers);
    struct handoff_ask ask = exporter_ask(request);
    ask.body = exporter_request_document(request, &ask.size);
    take_wait(request, &ask);
    const struct handoff_publish_options options = {.channel = input->channel,
                                                    .envelope_id = input->publish.envelope_id,
                                                    .receivers = receivers != NULL ? names : NULL,
                                                    .nreceivers = yyjson_arr_size(receivers)};
    if (names == NULL)
        exporter_respond_problem(request, &no_memory);
    else
        publish_call(request, context, &options, &ask);
    free(names);
}

/* ---- subscriptions --------------------------------------------------------------------------- */

void exporter_call_subscribe(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    if (!may_receive(request))
        return;
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_channel);
    if (pending != NULL)
        handoff_subscribe(channels_loop(request, context), input->channel, input->id,
                          input->subscribe.from, exporter_request_caller(request),
                          exporter_pending_call_done, pending);
}

void exporter_call_unsubscribe(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    if (!may_receive(request))
        return;
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond_channel);
    if (pending != NULL)
        handoff_unsubscribe(channels_loop(request, context), input->channel, input->id,
                            exporter_request_caller(request), exporter_pending_call_done, pending);
}

/* ---- looking --------------------------------------------------------------------------------- */

void exporter_call_list_channels(struct exporter_request *request, void *context)
{
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_channel);
    if (pending != NULL)
        handoff_channels_list(channels_loop(request, context), exporter_request_caller(request),
                              exporter_pending_call_done, pending);
}

void exporter_call_get_channel(struct exporter_request *request, void *context)
{
    if (!may_look_at_channel(request))
        return;
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_channel);
    if (pending != NULL)
        handoff_channel_get(channels_loop(request, context),
                            exporter_request_input(request)->channel,
                            exporter_request_caller(request), exporter_pending_call_done, pending);
}

void exporter_call_list_publications(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    if (!may_look_at_channel(request))
        return;
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_channel);
    if (pending != NULL)
        handoff_publications_list(channels_loop(request, context), input->channel,
                                  exporter_request_caller(request), input->list.cursor,
                                  input->list.limit, exporter_pending_call_done, pending);
}

void exporter_call_get_publication(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    if (!may_look_at_channel(request))
        return;
    struct exporter_pending_call *pending =
        exporter_pending_call_start_read(request, respond_channel);
    if (pending != NULL)
        handoff_publication_get(channels_loop(request, context), input->channel, input->id,
                                exporter_request_caller(request), exporter_pending_call_done,
                                pending);
}
