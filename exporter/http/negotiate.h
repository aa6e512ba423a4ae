/* SPDX-License-Identifier: Apache-2.0 */
/*
 * negotiate.h - which metrics format, and whether compressed, from what a client says it accepts.
 *
 * As Prometheus' own negotiation: the entry with the greatest q that names a format of ours wins,
 * of equals the first; what cannot be read is passed over; where nothing matches, text 0.0.4 is
 * sent.
 */
#ifndef EXPORTER_HTTP_NEGOTIATE_H
#define EXPORTER_HTTP_NEGOTIATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/metrics/metric.h"

struct exporter_negotiated {
    enum metric_format format;
    const char *content_type; /* static; tells the version and echoes the escaping scheme */
};

/* `accept` may be NULL or "". */
struct exporter_negotiated exporter_negotiate(const char *accept);

/* Whether Accept-Encoding lists gzip with a q above 0. NULL or "": no. */
bool exporter_accepts_gzip(const char *accept_encoding);

/* What a client prefers (RFC 7240). Of a preference that is named twice the first counts; one that
 * is not known, or has a value that cannot be read, is passed over. */
struct exporter_preferences {
    bool respond_async;
    bool lenient;   /* handling=lenient */
    int64_t wait_s; /* -1: not named */
};

/* NULL or "": none. */
void exporter_read_prefer(const char *prefer, struct exporter_preferences *preferences);

#endif
