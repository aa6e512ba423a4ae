/* SPDX-License-Identifier: Apache-2.0 */
/*
 * field.h - what the members of a JSON object, or the parameters of a call, may be.
 *
 * A field is one row: its name, its type and bounds, where its value is stored, a line of
 * documentation and an example. One function judges values against rows; the JSON Schemas, the
 * OpenAPI document and the reference in docs/api.md are written from the same rows (schema.h).
 *
 * A field that no row declares is rejected with the nearest name: a misspelt constraint would
 * otherwise be lost in silence. null counts as absent. Text that is stored is lent by the document
 * that it comes from.
 *
 * Pure; any thread.
 */
#ifndef HANDOFF_MODEL_FIELD_H
#define HANDOFF_MODEL_FIELD_H

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "lib/base/error.h"
#include "lib/base/span.h"

/* The type, and what is stored for it. Lengths are from `least` to `most` bytes. */
enum handoff_field_type {
    HANDOFF_FIELD_TEXT, /* struct base_span */
    HANDOFF_FIELD_ID,   /* struct base_span, no control characters: it goes into logs and URLs */
    HANDOFF_FIELD_NAME, /* struct base_span, the characters of an agent's name */
    HANDOFF_FIELD_UUID, /* struct base_span */
    HANDOFF_FIELD_TRACE_ID,    /* struct base_span, as W3C Trace Context has it */
    HANDOFF_FIELD_STRING,      /* const char *, no NUL inside */
    HANDOFF_FIELD_WORD,        /* int: the index in `words` */
    HANDOFF_FIELD_BOOL,        /* bool */
    HANDOFF_FIELD_WHOLE,       /* int64_t, from `least` to `most` */
    HANDOFF_FIELD_NUMBER,      /* double, from `least` to `most` */
    HANDOFF_FIELD_TIME,        /* int64_t: RFC 3339 as milliseconds of the wall clock */
    HANDOFF_FIELD_DURATION,    /* int64_t: "20s" as milliseconds, from `least` to `most` */
    HANDOFF_FIELD_ARRAY,       /* yyjson_val *, up to `most` entries of the kind `item` */
    HANDOFF_FIELD_ONE_OR_MANY, /* yyjson_val *: a value of the kind `item`, or up to `most` */
    HANDOFF_FIELD_OBJECT,      /* yyjson_val *; with closed `members`, the struct that they fill */
    HANDOFF_FIELD_ANY,         /* nothing: it may be there, and is not looked at */
};

/* Where a call over HTTP carries it. What other bindings make of a call is one flat object. */
enum handoff_field_place {
    HANDOFF_IN_BODY,
    HANDOFF_IN_PATH,
    HANDOFF_IN_QUERY,
    HANDOFF_IN_HEADER, /* read by the call itself */
};

struct handoff_field;
struct handoff_fields;

/* Judges a value and stores it at `at`. On failure the error names the field, what was seen and
 * what is allowed. */
typedef enum handoff_code handoff_field_check(const struct handoff_field *field, yyjson_val *value,
                                              void *at, struct handoff_error *error);

struct handoff_field {
    const char *name;
    enum handoff_field_type type;
    enum handoff_field_place place;
    bool required;
    bool nullable; /* of an answer: it may be null */
    bool fixed;    /* says which handoff it is, so an edit cannot change it */
    bool vital;    /* a misspelling of it is rejected even where unknown fields are ignored */
    size_t offset; /* in the struct that is filled: where the value goes */
    int64_t least, most;
    const char *const *words; /* WORD: up to NULL */
    const struct handoff_fields *members;
    const struct handoff_field *item;
    handoff_field_check *check; /* judges instead of the type's own check; NULL: that one does */
    const char *fallback;       /* what an absent one stands for, as JSON; NULL: nothing */
    const char *doc;
    const char *example; /* as JSON */
};

/* The members of one kind of object. */
struct handoff_fields {
    const struct handoff_field *rows;
    size_t count;
    const char *name; /* of its schema, "HandoffRequest"; NULL: it is written where it is used */
    const char *doc;
    const char *known; /* where its fields are listed, for errors; NULL: the error lists them */
    bool open;         /* may have other members, which are carried along */
    bool edit;         /* without the fixed ones, and nothing is required */
};

#define HANDOFF_FIELDS_COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Reads the members of a closed object into a struct. Keys that are there twice are for the caller
 * to reject. */
enum handoff_code handoff_fields_read(const struct handoff_fields *fields, yyjson_val *object,
                                      void *into, struct handoff_error *error) HANDOFF_MUST_CHECK;
/* The same where nothing is given, not even an empty object. */
enum handoff_code handoff_fields_read_none(const struct handoff_fields *fields,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Judges the members of an open object that have a row; nothing is stored. `parent` is the name of
 * the object: errors speak of "parent.member". */
enum handoff_code handoff_fields_check_open(const struct handoff_fields *fields, yyjson_val *object,
                                            const char *parent,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Of an open object: rejects a member whose name is a slip of a row's, unless that row's is there
 * too. What it carries would otherwise be passed on as if it were unknown. */
enum handoff_code handoff_fields_refuse_slips(const struct handoff_fields *fields,
                                              yyjson_val *object, const char *parent,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* One value, stored at `into` + offset. */
enum handoff_code handoff_field_read(const struct handoff_field *field, yyjson_val *value,
                                     void *into, struct handoff_error *error) HANDOFF_MUST_CHECK;
/* The same for a value that comes as text: a number as "7", a boolean as "true". */
enum handoff_code handoff_field_read_text(const struct handoff_field *field, const char *text,
                                          void *into,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Checks of types, for checks that add something to one. */
handoff_field_check handoff_field_check_word;
handoff_field_check handoff_field_check_array; /* not its entries */
handoff_field_check handoff_field_check_object;

/* ---- errors --------------------------------------------------------------------------------- */

/* invalid_request; `seen` may be NULL. */
enum handoff_code handoff_field_refuse(struct handoff_error *error, const char *message,
                                       const char *name, yyjson_val *seen);
/* The same for a wrong type; `type` is the right one: "a string". */
enum handoff_code handoff_field_refuse_type(struct handoff_error *error, const char *name,
                                            yyjson_val *seen, const char *type);
/* A required field is absent. */
enum handoff_code handoff_field_refuse_missing(struct handoff_error *error,
                                               const struct handoff_field *field);
/* No row of that place has this name. */
enum handoff_code handoff_fields_refuse_unknown(const struct handoff_fields *fields,
                                                enum handoff_field_place place, const char *name,
                                                struct handoff_error *error);
/* Puts "parent." in front of the field that the error is about. Returns `code`. */
enum handoff_code handoff_field_within(const char *parent, enum handoff_code code,
                                       struct handoff_error *error);

#endif
