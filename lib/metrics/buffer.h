/* SPDX-License-Identifier: Apache-2.0 */
/* Appending to the buffer that a scrape fills. Once memory has run out, appends do nothing, so an
 * encoder need not check each one; only the end of the scrape checks `failed`. Any thread, one at a
 * time per buffer. */
#ifndef METRIC_BUFFER_H
#define METRIC_BUFFER_H

#include "lib/base/check.h"
#include "lib/metrics/metric.h"

/* Room for `n` more bytes at the end, to be taken by metric_buffer_take. NULL: no memory. */
char *metric_buffer_room(struct metric_buffer *buffer, size_t n);

/* Extends the content up to `end`, a pointer into the room. */
static inline void metric_buffer_take(struct metric_buffer *buffer, const char *end)
{
    size_t length = (size_t)(end - buffer->data);
    BASE_CHECK(length >= buffer->length && length <= buffer->capacity);
    buffer->length = length;
}

void metric_buffer_append(struct metric_buffer *buffer, const void *data, size_t n);
void metric_buffer_append_text(struct metric_buffer *buffer, const char *text);

#endif
