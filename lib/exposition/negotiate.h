/* SPDX-License-Identifier: Apache-2.0 */
/*
 * negotiate.h - which metrics format, and whether compressed, from what a client says it accepts.
 *
 * As Prometheus' own negotiation: the entry with the greatest q that names a format of ours wins,
 * of equals the first; what cannot be read is passed over; where nothing matches, text 0.0.4 is
 * sent. OpenMetrics 2.0 is experimental: only `version=2.0.0` asks for it, never a wildcard.
 */
#ifndef EXPOSITION_NEGOTIATE_H
#define EXPOSITION_NEGOTIATE_H

#include <stdbool.h>

#include "lib/metrics/metric.h"

struct exposition_negotiated {
    enum metric_format format;
    const char *content_type; /* static; tells the version and echoes the escaping scheme */
};

/* `accept` may be NULL or "". */
struct exposition_negotiated exposition_negotiate(const char *accept);

/* Whether Accept-Encoding lists gzip with a q above 0. NULL or "": no. */
bool exposition_accepts_gzip(const char *accept_encoding);

#endif
