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
#include "exporter/http/negotiate.h"

#include <string.h>
#include <strings.h>

/* ---- reading a header: elements by commas, parameters by semicolons, values maybe in quotes -- */

struct span {
    const char *begin;
    size_t length;
};

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t';
}

static struct span trimmed(const char *begin, size_t length)
{
    for (; length > 0 && is_space(*begin); length--)
        begin++;
    while (length > 0 && is_space(begin[length - 1]))
        length--;
    return (struct span){begin, length};
}

/* What is between two places of a text. */
static struct span between(const char *begin, const char *end)
{
    return trimmed(begin, (size_t)(end - begin));
}

/* Cuts off what precedes `separator` outside of quotes; false at the end. */
static bool next_piece(const char **rest, char separator, struct span *piece)
{
    const char *begin = *rest;
    if (begin == NULL)
        return false;
    bool quoted = false;
    const char *at = begin;
    for (; *at != '\0' && (quoted || *at != separator); at++) {
        if (quoted && *at == '\\' && at[1] != '\0')
            at++;
        else if (*at == '"')
            quoted = !quoted;
    }
    *piece = between(begin, at);
    *rest = *at != '\0' ? at + 1 : NULL;
    return true;
}

/* The same within a piece, which does not end in a zero byte. */
static bool next_parameter(struct span *rest, struct span *parameter)
{
    if (rest->begin == NULL)
        return false;
    bool quoted = false;
    size_t at = 0;
    for (; at < rest->length && (quoted || rest->begin[at] != ';'); at++) {
        if (quoted && rest->begin[at] == '\\')
            at++;
        else if (rest->begin[at] == '"')
            quoted = !quoted;
    }
    if (at > rest->length) /* a backslash was the last byte */
        at = rest->length;
    *parameter = trimmed(rest->begin, at);
    if (at == rest->length) {
        rest->begin = NULL;
    } else {
        rest->begin += at + 1;
        rest->length -= at + 1;
    }
    return true;
}

static bool span_is(struct span span, const char *text)
{
    return span.length == strlen(text) && strncasecmp(span.begin, text, span.length) == 0;
}

/* name=value; the value without its quotes. */
static void split_parameter(struct span parameter, struct span *name, struct span *value)
{
    const char *end = parameter.begin + parameter.length;
    const char *equals = memchr(parameter.begin, '=', parameter.length);
    *name = equals != NULL ? between(parameter.begin, equals) : parameter;
    *value = equals != NULL ? between(equals + 1, end) : (struct span){end, 0};
    if (value->length >= 2 && value->begin[0] == '"' && value->begin[value->length - 1] == '"')
        *value = (struct span){value->begin + 1, value->length - 2};
}

/* A q of "0.75" as 750; -1 where it is none. More than three decimals are cut. */
static int read_q(struct span text)
{
    static const int weight[] = {100, 10, 1};
    if (text.length == 0 || (text.begin[0] != '0' && text.begin[0] != '1'))
        return -1;
    int thousandths = (text.begin[0] - '0') * 1000;
    if (text.length > 1 && text.begin[1] != '.')
        return -1;
    for (size_t i = 2; i < text.length; i++) {
        if (text.begin[i] < '0' || text.begin[i] > '9')
            return -1;
        if (i - 2 < sizeof weight / sizeof *weight)
            thousandths += (text.begin[i] - '0') * weight[i - 2];
    }
    return thousandths <= 1000 ? thousandths : 1000;
}

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
    {METRIC_PROTOBUF, "application", "vnd.google.protobuf", "", "",
     CONTENT_TYPES("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
                   "encoding=delimited")},
};

/* One element of Accept, taken apart. */
struct media_range {
    struct span type;
    struct span subtype;
    struct span version; /* begin NULL: not given */
    bool proto;          /* proto=io.prometheus.client.MetricFamily */
    bool delimited;      /* encoding=delimited */
    bool foreign;        /* a parameter that none of our formats has */
    enum escaping escaping;
    int q;
};

static void read_escaping(struct media_range *range, struct span value)
{
    for (int i = 0; i < ESCAPINGS; i++) {
        if (span_is(value, escaping_names[i]))
            range->escaping = (enum escaping)i;
    }
}

static void read_parameter(struct media_range *range, struct span name, struct span value)
{
    if (span_is(name, "q"))
        range->q = read_q(value);
    else if (span_is(name, "version"))
        range->version = value;
    else if (span_is(name, "escaping"))
        read_escaping(range, value);
    else if (span_is(name, "proto") && span_is(value, "io.prometheus.client.MetricFamily"))
        range->proto = true;
    else if (span_is(name, "encoding") && span_is(value, "delimited"))
        range->delimited = true;
    else if (name.length > 0 && !span_is(name, "charset"))
        range->foreign = true;
}

static bool read_media_range(struct span element, struct media_range *range)
{
    *range = (struct media_range){.q = 1000};
    struct span rest = element;
    struct span piece;
    if (!next_parameter(&rest, &piece))
        return false;
    const char *slash = memchr(piece.begin, '/', piece.length);
    if (slash == NULL)
        return false;
    range->type = between(piece.begin, slash);
    range->subtype = between(slash + 1, piece.begin + piece.length);
    while (next_parameter(&rest, &piece)) {
        struct span name;
        struct span value;
        split_parameter(piece, &name, &value);
        read_parameter(range, name, value);
    }
    return range->q > 0;
}

static bool range_takes(const struct media_range *range, const struct offer *offer)
{
    const bool any_type = span_is(range->type, "*") && span_is(range->subtype, "*");
    if (any_type)
        return true;
    if (range->foreign || !span_is(range->type, offer->type))
        return false;
    if (span_is(range->subtype, "*"))
        return true;
    if (!span_is(range->subtype, offer->subtype))
        return false;
    if (offer->format == METRIC_PROTOBUF)
        return range->proto && range->delimited && range->version.begin == NULL;
    if (range->proto || range->delimited)
        return false;
    if (range->version.begin == NULL)
        return strcmp(offer->version, offer->default_version) == 0;
    return span_is(range->version, offer->version);
}

static const struct offer *find_offer(const struct media_range *range)
{
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i++) {
        if (range_takes(range, &offers[i]))
            return &offers[i];
    }
    return NULL;
}

struct exporter_negotiated exporter_negotiate(const char *accept)
{
    const struct offer *best = &offers[0];
    enum escaping escaping = ESCAPING_UNDERSCORES;
    int best_q = 0;
    struct span element;
    while (next_piece(&accept, ',', &element)) {
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
    return (struct exporter_negotiated){best->format, best->content_types[escaping]};
}

/* ---- Accept-Encoding ------------------------------------------------------------------------ */

bool exporter_accepts_gzip(const char *accept_encoding)
{
    struct span element;
    while (next_piece(&accept_encoding, ',', &element)) {
        struct span rest = element;
        struct span piece;
        int q = 1000;
        if (!next_parameter(&rest, &piece) || !(span_is(piece, "gzip") || span_is(piece, "x-gzip")))
            continue;
        while (next_parameter(&rest, &piece)) {
            struct span name;
            struct span value;
            split_parameter(piece, &name, &value);
            if (span_is(name, "q"))
                q = read_q(value);
        }
        if (q > 0)
            return true;
    }
    return false;
}

/* ---- Prefer -----------------------------------------------------------------------------------
 */

enum { WAIT_MAX_S = 1000000000 }; /* thirty years; a longer one is as good as this */

/* Delta-seconds; -1 where it is none. */
static int64_t read_wait(struct span text)
{
    int64_t seconds = text.length > 0 ? 0 : -1;
    for (size_t i = 0; i < text.length; i++) {
        if (text.begin[i] < '0' || text.begin[i] > '9')
            return -1;
        seconds = seconds * 10 + (text.begin[i] - '0');
        if (seconds > WAIT_MAX_S)
            seconds = WAIT_MAX_S;
    }
    return seconds;
}

void exporter_read_prefer(const char *prefer, struct exporter_preferences *preferences)
{
    struct span preference, first, name, value;
    bool waits = false, handles = false;
    *preferences = (struct exporter_preferences){.wait_s = -1};
    while (next_piece(&prefer, ',', &preference)) {
        if (!next_parameter(&preference, &first))
            continue;
        split_parameter(first, &name, &value);
        if (span_is(name, "respond-async"))
            preferences->respond_async = true;
        if (span_is(name, "wait") && !waits) {
            waits = true;
            preferences->wait_s = read_wait(value);
        }
        if (span_is(name, "handling") && !handles) {
            handles = true;
            preferences->lenient = span_is(value, "lenient");
        }
    }
}
