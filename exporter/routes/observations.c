/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call that reports observed handoffs. A full batch takes about two milliseconds and is counted
 * at once; a body may be much longer than that, and is then read and counted on a worker.
 *
 * On the loop of the request, but for count_on_worker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/calls/call.h"
#include "client/host_loop.h"
#include "exporter/client_host.h"
#include "exporter/http/pending_call.h"
#include "exporter/http/problem.h"
#include "exporter/routes/ask.h"
#include "exporter/routes/calls.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

enum {
    OBSERVING_MAGIC = 0x0b5e71e5,
    SIZE_ON_LOOP = 256 * 1024, /* a full batch; 2 ms, if it is all small values */
};

struct observing {
    unsigned magic;
    struct handoff_host_work work;
    struct handoff_client *client;
    struct exporter_pending_call *pending;
    char caller[129], sender[129]; /* "": none */
    struct handoff_text text;
    struct handoff_error error;
    size_t size;
    char body[];
};

static void respond_observed(struct exporter_request *request, const struct handoff_result *result)
{
    exporter_respond_bytes(request, 200, "application/json", result->body, result->size);
}

static void count_on_worker(struct handoff_host_work *work)
{
    struct observing *observing = BASE_CONTAINER_OF(work, struct observing, work);
    const struct handoff_ask ask = {
        .body = observing->body,
        .size = observing->size,
        .caller = observing->caller[0] != '\0' ? observing->caller : NULL,
        .sender = observing->sender[0] != '\0' ? observing->sender : NULL};
    observing->error.code =
        handoff_observe(observing->client, &ask, &observing->text, &observing->error);
}

static void observing_is_done(struct handoff_host_work *work)
{
    struct observing *observing = BASE_CONTAINER_OF(work, struct observing, work);
    BASE_CHECK_MAGIC(observing, OBSERVING_MAGIC);
    const struct handoff_result result = {
        .error = observing->error, .body = observing->text.data, .size = observing->text.size};
    exporter_pending_call_done(observing->pending, &result);
    handoff_text_free(&observing->text);
    observing->magic = 0;
    free(observing);
}

/* NULL: out of memory. */
static struct observing *copy_observations(struct exporter_request *request, void *context,
                                           const struct handoff_ask *ask)
{
    struct observing *observing = calloc(1, sizeof *observing + ask->size);
    if (observing == NULL)
        return NULL;
    observing->magic = OBSERVING_MAGIC;
    observing->client = exporter_client_host_client(context);
    observing->work.loop = exporter_client_host_loop(context, exporter_request_loop(request));
    observing->work.work.bytes = ask->size;
    observing->work.run = count_on_worker;
    observing->work.done = observing_is_done;
    snprintf(observing->caller, sizeof observing->caller, "%s", ask->caller ? ask->caller : "");
    snprintf(observing->sender, sizeof observing->sender, "%s", ask->sender ? ask->sender : "");
    observing->size = ask->size;
    memcpy(observing->body, ask->body, ask->size);
    return observing;
}

static void refuse_observing(struct observing *observing)
{
    static const struct handoff_result refused = {
        .error = {.code = HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
                  .message = "too many long requests wait; retry"}};
    exporter_pending_call_done(observing->pending, &refused);
    free(observing);
}

static void observe_on_worker(struct exporter_request *request, void *context,
                              const struct handoff_ask *ask)
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (observations)"};
    struct observing *observing = copy_observations(request, context, ask);
    if (observing == NULL) {
        exporter_respond_problem(request, &no_memory);
        return;
    }
    observing->pending = exporter_pending_call_start_read(request, respond_observed);
    if (observing->pending == NULL)
        free(observing);
    else if (!handoff_host_work_begin(&observing->work))
        refuse_observing(observing);
}

void exporter_call_observe(struct exporter_request *request, void *context)
{
    const struct handoff_ask ask = exporter_ask(request);
    struct handoff_text text;
    struct handoff_error error;
    if (ask.size > SIZE_ON_LOOP) {
        observe_on_worker(request, context, &ask);
        return;
    }
    if (handoff_observe(exporter_client_host_client(context), &ask, &text, &error) != HANDOFF_OK) {
        exporter_respond_error(request, &error);
        return;
    }
    exporter_respond_bytes(request, 200, "application/json", text.data, text.size);
    handoff_text_free(&text);
}
