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

/* Makes sure that there is something to send, unless the scrape is over. false: out of memory. */
static bool fill_buffer(struct exposition_stream *stream)
{
    while (stream->more && stream->sent == stream->buffer.length) {
        stream->buffer.length = 0;
        stream->sent = 0;
        stream->more = metric_scrape_step(stream->scrape, &stream->buffer, STEP_BYTES);
    }
    return !stream->buffer.failed;
}

static ssize_t read_plain_bytes(struct exposition_stream *stream, char *bytes, size_t max)
{
    if (!fill_buffer(stream))
        return EXPOSITION_FAILED;
    size_t length = stream->buffer.length - stream->sent;
    if (length == 0) {
        stream->ended = true;
        return EXPOSITION_END;
    }
    if (length > max)
        length = max;
    memcpy(bytes, stream->buffer.data + stream->sent, length);
    stream->sent += length;
    return (ssize_t)length;
}

static ssize_t read_gzip_bytes(struct exposition_stream *stream, char *bytes, size_t max)
{
    while (!stream->ended) {
        if (!fill_buffer(stream))
            return EXPOSITION_FAILED;
        const char *from = stream->buffer.data != NULL ? stream->buffer.data + stream->sent : "";
        const struct exposition_gzip_step step = exposition_gzip_run(
            stream->gzip, from, stream->buffer.length - stream->sent, bytes, max, !stream->more);
        stream->sent += step.consumed;
        stream->ended = step.finished;
        if (step.produced > 0)
            return (ssize_t)step.produced;
    }
    return EXPOSITION_END;
}

ssize_t exposition_stream_read(struct exposition_stream *stream, char *bytes, size_t max)
{
    return stream->gzip != NULL ? read_gzip_bytes(stream, bytes, max)
                                : read_plain_bytes(stream, bytes, max);
}
