/* SPDX-License-Identifier: Apache-2.0 */
/* gzip.h - compresses a stream piece by piece, with bounded memory. */
#ifndef EXPOSITION_GZIP_H
#define EXPOSITION_GZIP_H

#include <stdbool.h>
#include <stddef.h>

struct exposition_gzip;

/* NULL when out of memory (about 256 KiB). */
struct exposition_gzip *exposition_gzip_new(void);
void exposition_gzip_free(struct exposition_gzip **gzip);

struct exposition_gzip_step {
    size_t consumed; /* of the input */
    size_t produced; /* into the output */
    bool finished;   /* the last byte of the stream was produced */
};

/* Compresses from `in` into `out`. `last`: nothing follows this input. Called again and again,
 * until everything is consumed, or until finished where it was the last. The output may be 0 bytes
 * long while zlib still gathers. */
struct exposition_gzip_step exposition_gzip_run(struct exposition_gzip *gzip, const void *in,
                                                size_t in_length, void *out, size_t out_length,
                                                bool last);

#endif
