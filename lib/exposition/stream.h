/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - a scrape as bytes to send, plain or compressed, made as they are asked for: whatever
 * its size, it holds one step of some 64 KiB of series (in protobuf, twice the largest family), and
 * for gzip zlib's 256 KiB.
 *
 * By one thread at a time.
 */
#ifndef EXPOSITION_STREAM_H
#define EXPOSITION_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/exposition/gzip.h"
#include "lib/metrics/metric.h"

/* For its owner to embed; its fields are the stream's own, except `ended`. */
struct exposition_stream {
    struct metric_scrape *scrape; /* lent */
    struct metric_buffer buffer;
    size_t sent;                  /* of the buffer */
    bool more;                    /* the scrape has more */
    bool ended;                   /* everything was read */
    struct exposition_gzip *gzip; /* NULL: plain */
};

enum { EXPOSITION_END = 0, EXPOSITION_FAILED = -1, EXPOSITION_LATER = -2 };

/* `scrape` is lent until the stream is closed. false: out of memory; nothing to close. */
bool exposition_stream_open(struct exposition_stream *stream, struct metric_scrape *scrape,
                            bool gzip);

/* At most `max` bytes, more than 0; EXPOSITION_END; EXPOSITION_FAILED: out of memory; or
 * EXPOSITION_LATER: there is nothing to send yet, so read again. A read makes and compresses one
 * step at most, so that a loop which reads has time for others in between. */
ssize_t exposition_stream_read(struct exposition_stream *stream, char *bytes, size_t max);

/* At any time; a stream that was zeroed and not opened, too. */
void exposition_stream_close(struct exposition_stream *stream);

#endif
