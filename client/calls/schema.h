/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - JSON Schema 2020-12, written from rows of fields.
 *
 * Objects that have a name may be written in place, or be referred to and collected, as OpenAPI
 * wants them. Lengths of text are bytes in the rows and characters in JSON Schema, which a byte
 * limit is never below: a schema accepts everything that the daemon does, and is a little wider.
 *
 * Pure; any thread. The buffer remembers a failed allocation.
 */
#ifndef HANDOFF_CALLS_SCHEMA_H
#define HANDOFF_CALLS_SCHEMA_H

#include "client/calls/call.h"
#include "lib/base/buffer.h"

enum { HANDOFF_SCHEMA_NAMED_MAX = 48 };

struct handoff_schema {
    struct base_buffer *out;
    const char *refs; /* "#/components/schemas/", or NULL: everything is written in place */
    const struct handoff_fields *named[HANDOFF_SCHEMA_NAMED_MAX]; /* referred to so far */
    size_t nnamed;
};

/* A reference to a named object where there are references, else the object. */
void handoff_schema_write(struct handoff_schema *schema, const struct handoff_fields *fields);
/* The object itself, also where it has a name. */
void handoff_schema_write_object(struct handoff_schema *schema,
                                 const struct handoff_fields *fields);
void handoff_schema_write_field(struct handoff_schema *schema, const struct handoff_field *field);
/* The body of a call that has one. */
void handoff_schema_write_body(struct handoff_schema *schema, const struct handoff_call *call);
/* Whether a call has a body that a schema describes. */
bool handoff_call_has_body(const struct handoff_call *call);

#endif
