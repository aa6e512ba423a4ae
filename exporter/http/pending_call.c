/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for the client, see pending_call.h. On the request's loop thread. */
#include "exporter/http/pending_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/http/problem.h"
#include "lib/base/check.h"

enum { PENDING_CALL_MAGIC = 0x61736b21 };

/* ---- errors -------------------------------------------------------------------------------- */

/* When to try again, in seconds: known for an open circuit, soon for what is only busy. */
static int64_t retry_after_s(const struct handoff_error *error)
{
    if (error->code == HANDOFF_ERR_CIRCUIT_OPEN)
        return error->needed > 1000 ? (error->needed + 999) / 1000 : 1;
    return handoff_code_class(error->code) == HANDOFF_CLASS_BUSY ? 1 : 0;
}

static void respond_failure(struct exporter_request *request, const struct handoff_result *result)
{
    const struct handoff_error *error = &result->error;
    char detail[1024], seconds[24];
    handoff_error_text(error, detail, sizeof detail);
    struct exporter_problem problem = {.code = error->code,
                                       .detail = detail,
                                       .field = error->field,
                                       .seen = error->seen,
                                       .allowed = error->allowed,
                                       .needed = error->needed,
                                       .handoff = result->body,
                                       .handoff_size = result->size,
                                       .is_publication = result->is_publication};
    if (retry_after_s(error) > 0) {
        snprintf(seconds, sizeof seconds, "%lld", (long long)retry_after_s(error));
        problem.header = (struct exporter_header){"Retry-After", seconds};
        problem.needed = 0;
    }
    exporter_request_name_source(request, result->source);
    exporter_respond_problem(request, &problem);
}

void exporter_respond_error(struct exporter_request *request, const struct handoff_error *error)
{
    const struct handoff_result result = {.error = *error};
    respond_failure(request, &result);
}

void exporter_respond_bytes(struct exporter_request *request, unsigned status,
                            const char *content_type, const char *bytes, size_t length)
{
    const struct exporter_reply reply = {.status = status,
                                         .content_type = content_type,
                                         .bytes = bytes,
                                         .length = length,
                                         .body = EXPORTER_BODY_COPY};
    exporter_respond(request, &reply);
}

/* ---- waiting ------------------------------------------------------------------------------- */

struct exporter_pending_call {
    unsigned magic;
    struct exporter_request *request; /* NULL once it was cancelled */
    void (*respond)(struct exporter_request *request, const struct handoff_result *result);
    void (*cancel)(void *arg); /* NULL: the client is not told */
    void *cancel_arg;
};

static void call_cancelled(void *arg)
{
    struct exporter_pending_call *pending = arg;
    BASE_CHECK_MAGIC(pending, PENDING_CALL_MAGIC);
    pending->request = NULL;
    if (pending->cancel != NULL)
        pending->cancel(pending->cancel_arg); /* may be its end */
}

void exporter_pending_call_on_cancel(struct exporter_pending_call *pending,
                                     void (*cancel)(void *arg), void *arg)
{
    BASE_CHECK_MAGIC(pending, PENDING_CALL_MAGIC);
    pending->cancel = cancel;
    pending->cancel_arg = arg;
}

struct exporter_pending_call *exporter_pending_call_start(
    struct exporter_request *request,
    void (*respond)(struct exporter_request *request, const struct handoff_result *result))
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (request)"};
    struct exporter_pending_call *pending = calloc(1, sizeof *pending);
    if (pending == NULL) {
        exporter_respond_problem(request, &no_memory);
        return NULL;
    }
    *pending = (struct exporter_pending_call){
        .magic = PENDING_CALL_MAGIC, .request = request, .respond = respond};
    exporter_request_defer(request, call_cancelled, pending);
    return pending;
}

struct exporter_pending_call *exporter_pending_call_start_read(
    struct exporter_request *request,
    void (*respond)(struct exporter_request *request, const struct handoff_result *result))
{
    struct exporter_pending_call *pending = exporter_pending_call_start(request, respond);
    if (pending != NULL)
        exporter_request_answers_soon(request);
    return pending;
}

void exporter_pending_call_done(void *context, const struct handoff_result *result)
{
    struct exporter_pending_call *pending = context;
    BASE_CHECK_MAGIC(pending, PENDING_CALL_MAGIC);
    if (pending->request != NULL)
        exporter_request_warn(pending->request, result->warnings);
    if (pending->request != NULL && result->error.code != HANDOFF_OK)
        respond_failure(pending->request, result);
    else if (pending->request != NULL)
        pending->respond(pending->request, result);
    pending->magic = 0;
    free(pending);
}
