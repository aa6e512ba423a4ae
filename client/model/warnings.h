/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warnings.h - what an answer tells a sender beside the result: a list of fields, and what became
 * of each. It is bounded and in ASCII, so that a header can carry it.
 *
 * Of one request, and of the thread that has it.
 */
#ifndef HANDOFF_MODEL_WARNINGS_H
#define HANDOFF_MODEL_WARNINGS_H

#include <yyjson.h>

#include "lib/base/span.h"

enum { HANDOFF_WARNINGS_MAX = 20 }; /* then one more says how many there were beyond these */

/* Zeroed before the first warning. */
struct handoff_warnings {
    yyjson_mut_doc *doc; /* NULL: nothing so far */
    size_t count;
    char *text; /* see handoff_warnings_text */
};

/* Copies both texts; "" for no field. False: out of memory. */
bool handoff_warn(struct handoff_warnings *warnings, const char *field, const char *detail);

/* [{"field", "detail"}], lent until they are freed. Absent: there are none, or out of memory. */
struct base_span handoff_warnings_text(struct handoff_warnings *warnings);
void handoff_warnings_free(struct handoff_warnings *warnings);

#endif
