/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lenient.h - a request of a newer sender, without the fields that this version does not know.
 *
 * A sender that prefers lenient handling (RFC 7240) has unknown fields ignored, and is told which.
 * They are taken out of the document before anything judges it, so that all checks stay as strict
 * as ever. Open objects keep what they carry. A misspelt name of a field that must not be lost in
 * silence (`vital`) is not taken for a newer field: it is left in, and rejected.
 *
 * Pure; any thread.
 */
#ifndef HANDOFF_MODEL_LENIENT_H
#define HANDOFF_MODEL_LENIENT_H

#include <yyjson.h>

#include "client/model/field.h"

/* What was ignored; zeroed before the first use. */
struct handoff_ignored {
    yyjson_mut_doc *doc; /* NULL: nothing so far */
    size_t count;
    char *text; /* see handoff_ignored_text */
};

/* Replaces a document by one without unknown fields; one that has none stays as it is. `batch`: it
 * may be {"items": [documents]} as well. Keys are there once, which the caller has checked. Fails
 * with out_of_memory alone. */
enum handoff_code handoff_ignore_unknown(const struct handoff_fields *fields, bool batch,
                                         yyjson_doc **doc, struct handoff_ignored *ignored,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* [{"field", "detail"}] in ASCII, so that a header can carry it; lent until it is freed. Absent:
 * nothing was ignored, or out of memory. */
struct base_span handoff_ignored_text(struct handoff_ignored *ignored);
void handoff_ignored_free(struct handoff_ignored *ignored);

#endif
