/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical JSON, see canonical.h. Pure; any thread. */
#include "lib/base/canonical.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

/* ---- numbers -------------------------------------------------------------------------------- */

enum { EXPONENT_DIGITS = 15 }; /* of one that is read; a longer one stays as it was written */

struct number {
    bool negative;
    struct base_span whole, fraction; /* digits */
    struct base_span exponent;        /* digits with their sign; empty: none */
};

static size_t digits_at(const char *text, size_t size)
{
    size_t n = 0;
    while (n < size && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* The text is a number of JSON. */
static struct number split_number(const char *text, size_t size)
{
    struct number number = {.negative = text[0] == '-'};
    size_t at = number.negative;
    number.whole = base_span(text + at, digits_at(text + at, size - at));
    at += number.whole.size;
    number.fraction = number.exponent = base_span(text + at, 0);
    if (at < size && text[at] == '.') {
        number.fraction = base_span(text + at + 1, digits_at(text + at + 1, size - at - 1));
        at += 1 + number.fraction.size;
    }
    if (at < size) /* an e, in either case */
        number.exponent = base_span(text + at + 1, size - at - 1);
    return number;
}

static int64_t exponent_of(struct base_span text)
{
    int64_t exponent = 0;
    const bool negative = text.size > 0 && text.data[0] == '-';
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] >= '0' && text.data[i] <= '9')
            exponent = exponent * 10 + (text.data[i] - '0');
    }
    return negative ? -exponent : exponent;
}

/* Digits without zeros at either end, and the power of ten of the last of them. */
static void write_digits(struct base_buffer *out, const struct number *number, int64_t exponent)
{
    const size_t before = out->size;
    base_buffer_append(out, number->whole.data, number->whole.size);
    base_buffer_append(out, number->fraction.data, number->fraction.size);
    if (out->failed)
        return;
    exponent -= (int64_t)number->fraction.size;
    size_t zeros = 0;
    while (before + zeros < out->size && out->data[before + zeros] == '0')
        zeros++;
    memmove(out->data + before, out->data + before + zeros, out->size - before - zeros);
    out->size -= zeros;
    while (out->size > before && out->data[out->size - 1] == '0') {
        out->size--;
        exponent++;
    }
    out->data[out->size] = '\0';
    if (out->size == before)
        base_buffer_byte(out, '0');
    else if (exponent != 0)
        base_buffer_printf(out, "e%lld", (long long)exponent);
}

static bool has_only_zeros(struct base_span digits)
{
    size_t zeros = 0;
    while (zeros < digits.size && digits.data[zeros] == '0')
        zeros++;
    return zeros == digits.size;
}

static void write_number(struct base_buffer *out, struct base_span text)
{
    const struct number number = split_number(text.data, text.size);
    if (number.exponent.size > EXPONENT_DIGITS) {
        base_buffer_append(out, text.data, text.size);
        return;
    }
    if (number.negative && !(has_only_zeros(number.whole) && has_only_zeros(number.fraction)))
        base_buffer_byte(out, '-');
    write_digits(out, &number, exponent_of(number.exponent));
}

/* ---- objects -------------------------------------------------------------------------------- */

enum { MEMBERS_ON_STACK = 32 };

static int compare_keys(const void *one, const void *other)
{
    yyjson_val *a = *(yyjson_val *const *)one, *b = *(yyjson_val *const *)other;
    const size_t a_size = yyjson_get_len(a), b_size = yyjson_get_len(b);
    const int order =
        memcmp(yyjson_get_str(a), yyjson_get_str(b), a_size < b_size ? a_size : b_size);
    if (order != 0)
        return order;
    if (a_size != b_size)
        return a_size < b_size ? -1 : 1;
    return a < b ? -1 : a > b; /* the same key twice: in the order of the text */
}

static void write_in_order(struct base_buffer *out, yyjson_val **keys, size_t count)
{
    qsort(keys, count, sizeof *keys, compare_keys);
    base_buffer_byte(out, '{');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            base_buffer_byte(out, ',');
        base_json_write_string(out, base_json_span(keys[i]));
        base_buffer_byte(out, ':');
        base_json_canonical(out, unsafe_yyjson_get_next(keys[i]));
    }
    base_buffer_byte(out, '}');
}

static void write_sorted(struct base_buffer *out, yyjson_val *object, bool without_nulls)
{
    yyjson_val *few[MEMBERS_ON_STACK], **keys = few, *key, *value;
    const size_t most = yyjson_obj_size(object);
    size_t i, n, count = 0;
    if (most > MEMBERS_ON_STACK)
        keys = base_malloc(most * sizeof *keys);
    if (!keys) {
        out->failed = true;
        return;
    }
    yyjson_obj_foreach(object, i, n, key, value)
    {
        if (!(without_nulls && yyjson_is_null(value)))
            keys[count++] = key;
    }
    write_in_order(out, keys, count);
    if (keys != few)
        base_free(keys);
}

/* ---- values --------------------------------------------------------------------------------- */

static void write_elements(struct base_buffer *out, yyjson_val *array)
{
    size_t i, n;
    yyjson_val *item;
    base_buffer_byte(out, '[');
    yyjson_arr_foreach(array, i, n, item)
    {
        if (i > 0)
            base_buffer_byte(out, ',');
        base_json_canonical(out, item);
    }
    base_buffer_byte(out, ']');
}

void base_json_canonical(struct base_buffer *out, yyjson_val *value)
{
    if (yyjson_is_obj(value))
        write_sorted(out, value, false);
    else if (yyjson_is_arr(value))
        write_elements(out, value);
    else if (yyjson_is_raw(value))
        write_number(out, base_span(yyjson_get_raw(value), yyjson_get_len(value)));
    else
        base_json_write(out, value);
}

void base_json_canonical_request(struct base_buffer *out, yyjson_val *value)
{
    if (yyjson_is_obj(value))
        write_sorted(out, value, true);
    else
        base_json_canonical(out, value);
}
