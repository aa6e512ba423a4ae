/* SPDX-License-Identifier: Apache-2.0 */
/* The growing buffer: capacity doubles at least, one byte is always kept for the closing
 * NUL. On the thread that owns the buffer. */
#include "lib/base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/decimal.h"
#include "lib/base/memory.h"

enum { FIRST_CAPACITY = 256 };

/* At least the double, and never more than the limit and the NUL, so that whoever finds room is
 * within the limit. */
static size_t capacity_for(const struct base_buffer *buffer, size_t need, size_t most)
{
    size_t capacity = buffer->capacity ? 2 * buffer->capacity : FIRST_CAPACITY;
    if (capacity < need)
        capacity = need;
    return capacity <= most ? capacity : most + 1;
}

char *base_buffer_extend(struct base_buffer *buffer, size_t size)
{
    if (buffer->failed)
        return NULL;
    size_t most = buffer->limit ? buffer->limit : SIZE_MAX / 4;
    if (size > most || buffer->size > most - size) {
        buffer->failed = true;
        return NULL;
    }
    size_t capacity = capacity_for(buffer, buffer->size + size + 1, most);
    char *data = buffer->arena
                     ? base_arena_resize(buffer->arena, buffer->data, buffer->capacity, capacity)
                     : base_realloc(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return NULL;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return buffer->data + buffer->size;
}

void base_buffer_number(struct base_buffer *buffer, int64_t number)
{
    char digits[BASE_DECIMAL_SIZE];
    base_buffer_append(buffer, digits, base_decimal(number, digits));
}

void base_buffer_printf(struct base_buffer *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *to = length < 0 ? NULL : base_buffer_reserve(buffer, (size_t)length);
    if (to) {
        vsnprintf(to, (size_t)length + 1, format, again);
        base_buffer_grow(buffer, (size_t)length);
    }
    va_end(again);
    if (length < 0)
        buffer->failed = true;
}

void base_buffer_clear(struct base_buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
    if (buffer->data)
        buffer->data[0] = '\0';
}

void base_buffer_free(struct base_buffer *buffer)
{
    if (!buffer->arena)
        base_free(buffer->data);
    *buffer = (struct base_buffer){.limit = buffer->limit, .arena = buffer->arena};
}
