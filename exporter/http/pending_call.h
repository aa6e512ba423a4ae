/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending_call.h - from a request to the handoff client and back: a request sleeps while the client
 * works, and what the client answers becomes an HTTP answer.
 */
#ifndef EXPORTER_HTTP_PENDING_CALL_H
#define EXPORTER_HTTP_PENDING_CALL_H

#include "client/handoff.h"
#include "exporter/http/http.h"

/* Answers with the error: its class decides the status, its code and texts are in the problem. */
void exporter_respond_error(struct exporter_request *request, const struct handoff_error *error);

/* Answers with bytes that are copied. `content_type` is static. */
void exporter_respond_bytes(struct exporter_request *request, unsigned status,
                            const char *content_type, const char *bytes, size_t length);

/* Defers the request. Give the result to the client as context, with exporter_pending_call_done as
 * the function; `respond` is then called with what the client answered, if the request still waits,
 * unless that was an error, which is answered here. NULL: out of memory, and that is answered. */
struct exporter_pending_call;
struct exporter_pending_call *exporter_pending_call_start(
    struct exporter_request *request,
    void (*respond)(struct exporter_request *request, const struct handoff_result *result));
/* The same for what the client only has to read: a client that has closed its sending side is
 * answered, too. */
struct exporter_pending_call *exporter_pending_call_start_read(
    struct exporter_request *request,
    void (*respond)(struct exporter_request *request, const struct handoff_result *result));
/* Of a call that is not done yet: what to do when the request is cancelled. */
void exporter_pending_call_on_cancel(struct exporter_pending_call *pending,
                                     void (*cancel)(void *arg), void *arg);
void exporter_pending_call_done(void *context, const struct handoff_result *result);

#endif
