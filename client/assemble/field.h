/* SPDX-License-Identifier: Apache-2.0 */
/*
 * field.h - judging JSON objects that somebody sends, field by field.
 *
 * What an object may have is a table of rows: a name, a check that both judges the value and stores
 * it, and its bounds. A field that is not in the table is refused with the nearest name: what was
 * misspelt would otherwise be lost in silence. null counts as absent. Texts that are stored are
 * lent by the object's document.
 *
 * Pure, any thread.
 */
#ifndef HANDOFF_ASSEMBLE_FIELD_H
#define HANDOFF_ASSEMBLE_FIELD_H

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "lib/base/error.h"
#include "lib/base/span.h"

struct handoff_field {
    const char *name;
    enum handoff_code (*check)(const struct handoff_field *field, yyjson_val *value, void *at,
                               struct handoff_error *error);
    size_t offset; /* in the struct that is filled: where the value goes */
    int64_t least, most;
    const char *const *words; /* up to NULL */
};

struct handoff_fields {
    const struct handoff_field *rows;
    size_t count;
    const char *unknown; /* "a request has no such field" */
    const char *known;   /* "the fields of docs/envelope.md" */
};

/* Reads an object's members into a struct. On failure the error names the field, what was seen and
 * what is allowed. Keys that are there twice are the caller's to refuse. */
enum handoff_code handoff_fields_read(const struct handoff_fields *fields, yyjson_val *object,
                                      void *into, struct handoff_error *error) HANDOFF_MUST_CHECK;

/* ---- checks; `at` points to what the comment says ------------------------------------------- */

#define HANDOFF_FIELD_CHECK(name)                                                                  \
    enum handoff_code name(const struct handoff_field *field, yyjson_val *value, void *at,         \
                           struct handoff_error *error) HANDOFF_MUST_CHECK

/* A struct base_span, of least to most bytes: */
HANDOFF_FIELD_CHECK(handoff_field_text);
HANDOFF_FIELD_CHECK(handoff_field_id);   /* without control characters: ids go into logs and URLs */
HANDOFF_FIELD_CHECK(handoff_field_name); /* the characters of an agent's name */
HANDOFF_FIELD_CHECK(handoff_field_uuid);
/* An int64_t, or a double, from least to most. */
HANDOFF_FIELD_CHECK(handoff_field_whole);
HANDOFF_FIELD_CHECK(handoff_field_number);
HANDOFF_FIELD_CHECK(handoff_field_bool); /* a bool */
HANDOFF_FIELD_CHECK(handoff_field_word); /* an int: which of the words */

/* ---- refusals -------------------------------------------------------------------------------- */

/* invalid_request; `seen` may be NULL. */
enum handoff_code handoff_field_refuse(struct handoff_error *error, const char *message,
                                       const char *name, yyjson_val *seen);
/* The same where the type is another: "a string". */
enum handoff_code handoff_field_refuse_type(struct handoff_error *error, const char *name,
                                            yyjson_val *seen, const char *type);
/* "a, b, c" as what is allowed. */
void handoff_field_allow_words(struct handoff_error *error, const char *const *words);

#endif
