/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content negotiation: what scrapers really send, and what could confuse a reader of such headers.
 * The headers of Prometheus are copied from its releases.
 */
#include "exporter/http/prefer.h"
#include "lib/exposition/negotiate.h"
#include "tests/support/unit.h"

#define TEXT_AS(escaping) "text/plain; version=0.0.4; charset=utf-8; escaping=" escaping
#define OPENMETRICS_AS(version, escaping)                                                          \
    "application/openmetrics-text; version=" version "; charset=utf-8; escaping=" escaping
#define PROTOBUF_AS(escaping)                                                                      \
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "                   \
    "encoding=delimited; escaping=" escaping

#define TEXT        TEXT_AS("underscores")
#define OPENMETRICS OPENMETRICS_AS("1.0.0", "underscores")
#define PROTOBUF    PROTOBUF_AS("underscores")

#define PROTOBUF_RANGE                                                                             \
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

static const struct {
    const char *accept;
    enum metric_format format;
    const char *content_type;
} cases[] = {
    /* Prometheus 2.42, without and with native histograms */
    {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
     "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
     METRIC_OPENMETRICS, OPENMETRICS},
    {PROTOBUF_RANGE ",application/openmetrics-text;version=1.0.0;q=0.8,"
                    "application/openmetrics-text;version=0.0.1;q=0.75,"
                    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
     METRIC_PROTOBUF, PROTOBUF},
    /* Prometheus 3, without and with native histograms */
    {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
     "application/openmetrics-text;version=0.0.1;q=0.5,"
     "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
     METRIC_OPENMETRICS, OPENMETRICS_AS("1.0.0", "allow-utf-8")},
    {PROTOBUF_RANGE ";escaping=allow-utf-8;q=0.7,"
                    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                    "application/openmetrics-text;version=0.0.1;q=0.5,"
                    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
                    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
     METRIC_PROTOBUF, PROTOBUF_AS("allow-utf-8")},
    /* a scraper that wants text only, as scrape_protocols can say */
    {"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.4",
     METRIC_TEXT, TEXT},
    /* nobody asked, or asked for anything */
    {NULL, METRIC_TEXT, TEXT},
    {"", METRIC_TEXT, TEXT},
    {"*/*", METRIC_TEXT, TEXT},
    {"text/*", METRIC_TEXT, TEXT},
    {"application/*", METRIC_OPENMETRICS, OPENMETRICS},
    /* browsers */
    {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
     METRIC_TEXT, TEXT},
    /* versions */
    {"text/plain", METRIC_TEXT, TEXT},
    {"application/openmetrics-text", METRIC_OPENMETRICS, OPENMETRICS_AS("0.0.1", "underscores")},
    {"application/openmetrics-text;version=0.0.1", METRIC_OPENMETRICS,
     OPENMETRICS_AS("0.0.1", "underscores")},
    {"application/openmetrics-text;version=3.0.0", METRIC_TEXT, TEXT},
    {"text/plain;version=1.0.0, application/openmetrics-text;version=1.0.0;q=0.1",
     METRIC_OPENMETRICS, OPENMETRICS},
    {"application/openmetrics-text;version=\"1.0.0\"", METRIC_OPENMETRICS, OPENMETRICS},
    {"application/openmetrics-text;version=1.0.0;charset=utf-8", METRIC_OPENMETRICS, OPENMETRICS},
    {"application/openmetrics-text;version=1.0.0;charset=latin-1", METRIC_OPENMETRICS, OPENMETRICS},
    /* protobuf needs both of its parameters */
    {"application/vnd.google.protobuf", METRIC_TEXT, TEXT},
    {"application/vnd.google.protobuf;encoding=delimited", METRIC_TEXT, TEXT},
    {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
     METRIC_TEXT, TEXT},
    {PROTOBUF_RANGE ";q=0.1", METRIC_PROTOBUF, PROTOBUF},
    /* q decides, of equals the first; q=0 is a refusal */
    {"text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.5", METRIC_TEXT,
     TEXT},
    {"text/plain;q=0.499,application/openmetrics-text;version=1.0.0;q=0.5", METRIC_OPENMETRICS,
     OPENMETRICS},
    {"application/openmetrics-text;version=1.0.0;q=0, text/plain;q=0.001", METRIC_TEXT, TEXT},
    {"application/openmetrics-text;version=1.0.0;q=0", METRIC_TEXT, TEXT},
    {"application/openmetrics-text;version=1.0.0;q=0.000", METRIC_TEXT, TEXT},
    {"application/openmetrics-text;version=1.0.0;q=1.000,text/plain", METRIC_OPENMETRICS,
     OPENMETRICS},
    {"text/plain;q=0.9,application/openmetrics-text;version=1.0.0;q=1.5", METRIC_OPENMETRICS,
     OPENMETRICS},
    {"text/plain;q=0.1,application/openmetrics-text;version=1.0.0;q=0,9", METRIC_TEXT, TEXT},
    /* no numbers */
    {"application/openmetrics-text;version=1.0.0;q=high", METRIC_TEXT, TEXT},
    {"application/openmetrics-text;version=1.0.0;q=", METRIC_TEXT, TEXT},
    {"application/openmetrics-text;version=1.0.0;q=-1", METRIC_TEXT, TEXT},
    {"application/openmetrics-text;version=1.0.0;q=0x1", METRIC_TEXT, TEXT},
    {"application/openmetrics-text;version=1.0.0;q=nan", METRIC_TEXT, TEXT},
    /* escaping */
    {"text/plain;escaping=dots", METRIC_TEXT, TEXT_AS("dots")},
    {"text/plain;escaping=values", METRIC_TEXT, TEXT_AS("values")},
    {"text/plain;escaping=\"allow-utf-8\"", METRIC_TEXT, TEXT_AS("allow-utf-8")},
    {"text/plain;escaping=sideways", METRIC_TEXT, TEXT},
    {"text/html;escaping=dots, text/plain", METRIC_TEXT, TEXT},
    {"*/*;escaping=values", METRIC_TEXT, TEXT_AS("values")},
    /* OpenMetrics 2.0, by its version alone */
    {"application/openmetrics-text;version=2.0.0", METRIC_OPENMETRICS_2,
     OPENMETRICS_AS("2.0.0", "underscores")},
    {"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=2.0.0",
     METRIC_OPENMETRICS_2, OPENMETRICS_AS("2.0.0", "underscores")},
    {"application/*", METRIC_OPENMETRICS, OPENMETRICS},
    /* spelling */
    {" Application/OpenMetrics-Text ; VERSION = 1.0.0 ; Q=0.9 , text/plain ; q=0.1 ",
     METRIC_OPENMETRICS, OPENMETRICS},
    {"application/openmetrics-text\t;\tversion=1.0.0", METRIC_OPENMETRICS, OPENMETRICS},
    {",,,application/openmetrics-text;version=1.0.0,,", METRIC_OPENMETRICS, OPENMETRICS},
    {"application/openmetrics-text;;version=1.0.0;", METRIC_OPENMETRICS, OPENMETRICS},
    /* a parameter that we do not know makes it another thing */
    {"application/openmetrics-text;version=1.0.0;profile=x", METRIC_TEXT, TEXT},
    /* what no client should send */
    {"text", METRIC_TEXT, TEXT},
    {"/", METRIC_TEXT, TEXT},
    {"*/", METRIC_TEXT, TEXT},
    {"/*", METRIC_TEXT, TEXT},
    {";", METRIC_TEXT, TEXT},
    {"\"", METRIC_TEXT, TEXT},
    {"\"\\", METRIC_TEXT, TEXT},
    {"text/plain;version=\"", METRIC_TEXT, TEXT},
    {"text/plain;version=\"0.0.4", METRIC_TEXT, TEXT},
    {"text/plain;version=\"\\", METRIC_TEXT, TEXT},
    {"x/y;a=\",application/openmetrics-text;version=1.0.0", METRIC_TEXT, TEXT},
    {"x/y;a=\",\",application/openmetrics-text;version=1.0.0", METRIC_OPENMETRICS, OPENMETRICS},
    {"x/y;a=\"\\\",\",application/openmetrics-text;version=1.0.0", METRIC_OPENMETRICS, OPENMETRICS},
    {"=,==;=,;=/=", METRIC_TEXT, TEXT},
};

static void test_accept(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct exposition_negotiated got = exposition_negotiate(cases[i].accept);
        if (got.format != cases[i].format)
            fail_msg("Accept: %s gave %s", cases[i].accept, got.content_type);
        assert_string_equal(got.content_type, cases[i].content_type);
    }
}

static void test_accept_encoding(void **state)
{
    static const struct {
        const char *header;
        bool gzip;
    } encodings[] = {
        {"gzip", true},
        {"GZIP", true},
        {"x-gzip", true},
        {"gzip, deflate, br", true},
        {"deflate, gzip;q=0.5", true},
        {"gzip;q=0.001", true},
        {"br;q=1.0, gzip;q=0.8, *;q=0.1", true},
        {"gzip ; q=1", true},
        {NULL, false},
        {"", false},
        {"identity", false},
        {"*", false}, /* it has to be listed */
        {"gzip;q=0", false},
        {"gzip;q=0.0", false},
        {"gzip;q=0.0001", false}, /* below the grammar's resolution */
        {"gzip;q=x", false},
        {"gzipped", false},
        {"deflate;gzip", false},
        {"\"gzip\"", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        if (exposition_accepts_gzip(encodings[i].header) != encodings[i].gzip)
            fail_msg("Accept-Encoding: %s", encodings[i].header);
    }
}

static void test_prefer(void **state)
{
    static const struct {
        const char *header;
        bool async;
        int64_t wait_s;
    } preferences[] = {
        {"wait=10", false, 10},
        {"Wait = 10", false, 10},
        {"wait=\"10\"; x=1", false, 10},
        {"wait=0", false, 0},
        {"wait=5, respond-async, wait=7", true, 5}, /* RFC 7240 2: the first one */
        {"wait=soon, wait=7", false, -1},
        {"wait", false, -1},
        {"wait=", false, -1},
        {"wait=-1", false, -1},
        {"wait=1.5", false, -1},
        {"wait=10s", false, -1},
        {"waits=3, x=\"wait=3\", return=minimal; wait=3", false, -1},
        {"wait=99999999999999999999999", false, 1000000000},
        {"respond-async", true, -1},
        {"Respond-Async", true, -1},
        {"wait=10, respond-async", true, 10},
        {"respond-async;foo=1 , wait=10", true, 10},
        {"respond-async=\"\"", true, -1}, /* RFC 7240 2: as good as no value */
        {"x=\"a, b\" ,\trespond-async", true, -1},
        {NULL, false, -1},
        {"", false, -1},
        {" , ;", false, -1},
        {"respond-asynchronously", false, -1},
        {"not-respond-async", false, -1},
        {"return=respond-async", false, -1},
        {"return=minimal; respond-async", false, -1},
        {"x=\"respond-async\"", false, -1},
        {"x=\"a, respond-async, b\"", false, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof preferences / sizeof *preferences; i++) {
        struct exporter_preferences read;
        exporter_read_prefer(preferences[i].header, &read);
        if (read.respond_async != preferences[i].async || read.wait_s != preferences[i].wait_s)
            fail_msg("Prefer: %s", preferences[i].header);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_accept_encoding),
        cmocka_unit_test(test_prefer),
    };
    return RUN_TESTS(tests);
}
