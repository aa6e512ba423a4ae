/* SPDX-License-Identifier: Apache-2.0 */
/* The growing buffer: capacity doubles, one byte is always kept for the closing NUL. */
#include "client/base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "client/base/check.h"
#include "client/base/memory.h"

enum { FIRST_CAPACITY = 256 };

char *handoff_buffer_reserve(struct handoff_buffer *buffer, size_t size)
{
    if (buffer->failed)
        return NULL;
    size_t most = buffer->limit ? buffer->limit : SIZE_MAX / 4;
    if (size > most || buffer->size > most - size) {
        buffer->failed = true;
        return NULL;
    }
    size_t need = buffer->size + size + 1;
    if (need > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
        while (capacity < need)
            capacity *= 2;
        char *data = handoff_realloc(buffer->data, capacity);
        if (!data) {
            buffer->failed = true;
            return NULL;
        }
        buffer->data = data;
        buffer->capacity = capacity;
    }
    return buffer->data + buffer->size;
}

void handoff_buffer_grow(struct handoff_buffer *buffer, size_t size)
{
    HANDOFF_CHECK(size < buffer->capacity - buffer->size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void handoff_buffer_append(struct handoff_buffer *buffer, const void *data, size_t size)
{
    char *to = handoff_buffer_reserve(buffer, size);
    if (!to)
        return;
    if (size > 0)
        memcpy(to, data, size);
    handoff_buffer_grow(buffer, size);
}

void handoff_buffer_text(struct handoff_buffer *buffer, const char *text)
{
    handoff_buffer_append(buffer, text, strlen(text));
}

void handoff_buffer_byte(struct handoff_buffer *buffer, char byte)
{
    handoff_buffer_append(buffer, &byte, 1);
}

void handoff_buffer_printf(struct handoff_buffer *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *to = length < 0 ? NULL : handoff_buffer_reserve(buffer, (size_t)length);
    if (to) {
        vsnprintf(to, (size_t)length + 1, format, again);
        handoff_buffer_grow(buffer, (size_t)length);
    }
    va_end(again);
    if (length < 0)
        buffer->failed = true;
}

void handoff_buffer_clear(struct handoff_buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
    if (buffer->data)
        buffer->data[0] = '\0';
}

void handoff_buffer_free(struct handoff_buffer *buffer)
{
    handoff_free(buffer->data);
    *buffer = (struct handoff_buffer){.limit = buffer->limit};
}
