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

#include "lib/metrics/metric.h"

struct exporter_negotiated {
    enum metric_format format;
    const char *content_type; /* static; tells the version and echoes the escaping scheme */
};

/* `accept` may be NULL or "". */
struct exporter_negotiated exporter_negotiate(const char *accept);

/* Whether Accept-Encoding lists gzip with a q above 0. NULL or "": no. */
bool exporter_accepts_gzip(const char *accept_encoding);

/* Whether Prefer (RFC 7240) has respond-async among its preferences. NULL or "": no. */
bool exporter_prefers_async(const char *prefer);

#endif
