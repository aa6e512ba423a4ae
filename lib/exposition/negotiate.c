/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content negotiation (RFC 9110 12.5), without allocation and in one pass: a header is read element
 * by element, and the best match so far is kept. Prometheus 2.42 and 3 send different lists; both
 * are in tests/unit/test_negotiate.c.
 *
 * The escaping scheme says how names outside the legacy characters are written. All of our names
 * are inside them, so the schemes read the same and only the label differs.
 *
 * Pure.
 */
#include "lib/exposition/negotiate.h"

#include <string.h>

#include "lib/base/header_list.h"

/* ---- Accept --------------------------------------------------------------------------------- */

enum escaping { ESCAPING_UNDERSCORES, ESCAPING_UTF8, ESCAPING_DOTS, ESCAPING_VALUES, ESCAPINGS };

static const char *const escaping_names[ESCAPINGS] = {"underscores", "allow-utf-8", "dots",
                                                      "values"};

/* One line per escaping scheme, so that the answer is a constant. */
#define CONTENT_TYPES(head)                                                                        \
    {                                                                                              \
        head "; escaping=underscores", head "; escaping=allow-utf-8", head "; escaping=dots",      \
            head "; escaping=values"                                                               \
    }

/* What we can send, in our order of preference, which decides for wildcards. */
static const struct offer {
    enum metric_format format;
    const char *type;
    const char *subtype;
    const char *version;         /* "": the type has no versions */
    const char *default_version; /* what an entry without a version means */
    const char *content_types[ESCAPINGS];
} offers[] = {
    {METRIC_TEXT, "text", "plain", "0.0.4", "0.0.4",
     CONTENT_TYPES("text/plain; version=0.0.4; charset=utf-8")},
    {METRIC_OPENMETRICS, "application", "openmetrics-text", "1.0.0", "0.0.1",
     CONTENT_TYPES("application/openmetrics-text; version=1.0.0; charset=utf-8")},
    {METRIC_OPENMETRICS, "application", "openmetrics-text", "0.0.1", "0.0.1",
     CONTENT_TYPES("application/openmetrics-text; version=0.0.1; charset=utf-8")},
    /* only by its version: the entry before it is found first for everything else */
    {METRIC_OPENMETRICS_2, "application", "openmetrics-text", "2.0.0", "0.0.1",
     CONTENT_TYPES("application/openmetrics-text; version=2.0.0; charset=utf-8")},
    {METRIC_PROTOBUF, "application", "vnd.google.protobuf", "", "",
     CONTENT_TYPES("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
                   "encoding=delimited")},
};

/* One element of Accept, taken apart. */
struct media_range {
    struct base_header_span type;
    struct base_header_span subtype;
    struct base_header_span version; /* begin NULL: not given */
    bool proto;                      /* proto=io.prometheus.client.MetricFamily */
    bool delimited;                  /* encoding=delimited */
    bool foreign;                    /* a parameter that none of our formats has */
    enum escaping escaping;
    int q;
};

static void read_escaping(struct media_range *range, struct base_header_span value)
{
    for (int i = 0; i < ESCAPINGS; i++) {
        if (base_header_is(value, escaping_names[i]))
            range->escaping = (enum escaping)i;
    }
}

static void read_parameter(struct media_range *range, struct base_header_span name,
                           struct base_header_span value)
{
    if (base_header_is(name, "q"))
        range->q = base_header_q(value);
    else if (base_header_is(name, "version"))
        range->version = value;
    else if (base_header_is(name, "escaping"))
        read_escaping(range, value);
    else if (base_header_is(name, "proto") &&
             base_header_is(value, "io.prometheus.client.MetricFamily"))
        range->proto = true;
    else if (base_header_is(name, "encoding") && base_header_is(value, "delimited"))
        range->delimited = true;
    else if (name.length > 0 && !base_header_is(name, "charset"))
        range->foreign = true;
}

static bool read_media_range(struct base_header_span element, struct media_range *range)
{
    *range = (struct media_range){.q = 1000};
    struct base_header_span rest = element;
    struct base_header_span piece;
    if (!base_header_parameter(&rest, &piece))
        return false;
    const char *slash = memchr(piece.begin, '/', piece.length);
    if (slash == NULL)
        return false;
    range->type = base_header_between(piece.begin, slash);
    range->subtype = base_header_between(slash + 1, piece.begin + piece.length);
    while (base_header_parameter(&rest, &piece)) {
        struct base_header_span name;
        struct base_header_span value;
        base_header_split(piece, &name, &value);
        read_parameter(range, name, value);
    }
    return range->q > 0;
}

static bool range_takes(const struct media_range *range, const struct offer *offer)
{
    const bool any_type = base_header_is(range->type, "*") && base_header_is(range->subtype, "*");
    if (any_type)
        return true;
    if (range->foreign || !base_header_is(range->type, offer->type))
        return false;
    if (base_header_is(range->subtype, "*"))
        return true;
    if (!base_header_is(range->subtype, offer->subtype))
        return false;
    if (offer->format == METRIC_PROTOBUF)
        return range->proto && range->delimited && range->version.begin == NULL;
    if (range->proto || range->delimited)
        return false;
    if (range->version.begin == NULL)
        return strcmp(offer->version, offer->default_version) == 0;
    return base_header_is(range->version, offer->version);
}

static const struct offer *find_offer(const struct media_range *range)
{
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i++) {
        if (range_takes(range, &offers[i]))
            return &offers[i];
    }
    return NULL;
}

struct exposition_negotiated exposition_negotiate(const char *accept)
{
    const struct offer *best = &offers[0];
    enum escaping escaping = ESCAPING_UNDERSCORES;
    int best_q = 0;
    struct base_header_span element;
    while (base_header_next(&accept, ',', &element)) {
        struct media_range range;
        if (!read_media_range(element, &range) || range.q <= best_q)
            continue;
        const struct offer *offer = find_offer(&range);
        if (offer == NULL)
            continue;
        best = offer;
        best_q = range.q;
        escaping = range.escaping;
    }
    return (struct exposition_negotiated){best->format, best->content_types[escaping]};
}

/* ---- Accept-Encoding ------------------------------------------------------------------------ */

bool exposition_accepts_gzip(const char *accept_encoding)
{
    struct base_header_span element;
    while (base_header_next(&accept_encoding, ',', &element)) {
        struct base_header_span rest = element;
        struct base_header_span piece;
        int q = 1000;
        if (!base_header_parameter(&rest, &piece) ||
            !(base_header_is(piece, "gzip") || base_header_is(piece, "x-gzip")))
            continue;
        while (base_header_parameter(&rest, &piece)) {
            struct base_header_span name;
            struct base_header_span value;
            base_header_split(piece, &name, &value);
            if (base_header_is(name, "q"))
                q = base_header_q(value);
        }
        if (q > 0)
            return true;
    }
    return false;
}
