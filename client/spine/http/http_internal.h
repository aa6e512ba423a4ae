/* SPDX-License-Identifier: Apache-2.0 */
/* http_internal.h - what the files of the HTTP spine share. */
#ifndef HANDOFF_SPINE_HTTP_HTTP_INTERNAL_H
#define HANDOFF_SPINE_HTTP_HTTP_INTERNAL_H

#include "client/spine/http/exchange.h"
#include "client/spine/http/table.h"
#include "client/spine/spine.h"

struct handoff_http_spine {
    struct handoff_spine spine;
    struct handoff_spine_driver driver; /* has what the table has */
    struct handoff_http_table table;    /* constant */
    struct handoff_http_exchange *exchange;
    char lacks[128]; /* what the table has not, or "" */
};

struct handoff_http_spine *handoff_http_spine_of(struct handoff_spine *spine);

/* A request of this operation. */
void handoff_http_make_request(const struct handoff_http_spine *spine,
                               enum handoff_http_operation operation,
                               const struct handoff_http_values *values,
                               struct handoff_http_request *request);

/* What was answered at the row's pointer: a memory, or an array of them. NULL, with the error set:
   the server is at fault. The document is in the arena. */
yyjson_val *handoff_http_read_answer(const struct handoff_http_spine *spine,
                                     enum handoff_http_operation operation,
                                     const struct handoff_http_request *request,
                                     struct base_arena *arena, struct handoff_error *error);

enum handoff_code handoff_http_unavailable(const char *operation, const char *why,
                                           struct handoff_error *error);

enum handoff_spine_progress handoff_http_resolve(struct handoff_spine *spine,
                                                 struct handoff_spine_resolve *resolve);
enum handoff_spine_progress handoff_http_put(struct handoff_spine *spine,
                                             struct handoff_spine_put *put);
enum handoff_spine_progress handoff_http_remove(struct handoff_spine *spine,
                                                struct handoff_spine_remove *remove);

#endif
