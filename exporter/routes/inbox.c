/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's inbox: polled for one handoff, or followed as a stream of events (inbox_stream.c).
 *
 * On the loop of the request; the client answers there too.
 */
#include "exporter/routes/inbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/calls/call.h"
#include "exporter/access/admission.h"
#include "exporter/client_host.h"
#include "exporter/http/accept.h"
#include "exporter/http/event_stream.h"
#include "exporter/http/pending_call.h"
#include "exporter/http/polls.h"
#include "exporter/http/problem.h"
#include "exporter/routes/calls.h"
#include "lib/base/check.h"

enum { PULLING_MAGIC = 0x70756c6c };

/* ---- what a handoff is given with ------------------------------------------------------------ */

static void note_inbox_header(struct exporter_inbox_headers *headers, const char *name,
                              const char *value)
{
    if (value != NULL)
        headers->rows[headers->count++] = (struct exporter_header){name, value};
}

void exporter_inbox_write_headers(struct exporter_inbox_headers *headers,
                                  const struct handoff_pulled *got)
{
    static const char *const types[] = {[HANDOFF_RENDER_STORED] = HANDOFF_ENVELOPE_TYPE_2,
                                        [HANDOFF_RENDER_VERSION_1] = HANDOFF_ENVELOPE_TYPE_1,
                                        [HANDOFF_RENDER_MARKDOWN] = HANDOFF_BRIEF_TYPE};
    headers->count = 0;
    headers->content_type = types[got->rendering];
    snprintf(headers->attempt, sizeof headers->attempt, "%u", got->attempt);
    snprintf(headers->lease, sizeof headers->lease, "%lld", (long long)(got->lease_ms / 1000));
    note_inbox_header(headers, "Handoff-Id", got->id);
    note_inbox_header(headers, "Handoff-Attempt", headers->attempt);
    note_inbox_header(headers, "Handoff-Lease-Seconds", headers->lease);
    note_inbox_header(headers, "Handoff-Task-Id", got->task_id);
    note_inbox_header(headers, "Handoff-Root-Id", got->root_id);
    note_inbox_header(headers, "Handoff-Previous-Id", got->previous_id);
}

/* ---- polling --------------------------------------------------------------------------------- */

/* A request that waits for a handoff. Freed when the client has told, which it does also after the
 * request was cancelled. */
struct pulling {
    unsigned magic;
    struct exporter_request *request; /* NULL once it was cancelled */
    struct handoff_puller *pull;      /* NULL once it was told */
    bool told;
};

/* True: a handoff is on its way to the poller. */
static bool respond_pulled(struct exporter_request *request, const struct handoff_pulled *got)
{
    struct exporter_inbox_headers headers;
    if (got->error.code != HANDOFF_OK) {
        exporter_respond_error(request, &got->error);
        return false;
    }
    if (got->envelope == NULL) {
        exporter_respond(request, &(struct exporter_reply){.status = 204});
        return false;
    }
    exporter_inbox_write_headers(&headers, got);
    struct exporter_reply reply = {.status = 200,
                                   .content_type = headers.content_type,
                                   .bytes = got->envelope,
                                   .length = got->size,
                                   .body = EXPORTER_BODY_COPY};
    memcpy(reply.headers, headers.rows, headers.count * sizeof headers.rows[0]);
    return exporter_respond(request, &reply);
}

/* Answers the poller; true: it takes the handoff. Nothing is handed to one that has just left, as
 * it would be lost until its lease ran out, nor to one whose token a reload has revoked, nor where
 * there is no memory to send it. */
static bool give_pulled(struct exporter_request *request, const struct handoff_pulled *got)
{
    const struct handoff_pulled nothing = {.error = {.code = HANDOFF_OK}};
    const bool gives = got->envelope != NULL;
    if (gives && exporter_request_has_left(request))
        return respond_pulled(request, &nothing);
    if (gives && !exporter_admission_reauthorize(request))
        return false;
    return respond_pulled(request, got);
}

static bool pulled(void *arg, const struct handoff_pulled *got)
{
    struct pulling *pulling = arg;
    BASE_CHECK_MAGIC(pulling, PULLING_MAGIC);
    const bool taken = pulling->request != NULL && give_pulled(pulling->request, got);
    pulling->told = true;
    if (pulling->pull != NULL) { /* else the call that began it frees */
        pulling->magic = 0;
        free(pulling);
    }
    return taken;
}

static void pull_cancelled(void *arg)
{
    struct pulling *pulling = arg;
    BASE_CHECK_MAGIC(pulling, PULLING_MAGIC);
    pulling->request = NULL;
    if (pulling->pull != NULL)
        handoff_pull_withdraw(pulling->pull);
}

/* As if its time were over; a handoff that is on its way is still given. */
static void end_pull(void *arg)
{
    struct pulling *pulling = arg;
    BASE_CHECK_MAGIC(pulling, PULLING_MAGIC);
    if (pulling->pull != NULL)
        handoff_pull_withdraw(pulling->pull);
}

/* HEAD would lease a handoff and deliver it to no one. */
static bool shows_what_it_takes(struct exporter_request *request)
{
    static const struct exporter_problem no_body = {
        .code = HANDOFF_ERR_METHOD_NOT_ALLOWED,
        .detail = "HEAD cannot pull a handoff, because its response has no body; use GET",
        .allowed = "GET",
        .header = {"Allow", "GET, OPTIONS"}};
    if (strcmp(exporter_request_method(request), "HEAD") != 0)
        return true;
    exporter_respond_problem(request, &no_body);
    return false;
}

static void poll_inbox(struct exporter_request *request, void *context)
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (request)"};
    const struct handoff_call_input *input = exporter_request_input(request);
    struct pulling *pulling = calloc(1, sizeof *pulling);
    if (pulling == NULL) {
        exporter_respond_problem(request, &no_memory);
        return;
    }
    pulling->magic = PULLING_MAGIC;
    pulling->request = request;
    if (!exporter_polls_defer(request, pull_cancelled, end_pull, pulling)) {
        free(pulling);
        return;
    }
    struct handoff_puller *pull =
        handoff_pull(exporter_client_host_loop(context, exporter_request_loop(request)), input->id,
                     input->pull.wait_ms, pulled, pulling);
    if (pulling->told)
        free(pulling);
    else
        pulling->pull = pull;
}

/* ---- which of the two ------------------------------------------------------------------------ */

/* What names both means the first. */
static bool wants_events(struct exporter_request *request)
{
    const char *at = exporter_request_header_list(request, "Accept");
    struct exporter_accepted accepted;
    while (exporter_accept_next(&at, &accepted)) {
        if (exporter_accept_names(&accepted, EXPORTER_EVENT_STREAM_TYPE))
            return true;
        if (exporter_accept_names(&accepted, HANDOFF_ENVELOPE_TYPE) ||
            exporter_accept_names(&accepted, "application/json") ||
            exporter_accept_names(&accepted, "text/markdown") ||
            exporter_accept_names(&accepted, "*/*"))
            return false;
    }
    return false;
}

/* A parameter of the other way would have no effect. */
static bool takes_parameters(struct exporter_request *request, bool follows)
{
    static const struct exporter_problem no_wait = {
        .code = HANDOFF_ERR_INVALID,
        .detail = "a stream of events waits for as long as it is open",
        .field = "wait",
        .allowed = "no wait, or another Accept than " EXPORTER_EVENT_STREAM_TYPE};
    static const struct exporter_problem no_leases = {
        .code = HANDOFF_ERR_INVALID,
        .detail = "a poll leases one handoff",
        .field = "leases",
        .allowed = "no leases, or Accept: " EXPORTER_EVENT_STREAM_TYPE};
    if (exporter_request_query(request, follows ? "wait" : "leases") == NULL)
        return true;
    exporter_respond_problem(request, follows ? &no_wait : &no_leases);
    return false;
}

void exporter_call_pull_handoff(struct exporter_request *request, void *context)
{
    const bool follows = wants_events(request);
    if (!shows_what_it_takes(request) || !takes_parameters(request, follows))
        return;
    if (follows)
        exporter_inbox_follow(request, context);
    else
        poll_inbox(request, context);
}
