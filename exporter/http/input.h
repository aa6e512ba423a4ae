/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h - the inputs of a call, out of the path, the query and a small body, checked against the
 * rows of the call (client/calls/call.h) before its handler runs.
 *
 * On the loop of the request.
 */
#ifndef EXPORTER_HTTP_INPUT_H
#define EXPORTER_HTTP_INPUT_H

#include <yyjson.h>

#include "client/calls/call.h"
#include "exporter/http/http.h"

struct exporter_input {
    struct handoff_call_input values;
    yyjson_doc *doc; /* owns the text of the body; NULL: the call has none */
};

/* False: an input is wrong, and that is answered. True: to be closed when the handler has returned.
 */
bool exporter_input_open(struct exporter_request *request, const struct handoff_call *call,
                         struct exporter_input *input);
void exporter_input_close(struct exporter_input *input);

#endif
