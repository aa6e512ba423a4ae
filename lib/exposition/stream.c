/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of stream.h. One thread at a time. */
#include "lib/exposition/stream.h"

#include <string.h>

enum { STEP_BYTES = 64 << 10 };

bool exposition_stream_open(struct exposition_stream *stream, struct metric_scrape *scrape,
                            bool gzip)
{
    *stream = (struct exposition_stream){.scrape = scrape, .more = true};
    stream->gzip = gzip ? exposition_gzip_new() : NULL;
    return !gzip || stream->gzip != NULL;
}

void exposition_stream_close(struct exposition_stream *stream)
{
    metric_buffer_free(&stream->buffer);
    exposition_gzip_free(&stream->gzip);
    stream->scrape = NULL;
}

/* One step more, once what was made is sent. It may have made nothing to send yet. false: out of
 * memory. */
static bool fill_buffer(struct exposition_stream *stream)
{
    if (stream->more && stream->sent == stream->buffer.length) {
        stream->buffer.length = 0;
        stream->sent = 0;
        stream->more = metric_scrape_step(stream->scrape, &stream->buffer, STEP_BYTES);
    }
    return !stream->buffer.failed;
}

/* What a read without bytes answers. */
static ssize_t nothing_read(const struct exposition_stream *stream)
{
    return stream->ended ? EXPOSITION_END : EXPOSITION_LATER;
}

static ssize_t read_plain_bytes(struct exposition_stream *stream, char *bytes, size_t max)
{
    size_t length = stream->buffer.length - stream->sent;
    stream->ended = length == 0 && !stream->more;
    if (length == 0)
        return nothing_read(stream);
    if (length > max)
        length = max;
    memcpy(bytes, stream->buffer.data + stream->sent, length);
    stream->sent += length;
    return (ssize_t)length;
}

static ssize_t read_gzip_bytes(struct exposition_stream *stream, char *bytes, size_t max)
{
    if (stream->ended)
        return EXPOSITION_END;
    const char *from = stream->buffer.data != NULL ? stream->buffer.data + stream->sent : "";
    const size_t left = stream->buffer.length - stream->sent;
    const size_t offered = left < STEP_BYTES ? left : STEP_BYTES;
    const struct exposition_gzip_step step = exposition_gzip_run(
        stream->gzip, from, offered, bytes, max, !stream->more && offered == left);
    stream->sent += step.consumed;
    stream->ended = step.finished;
    return step.produced > 0 ? (ssize_t)step.produced : nothing_read(stream);
}

ssize_t exposition_stream_read(struct exposition_stream *stream, char *bytes, size_t max)
{
    if (!fill_buffer(stream))
        return EXPOSITION_FAILED;
    return stream->gzip != NULL ? read_gzip_bytes(stream, bytes, max)
                                : read_plain_bytes(stream, bytes, max);
}
