/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redact.h - what is done about credentials in what others send: a marker takes their place, such
 * as
 * "[redacted: github token]", or the request is rejected (find.h, forms.def).
 *
 * A request or a memory is searched as soon as it is parsed, before anything reads it: so what is
 * stored, hashed, logged, counted or said in an error is the marker. Whoever keeps a request writes
 * it from the document, never from the bytes that were received.
 *
 * Any thread; a struct belongs to one request.
 */
#ifndef HANDOFF_SECRETS_REDACT_H
#define HANDOFF_SECRETS_REDACT_H

#include <stdint.h>
#include <yyjson.h>

#include "client/model/field.h"
#include "client/model/handoff_model.h"
#include "client/model/warnings.h"
#include "lib/base/arena.h"
#include "lib/base/error.h"

enum { HANDOFF_SECRET_FIELDS = 8, HANDOFF_SECRET_FIELD_SIZE = 32 };

/* What was found in one request or memory. The first two are the caller's to set. */
struct handoff_secrets {
    enum handoff_secret_policy policy;
    struct base_arena *arena; /* for texts with markers */

    uint16_t found[HANDOFF_SECRET_COUNT][HANDOFF_SECRET_PLACE_COUNT];
    size_t total;
    /* the first of them by field of the request, each with one kind once */
    struct handoff_secret_in_field {
        char field[HANDOFF_SECRET_FIELD_SIZE]; /* "state" */
        enum handoff_secret kind;
    } fields[HANDOFF_SECRET_FIELDS];
    size_t nfields;
};

/* Searches a document with these fields, and changes it. secret_in_request: the policy is to
 * refuse, or the credential is in an id or a name, which no marker can stand for. out_of_memory. */
enum handoff_code handoff_secrets_in_document(struct handoff_secrets *secrets,
                                              const struct handoff_fields *fields,
                                              enum handoff_secret_place place, yyjson_doc *doc,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The same for a text that a request carries besides its body, and that identifies something; no
 * marker can stand for it. */
enum handoff_code handoff_secrets_in_id(struct handoff_secrets *secrets, const char *field,
                                        enum handoff_secret_place place, struct base_span text,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Tells the sender which fields have markers now. */
void handoff_secrets_warn(const struct handoff_secrets *secrets, struct handoff_warnings *warnings);

/* Kinds, one bit each. */
typedef uint32_t handoff_secret_set;

/* Copies a reason that somebody gave, with markers, and cut to fit at a character; `to` has room
 * for `size` bytes with the NUL. Returns what was found. Reasons go into logs, so this does not
 * depend on the policy. */
handoff_secret_set handoff_secrets_cut(char *to, size_t size, const char *text, size_t length);

#endif
