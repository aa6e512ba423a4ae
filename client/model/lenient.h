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
#include "client/model/warnings.h"

/* Replaces a document by one without unknown fields, each with a warning; one that has none stays
 * the same. `batch`: it
 * may be {"items": [documents]} as well. Keys are there once, which the caller has checked. Fails
 * with out_of_memory alone. */
enum handoff_code handoff_ignore_unknown(const struct handoff_fields *fields, bool batch,
                                         yyjson_doc **doc, struct handoff_warnings *warnings,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
