/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what one kind of remote spine has of its own: how its rows of the table are written, how
 * a row becomes a request, and what an answer says. All else is the same for every kind and is in
 * this folder. A kind is another folder with such a table of functions and a function that opens a
 * spine with it (handoff_remote_spine_open).
 */
#ifndef HANDOFF_SPINE_REMOTE_WIRE_H
#define HANDOFF_SPINE_REMOTE_WIRE_H

#include "client/spine/remote/exchange.h"
#include "client/spine/remote/table.h"

enum handoff_remote_verdict {
    HANDOFF_REMOTE_ANSWERED, /* there is a document, if there is one to be read */
    HANDOFF_REMOTE_ABSENT,   /* of `get` and `delete`: no memory has the id */
    HANDOFF_REMOTE_ODD_ID,   /* of `get`: it does not allow such an id, so no memory has it */
    HANDOFF_REMOTE_REFUSED,  /* it does not take this request, and is well */
    HANDOFF_REMOTE_FAILED,   /* there is no answer, or none that can be read */
};

struct handoff_remote_answer {
    yyjson_val *document; /* in the arena */
    char why[160];        /* where there is none */
};

struct handoff_remote_wire {
    const char *kind;   /* "http" */
    const char *accept; /* the types of answers that it reads */

    /* The keys of a row, in an array and in words; the one of the template; and the reading of
       those that are neither that nor `memories`. Any thread. */
    const char *const *row_keys;
    int row_key_count;
    const char *row_keys_text;
    const char *template_key;
    enum handoff_code (*read_row)(yyjson_val *object, const char *place,
                                  struct handoff_remote_row *row, struct handoff_error *error);

    /* Sets what the request says. Any thread. */
    void (*compose)(const struct handoff_remote_row *row,
                    const struct handoff_remote_values *values,
                    struct handoff_remote_request *request);

    /* Reads the answer. Any thread. */
    enum handoff_remote_verdict (*judge)(const struct handoff_remote_row *row,
                                         enum handoff_remote_operation operation,
                                         const struct handoff_remote_request *request,
                                         struct base_arena *arena,
                                         struct handoff_remote_answer *answer);

    /* What is said around the requests; all NULL: each stands alone. `session_lacks` has the
       operations of the table (1 << operation) that the server cannot do. */
    const struct handoff_remote_conversation *conversation;
    void *(*open_session)(const struct handoff_remote_table *table); /* NULL: out of memory */
    void (*close_session)(void *session);
    unsigned (*session_lacks)(const void *session);
};

/* Stores or deletes, so that nothing is read of its answer. */
static inline bool handoff_remote_changes(enum handoff_remote_operation operation)
{
    return operation == HANDOFF_REMOTE_PUT || operation == HANDOFF_REMOTE_DELETE;
}

#endif
