/* SPDX-License-Identifier: Apache-2.0 */
/* prefer.h - what a client prefers (RFC 7240). */
#ifndef EXPORTER_HTTP_PREFER_H
#define EXPORTER_HTTP_PREFER_H

#include <stdbool.h>
#include <stdint.h>

/* Of a preference that is named twice the first counts; one that is not known, or has a value that
 * cannot be read, is passed over. */
struct exporter_preferences {
    bool respond_async;
    bool lenient;   /* handling=lenient */
    int64_t wait_s; /* -1: not named */
};

/* NULL or "": none. */
void exporter_read_prefer(const char *prefer, struct exporter_preferences *preferences);

#endif
