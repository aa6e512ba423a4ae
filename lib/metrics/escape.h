/* SPDX-License-Identifier: Apache-2.0 */
/* Text as the exposition formats require it: valid UTF-8, escaped where it is quoted. Each byte
 * that is not UTF-8 becomes U+FFFD, because a scraper rejects the whole scrape for one bad byte.
 * Pure, any thread. */
#ifndef METRIC_ESCAPE_H
#define METRIC_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

enum metric_quoting {
    METRIC_QUOTED,   /* label values; HELP of OpenMetrics: \\ \" \n */
    METRIC_UNQUOTED, /* HELP of text 0.0.4: \\ \n */
    METRIC_BARE,     /* protobuf: nothing escaped */
};

enum { METRIC_ESCAPE_GROWTH = 3 }; /* output bytes per input byte at most: U+FFFD has 3 */

/* Writes the escaped form of the `n` bytes at `in` and returns its end. `out` has room for n *
 * METRIC_ESCAPE_GROWTH bytes. */
char *metric_escape(char *out, const char *in, size_t n, enum metric_quoting quoting);

bool metric_utf8_valid(const char *text, size_t n);

/* The number of code points, each invalid byte counting as one. */
size_t metric_utf8_count(const char *text, size_t n);

#endif
