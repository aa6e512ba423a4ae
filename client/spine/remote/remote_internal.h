/* SPDX-License-Identifier: Apache-2.0 */
/* remote_internal.h - what the files of this folder share. */
#ifndef HANDOFF_SPINE_REMOTE_REMOTE_INTERNAL_H
#define HANDOFF_SPINE_REMOTE_REMOTE_INTERNAL_H

#include <stdatomic.h>

#include "client/spine/remote/exchange.h"
#include "client/spine/remote/table.h"
#include "client/spine/remote/wire.h"
#include "client/spine/spine.h"

struct handoff_remote_spine {
    struct handoff_spine spine;
    struct handoff_spine_driver driver; /* has what the table has */
    const struct handoff_remote_wire *wire;
    struct handoff_remote_table table; /* constant */
    struct handoff_remote_exchange *exchange;
    void *session;        /* of the wire; the exchange's thread's */
    atomic_uint unusable; /* operations (1 << operation) of the table that the server cannot do */
    char lacks[128];      /* what table or server had not when it was opened, or "" */
};

struct handoff_remote_spine *handoff_remote_spine_of(struct handoff_spine *spine);

/* Whether the spine can do that. Any thread. */
bool handoff_remote_has(const struct handoff_remote_spine *spine,
                        enum handoff_remote_operation operation);

/* The operation that looks up one memory. */
enum handoff_remote_operation handoff_remote_lookup(const struct handoff_remote_spine *spine);

/* A request of this operation. */
void handoff_remote_make_request(const struct handoff_remote_spine *spine,
                                 enum handoff_remote_operation operation,
                                 const struct handoff_remote_values *values,
                                 struct handoff_remote_request *request);

/* What was answered. *values, where something is to be read, is what the row's pointer leads to: a
   memory, or an array of them; *more (or NULL) whether the answer says that there are more. Without
   values, and but for ABSENT, the error is set. Any thread. */
enum handoff_remote_verdict handoff_remote_read_answer(const struct handoff_remote_spine *spine,
                                                       enum handoff_remote_operation operation,
                                                       const struct handoff_remote_request *request,
                                                       struct base_arena *arena,
                                                       yyjson_val **values, bool *more,
                                                       struct handoff_error *error);

enum handoff_code handoff_remote_unavailable(const char *operation, const char *why,
                                             struct handoff_error *error);

/* A change that the table has and the server has not. */
enum handoff_spine_progress handoff_remote_cannot(const struct handoff_remote_spine *spine,
                                                  struct handoff_spine_call *call,
                                                  enum handoff_remote_operation operation);

/* A call that cannot be made now, since the server is left alone. */
enum handoff_spine_progress handoff_remote_left_alone(struct handoff_spine_call *call);

enum handoff_spine_progress handoff_remote_resolve(struct handoff_spine *spine,
                                                   struct handoff_spine_resolve *resolve);
enum handoff_spine_progress handoff_remote_put(struct handoff_spine *spine,
                                               struct handoff_spine_put *put);
enum handoff_spine_progress handoff_remote_remove(struct handoff_spine *spine,
                                                  struct handoff_spine_remove *remove);

#endif
