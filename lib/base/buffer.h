/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.h - bytes that grow at the end.
 *
 * Appending never has to be checked: the first failure (no memory, or past the limit) sticks, later
 * appends do nothing, and the caller asks once at the end. A zeroed struct is an empty buffer.
 *
 * Appending is inline, since an envelope is written in some hundred pieces of which most are
 * literals: those become a store or two, with their lengths known to the compiler.
 */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/arena.h"
#include "lib/base/check.h"
#include "lib/base/span.h"

struct base_buffer {
    char *data; /* always followed by a NUL that does not count, once anything was appended */
    size_t size, capacity;
    size_t limit;             /* 0: none */
    struct base_arena *arena; /* NULL: it has memory of its own, and is to be freed */
    bool failed;
};

/* Makes room where there is none; base_buffer_reserve is what others call. */
char *base_buffer_extend(struct base_buffer *buffer, size_t size);

/* Room for size more bytes at the end, to write into directly; then tell with base_buffer_grow
   how many were written. NULL when the buffer failed. */
static inline char *base_buffer_reserve(struct base_buffer *buffer, size_t size)
{
    if (buffer->failed || size >= buffer->capacity - buffer->size)
        return base_buffer_extend(buffer, size);
    return buffer->data + buffer->size;
}

static inline void base_buffer_grow(struct base_buffer *buffer, size_t size)
{
    BASE_CHECK(size < buffer->capacity - buffer->size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

static inline void base_buffer_append(struct base_buffer *buffer, const void *data, size_t size)
{
    char *to = base_buffer_reserve(buffer, size);
    if (!to)
        return;
    if (size > 0)
        memcpy(to, data, size);
    to[size] = '\0';
    buffer->size += size;
}

static inline void base_buffer_text(struct base_buffer *buffer, const char *text)
{
    base_buffer_append(buffer, text, strlen(text));
}

static inline void base_buffer_byte(struct base_buffer *buffer, char byte)
{
    base_buffer_append(buffer, &byte, 1);
}

/* In decimal digits. */
void base_buffer_number(struct base_buffer *buffer, int64_t number);
void base_buffer_printf(struct base_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Empties it, forgets a failure, keeps the memory. */
void base_buffer_clear(struct base_buffer *buffer);
/* Releases the memory, which an arena keeps until its own end. Harmless on a zeroed buffer. */
void base_buffer_free(struct base_buffer *buffer);

static inline struct base_span base_buffer_span(const struct base_buffer *buffer)
{
    return base_span(buffer->data ? buffer->data : "", buffer->size);
}

#endif
