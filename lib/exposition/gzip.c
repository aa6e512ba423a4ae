/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip over zlib. Level 1: metrics text is so repetitive that it shrinks to a twentieth already,
 * and the level decides how long a scrape holds the loop. tests/unit/test_gzip.c reads it back.
 */
#include "lib/exposition/gzip.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#include "lib/base/check.h"

enum {
    GZIP_LEVEL = 1,
    GZIP_WINDOW_BITS = 15 + 16, /* the largest window; +16 asks zlib for a gzip header */
    GZIP_MEMORY_LEVEL = 8,      /* zlib's default */
};

struct exposition_gzip {
    z_stream stream;
};

struct exposition_gzip *exposition_gzip_new(void)
{
    struct exposition_gzip *gzip = calloc(1, sizeof *gzip);
    if (gzip == NULL)
        return NULL;
    if (deflateInit2(&gzip->stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        free(gzip);
        return NULL;
    }
    return gzip;
}

void exposition_gzip_free(struct exposition_gzip **gzip)
{
    if (*gzip == NULL)
        return;
    deflateEnd(&(*gzip)->stream);
    free(*gzip);
    *gzip = NULL;
}

static uInt zlib_length(size_t length)
{
    return length > UINT_MAX ? UINT_MAX : (uInt)length;
}

struct exposition_gzip_step exposition_gzip_run(struct exposition_gzip *gzip, const void *in,
                                                size_t in_length, void *out, size_t out_length,
                                                bool last)
{
    z_stream *stream = &gzip->stream;
    const uInt offered = zlib_length(in_length);
    const uInt room = zlib_length(out_length);
    stream->next_in = (z_const Bytef *)(uintptr_t)in;
    stream->avail_in = offered;
    stream->next_out = out;
    stream->avail_out = room;
    const int result = deflate(stream, last && offered == in_length ? Z_FINISH : Z_NO_FLUSH);
    BASE_CHECK(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR);
    return (struct exposition_gzip_step){
        .consumed = offered - stream->avail_in,
        .produced = room - stream->avail_out,
        .finished = result == Z_STREAM_END,
    };
}
