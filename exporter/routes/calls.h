/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.h - the handlers of the agent API, one for each row of client/calls/calls.def. Their
 * context is the client host.
 *
 * On the loop of the request.
 */
#ifndef EXPORTER_ROUTES_CALLS_H
#define EXPORTER_ROUTES_CALLS_H

#include "exporter/http/http.h"

#define CALL(name, ...) void exporter_call_##name(struct exporter_request *request, void *context);
#include "client/calls/calls.def"
#undef CALL

#endif
