/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h - text with a length, lent by whoever owns the bytes.
 *
 * Text from agents may contain NUL, and copying it to terminate it would cost a copy; so it travels
 * as pointer and length. A span with data NULL means "absent", which is not the same as empty.
 */
#ifndef HANDOFF_BASE_SPAN_H
#define HANDOFF_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct handoff_span {
    const char *data;
    size_t size;
};

static inline struct handoff_span handoff_span(const char *data, size_t size)
{
    return (struct handoff_span){data, size};
}

static inline struct handoff_span handoff_span_text(const char *text)
{
    return (struct handoff_span){text, text ? strlen(text) : 0};
}

static inline bool handoff_span_equal(struct handoff_span a, struct handoff_span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

#endif
