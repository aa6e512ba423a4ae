/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of json.h. yyjson reads; writing is ours, because the bytes are hashed and counted. Any
 * thread. */
#include "lib/base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/block.h"
#include "lib/base/memory.h"
#include "lib/base/rfc3339.h"

/* yyjson reads without recursion, so what is deep costs it no stack and may be judged afterwards;
 * everything later walks the values by recursion. `levels` of containers may be there. */
static bool is_within(yyjson_val *value, unsigned levels)
{
    size_t i, n;
    yyjson_val *key, *item;
    if (levels == 0)
        return false;
    if (yyjson_is_arr(value)) {
        yyjson_arr_foreach(value, i, n, item)
        {
            if (yyjson_is_ctn(item) && !is_within(item, levels - 1))
                return false;
        }
    } else {
        yyjson_obj_foreach(value, i, n, key, item)
        {
            if (yyjson_is_ctn(item) && !is_within(item, levels - 1))
                return false;
        }
    }
    return true;
}

/* yyjson's memory: an arena's, which is given as the context, or the client's. */
static void *alc_malloc(void *arena, size_t size)
{
    return arena ? base_arena_alloc(arena, size) : base_malloc(size);
}

static void *alc_realloc(void *arena, void *pointer, size_t old_size, size_t size)
{
    return arena ? base_arena_resize(arena, pointer, old_size, size) : base_realloc(pointer, size);
}

static void alc_free(void *arena, void *pointer)
{
    if (!arena)
        base_free(pointer);
}

static enum handoff_code read_within(struct base_arena *arena, struct base_span text,
                                     const char *what, unsigned most, yyjson_doc **doc,
                                     struct handoff_error *error)
{
    const yyjson_alc allocator = {alc_malloc, alc_realloc, alc_free, arena};
    enum handoff_code code = HANDOFF_ERR_INVALID_JSON;
    yyjson_read_err at;
    /* Without YYJSON_READ_INSITU yyjson copies the text and does not write into it. */
    *doc = yyjson_read_opts((char *)(uintptr_t)text.data, text.size, YYJSON_READ_NUMBER_AS_RAW,
                            &allocator, &at);
    yyjson_val *root = yyjson_doc_get_root(*doc);
    if (yyjson_is_ctn(root) && !is_within(root, most)) {
        yyjson_doc_free(*doc);
        *doc = NULL;
        handoff_error_set(error, code, "the JSON is nested too deep", what, NULL);
        handoff_error_allow(error, "%u levels", most);
        return code;
    }
    if (*doc)
        return HANDOFF_OK;
    if (at.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return handoff_error_no_memory(error);
    handoff_error_set(error, code, text.size ? "the text is not JSON" : "it is empty", what, NULL);
    if (text.size == 0) {
        handoff_error_allow(error, "a JSON object");
        return code;
    }
    handoff_error_seen(error, "%s at byte %zu", at.msg, at.pos);
    return code;
}

enum handoff_code base_json_read(struct base_span text, const char *what, yyjson_doc **doc,
                                 struct handoff_error *error)
{
    return read_within(NULL, text, what, BASE_JSON_DEPTH_MAX, doc, error);
}

enum handoff_code base_json_read_in(struct base_arena *arena, struct base_span text,
                                    const char *what, yyjson_doc **doc, struct handoff_error *error)
{
    return read_within(arena, text, what, BASE_JSON_DEPTH_MAX, doc, error);
}

enum handoff_code base_json_read_deep(struct base_arena *arena, struct base_span text,
                                      const char *what, unsigned depth, yyjson_doc **doc,
                                      struct handoff_error *error)
{
    return read_within(arena, text, what, depth, doc, error);
}

static bool object_keys_are_plain(yyjson_val *object, const char **bad)
{
    yyjson_val *keys[BASE_JSON_KEYS_MAX];
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        *bad = yyjson_get_str(key);
        if (i == BASE_JSON_KEYS_MAX)
            return false;
        for (size_t k = 0; k < i; k++) {
            if (yyjson_get_len(keys[k]) == yyjson_get_len(key) &&
                memcmp(yyjson_get_str(keys[k]), *bad, yyjson_get_len(key)) == 0)
                return false;
        }
        keys[i] = key;
    }
    return true;
}

bool base_json_keys_are_plain(yyjson_val *value, const char **bad)
{
    size_t i, n;
    yyjson_val *key, *item;
    if (yyjson_is_arr(value)) {
        yyjson_arr_foreach(value, i, n, item)
        {
            if (!base_json_keys_are_plain(item, bad))
                return false;
        }
    } else if (yyjson_is_obj(value)) {
        if (!object_keys_are_plain(value, bad))
            return false;
        yyjson_obj_foreach(value, i, n, key, item)
        {
            if (!base_json_keys_are_plain(item, bad))
                return false;
        }
    }
    return true;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Whether none of the bytes is a quote, a backslash or a control character. */
static bool is_plain_block(const char *text)
{
    const base_block bytes = base_block_load(text);
    return base_block_is_zero((base_block)(bytes == '"') | (base_block)(bytes == '\\') |
                              (base_block)(bytes < 0x20));
}

/* How many bytes from here on stand for themselves in a string. Nearly all text does, from its
 * first byte to its last: so its last bytes are looked at together too, with some for the second
 * time. */
static size_t plain_run(const char *text, size_t size)
{
    enum { BLOCK = sizeof(base_block) };
    size_t at = 0;
    while (at + BLOCK <= size && is_plain_block(text + at))
        at += BLOCK;
    if (size >= BLOCK && at + BLOCK > size && is_plain_block(text + size - BLOCK))
        return size;
    while (at < size && text[at] != '"' && text[at] != '\\' && (unsigned char)text[at] >= 0x20)
        at++;
    return at;
}

/* The letter behind the backslash; 'u' for the long form. */
static char escape_of(unsigned char c)
{
    switch (c) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 'u';
    }
}

static void write_escape(struct base_buffer *out, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    const char letter = escape_of(c);
    if (letter == 'u') {
        char text[6] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
        base_buffer_append(out, text, sizeof(text));
    } else {
        char text[2] = {'\\', letter};
        base_buffer_append(out, text, sizeof(text));
    }
}

/* From the first byte on that has to be escaped. */
static void write_escaped(struct base_buffer *out, struct base_span text)
{
    for (size_t at = 0; at < text.size; at++) {
        write_escape(out, (unsigned char)text.data[at]);
        size_t plain = plain_run(text.data + at + 1, text.size - at - 1);
        base_buffer_append(out, text.data + at + 1, plain);
        at += plain;
    }
    base_buffer_byte(out, '"');
}

void base_json_write_string(struct base_buffer *out, struct base_span text)
{
    const size_t plain = plain_run(text.data, text.size);
    char *to = base_buffer_reserve(out, text.size + 2);
    if (!to)
        return;
    to[0] = '"';
    if (plain > 0)
        memcpy(to + 1, text.data, plain);
    to[plain + 1] = '"';
    base_buffer_grow(out, plain + 1 + (plain == text.size));
    if (plain < text.size)
        write_escaped(out, base_span(text.data + plain, text.size - plain));
}

void base_json_write_key(struct base_buffer *out, struct base_span key)
{
    char before = out->size ? out->data[out->size - 1] : '{';
    if (before != '{' && before != '[')
        base_buffer_byte(out, ',');
    base_json_write_string(out, key);
    base_buffer_byte(out, ':');
}

static void write_array(struct base_buffer *out, yyjson_val *array)
{
    size_t i, n;
    yyjson_val *item;
    base_buffer_byte(out, '[');
    yyjson_arr_foreach(array, i, n, item)
    {
        if (i)
            base_buffer_byte(out, ',');
        base_json_write(out, item);
    }
    base_buffer_byte(out, ']');
}

static void write_object(struct base_buffer *out, yyjson_val *object)
{
    size_t i, n;
    yyjson_val *key, *value;
    base_buffer_byte(out, '{');
    yyjson_obj_foreach(object, i, n, key, value)
    {
        if (i)
            base_buffer_byte(out, ',');
        base_json_write(out, key);
        base_buffer_byte(out, ':');
        base_json_write(out, value);
    }
    base_buffer_byte(out, '}');
}

void base_json_write(struct base_buffer *out, yyjson_val *value)
{
    switch (yyjson_get_type(value)) {
    case YYJSON_TYPE_OBJ:
        write_object(out, value);
        break;
    case YYJSON_TYPE_ARR:
        write_array(out, value);
        break;
    case YYJSON_TYPE_STR:
        base_json_write_string(out, base_json_span(value));
        break;
    case YYJSON_TYPE_RAW:
        base_buffer_append(out, yyjson_get_raw(value), yyjson_get_len(value));
        break;
    case YYJSON_TYPE_BOOL:
        base_buffer_text(out, yyjson_is_true(value) ? "true" : "false");
        break;
    default:
        base_buffer_text(out, "null");
        break;
    }
}

void base_json_write_object(struct base_buffer *out, yyjson_val *object)
{
    if (object)
        base_json_write(out, object);
    else
        base_buffer_text(out, "{}");
}

/* ---- numbers and equality ------------------------------------------------------------------ */

enum { NUMBER_MAX = 63 }; /* characters of a number whose value is asked for */

static bool number_text(yyjson_val *value, char text[NUMBER_MAX + 1])
{
    size_t length = yyjson_get_len(value);
    if (!yyjson_is_raw(value) || length > NUMBER_MAX)
        return false;
    memcpy(text, yyjson_get_raw(value), length);
    text[length] = '\0';
    return true;
}

bool base_json_whole(yyjson_val *value, int64_t *answer)
{
    char text[NUMBER_MAX + 1], *end;
    if (!number_text(value, text))
        return false;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*end != '\0' || errno == ERANGE)
        return false;
    *answer = number;
    return true;
}

/* yyjson reads the text again: unlike strtod it does not follow the host's locale. */
bool base_json_double(yyjson_val *value, double *answer)
{
    char text[NUMBER_MAX + 1];
    yyjson_val number;
    if (!number_text(value, text) || !yyjson_read_number(text, &number, 0, NULL, NULL))
        return false;
    *answer = yyjson_get_num(&number);
    return true;
}

bool base_json_time(yyjson_val *value, int64_t *answer)
{
    return yyjson_is_str(value) &&
           base_rfc3339_parse(yyjson_get_str(value), yyjson_get_len(value), answer);
}

/* Not all large whole numbers are doubles. */
static bool compare_whole(yyjson_val *one, yyjson_val *other, int *order)
{
    int64_t a, b;
    if (!base_json_whole(one, &a) || !base_json_whole(other, &b))
        return false;
    *order = (a > b) - (a < b);
    return true;
}

bool base_json_compare_numbers(yyjson_val *one, yyjson_val *other, int *order)
{
    double a, b;
    if (compare_whole(one, other, order))
        return true;
    if (!base_json_double(one, &a) || !base_json_double(other, &b))
        return false;
    *order = (a > b) - (a < b);
    return true;
}

static bool numbers_equal(yyjson_val *one, yyjson_val *other)
{
    size_t length = yyjson_get_len(one);
    int order;
    return (length == yyjson_get_len(other) &&
            memcmp(yyjson_get_raw(one), yyjson_get_raw(other), length) == 0) ||
           (base_json_compare_numbers(one, other, &order) && order == 0);
}

static bool arrays_equal(yyjson_val *one, yyjson_val *other)
{
    size_t i, n;
    yyjson_val *item, *twin = yyjson_arr_get_first(other);
    if (yyjson_arr_size(one) != yyjson_arr_size(other))
        return false;
    yyjson_arr_foreach(one, i, n, item)
    {
        if (!base_json_equal(item, twin))
            return false;
        twin = unsafe_yyjson_get_next(twin);
    }
    return true;
}

static bool objects_equal(yyjson_val *one, yyjson_val *other)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (yyjson_obj_size(one) != yyjson_obj_size(other))
        return false;
    yyjson_obj_foreach(one, i, n, key, value)
    {
        yyjson_val *twin = yyjson_obj_getn(other, yyjson_get_str(key), yyjson_get_len(key));
        if (!twin || !base_json_equal(value, twin))
            return false;
    }
    return true;
}

bool base_json_equal(yyjson_val *one, yyjson_val *other)
{
    if (yyjson_get_type(one) != yyjson_get_type(other))
        return false;
    switch (yyjson_get_type(one)) {
    case YYJSON_TYPE_OBJ:
        return objects_equal(one, other);
    case YYJSON_TYPE_ARR:
        return arrays_equal(one, other);
    case YYJSON_TYPE_STR:
        return yyjson_equals_strn(one, yyjson_get_str(other), yyjson_get_len(other));
    case YYJSON_TYPE_RAW:
        return numbers_equal(one, other);
    case YYJSON_TYPE_BOOL:
        return yyjson_is_true(one) == yyjson_is_true(other);
    default:
        return true;
    }
}
