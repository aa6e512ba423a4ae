/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h - the inputs of a call, out of the path, the query and the body, checked against the rows
 * of the call (client/calls/call.h) before its handler runs.
 *
 * On the loop of the request, but for exporter_input_read: a long body is read on a worker
 * (long_input.h).
 */
#ifndef EXPORTER_HTTP_INPUT_H
#define EXPORTER_HTTP_INPUT_H

#include <yyjson.h>

#include "client/calls/call.h"
#include "client/model/lenient.h"
#include "exporter/http/http.h"
#include "lib/base/arena.h"
#include "lib/base/buffer.h"
#include "lib/base/error.h"

struct exporter_input {
    struct handoff_call_input values;
    const struct handoff_call *call;
    struct base_span body; /* lent; absent: the call's handler reads it, if there is one */
    bool lenient;
    /* of the body */
    struct base_arena arena; /* owns all of it */
    yyjson_doc *doc;
    struct base_span document;        /* the request within it, as a text; absent: none */
    struct base_span shortened;       /* what is left without ignored fields; absent: all */
    struct handoff_warnings warnings; /* of those fields */
    struct handoff_error error;       /* what is wrong with it */
};

/* Path, query, and what body there is. False: an input is wrong, and that is answered. True: to be
 * read, accepted, and closed when the handler has returned. */
bool exporter_input_open(struct exporter_request *request, const struct handoff_call *call,
                         struct exporter_input *input);
/* Whether reading the body takes longer than a loop may. */
bool exporter_input_is_long(const struct exporter_input *input);
/* The body. Touches no request; any thread. */
void exporter_input_read(struct exporter_input *input);
/* False: the body is wrong, and that is answered. */
bool exporter_input_accept(struct exporter_request *request, struct exporter_input *input);
void exporter_input_close(struct exporter_input *input);

#endif
