/* SPDX-License-Identifier: Apache-2.0 */
/* Appending to the buffer that a scrape grows. After memory has run out nothing is appended any
 * more, so an encoder may write on and only the edge looks at `failed`. */
#ifndef METRIC_BUFFER_H
#define METRIC_BUFFER_H

#include "lib/metrics/metric.h"

/* Room for `n` more bytes at the end, to be taken by metric_buffer_take. NULL: no memory. */
char *metric_buffer_room(struct metric_buffer *buffer, size_t n);

/* Everything up to `end`, a pointer into the room, now belongs to the content. */
static inline void metric_buffer_take(struct metric_buffer *buffer, const char *end)
{
    buffer->length = (size_t)(end - buffer->data);
}

void metric_buffer_append(struct metric_buffer *buffer, const void *data, size_t n);
void metric_buffer_append_text(struct metric_buffer *buffer, const char *text);

#endif
