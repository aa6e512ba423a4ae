/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - reading untrusted JSON within bounds, and writing compact JSON in one fixed way.
 *
 * Numbers are read as their text and written back as that text: 1.10 stays 1.10 and a 30-digit
 * number keeps its digits, since constraints have to pass through a chain unchanged. Strings are
 * escaped as JavaScript's JSON.stringify and Python's json.dumps(ensure_ascii=False) do it (only
 * the quote, the backslash and controls; \u00XX in lower case), so that anyone can rebuild the
 * bytes that a digest covers. Text that is not UTF-8 is refused: JSON has no other encoding.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"

enum {
    BASE_JSON_DEPTH_MAX = 64, /* nesting; deeper has no use and would cost stack */
    BASE_JSON_KEYS_MAX = 256, /* of one object; looking for a key twice is quadratic in it */
};

/* Reads one JSON document; `what` names it in errors. The document is the caller's:
 * yyjson_doc_free. */
enum handoff_code base_json_read(struct base_span text, const char *what, yyjson_doc **doc,
                                 struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The same in an arena, or without one where that is NULL. Freeing the document is then harmless,
 * and of no use. */
enum handoff_code base_json_read_in(struct base_arena *arena, struct base_span text,
                                    const char *what, yyjson_doc **doc,
                                    struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The same with a depth other than BASE_JSON_DEPTH_MAX. */
enum handoff_code base_json_read_deep(struct base_arena *arena, struct base_span text,
                                      const char *what, unsigned depth, yyjson_doc **doc,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Whether every object inside has at most BASE_JSON_KEYS_MAX keys and none of them twice; else
 * `key` is set to the offending one. */
bool base_json_keys_are_plain(yyjson_val *value, const char **key);

/* Compact. The buffer remembers a failed allocation; check it once at the end. */
void base_json_write(struct base_buffer *out, yyjson_val *value);
/* The same for an object that may be absent, NULL: {}. */
void base_json_write_object(struct base_buffer *out, yyjson_val *object);
void base_json_write_string(struct base_buffer *out, struct base_span text);

/* `"key":` with a comma before it unless the buffer ends in an opening bracket. */
void base_json_write_key(struct base_buffer *out, struct base_span key);

/* The same for a name of ours, which has nothing to escape. Inline, since its length is then known
 * to the compiler. */
static inline void base_json_write_name(struct base_buffer *out, const char *name)
{
    char before = out->size ? out->data[out->size - 1] : '{';
    base_buffer_text(out, before != '{' && before != '[' ? ",\"" : "\"");
    base_buffer_text(out, name);
    base_buffer_text(out, "\":");
}

/* A string's text, lent by its document; absent where the value is no string. */
static inline struct base_span base_json_span(yyjson_val *value)
{
    const char *text = yyjson_get_str(value); /* an array has a length too */
    return base_span(text, text ? yyjson_get_len(value) : 0);
}

/* A number, read from its text. False where the value is not a number, or is no whole number in
 * the range of the answer. */
bool base_json_whole(yyjson_val *value, int64_t *answer);
bool base_json_double(yyjson_val *value, double *answer);
/* Whether both are numbers; the order is -1 where the first is the smaller one, 0 or 1. */
bool base_json_compare_numbers(yyjson_val *one, yyjson_val *other, int *order);
/* RFC 3339 text as milliseconds of the wall clock. */
bool base_json_time(yyjson_val *value, int64_t *answer);

/* Equal as JSON values: the order of keys does not matter, and numbers are equal by value. */
bool base_json_equal(yyjson_val *one, yyjson_val *other);

#endif
