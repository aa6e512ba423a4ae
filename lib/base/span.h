/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h - text with a length, lent by whoever owns the bytes.
 *
 * Text from agents may contain NUL, and copying it to terminate it would cost a copy; so it travels
 * as pointer and length. A span with data NULL means "absent", which is not the same as empty.
 */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct base_span {
    const char *data;
    size_t size;
};

static inline struct base_span base_span(const char *data, size_t size)
{
    return (struct base_span){data, size};
}

static inline struct base_span base_span_text(const char *text)
{
    return (struct base_span){text, text ? strlen(text) : 0};
}

static inline bool base_span_equal(struct base_span a, struct base_span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

#endif
