/* SPDX-License-Identifier: Apache-2.0 */
/* The buffer of buffer.h. Any thread, one at a time per buffer. */
#include "lib/metrics/buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool grow_buffer(struct metric_buffer *buffer, size_t n)
{
    size_t capacity = buffer->capacity < 4096 ? 4096 : buffer->capacity;
    while (capacity - buffer->length < n) {
        if (capacity > SIZE_MAX / 2)
            return false;
        capacity *= 2;
    }
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

char *metric_buffer_room(struct metric_buffer *buffer, size_t n)
{
    if (buffer->failed)
        return NULL;
    if (buffer->capacity - buffer->length < n || !buffer->data) {
        if (!grow_buffer(buffer, n)) {
            buffer->failed = true;
            return NULL;
        }
    }
    return buffer->data + buffer->length;
}

void metric_buffer_append(struct metric_buffer *buffer, const void *data, size_t n)
{
    char *room = metric_buffer_room(buffer, n);
    if (!room)
        return;
    memcpy(room, data, n);
    buffer->length += n;
}

void metric_buffer_append_text(struct metric_buffer *buffer, const char *text)
{
    metric_buffer_append(buffer, text, strlen(text));
}

void metric_buffer_free(struct metric_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct metric_buffer){0};
}
