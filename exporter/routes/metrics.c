/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scrape: what was negotiated, read from the registry in steps while it is sent.
 *
 * A step makes some 64 KiB of series when the socket has room for them, whether they can be sent
 * already or not, so a scrape of any size holds the loop for a step at most, and one slow scraper
 * costs one slot and one buffer, until the next scrape needs the slot (slots.h). A scraper tells
 * how long it will wait (X-Prometheus-Scrape-Timeout-Seconds); what is not sent by then is of no
 * use to it, so the connection is cut and the slot is free again.
 *
 * Thread: the web loop's. Only scrapes_max and created are written elsewhere.
 */
#include "exporter/routes/metrics.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exporter/http/problem.h"
#include "lib/base/check.h"
#include "lib/exposition/negotiate.h"
#include "lib/exposition/stream.h"

enum {
    SCRAPE_MAGIC = 0x5c7a9e00,
    CODE_CUT = 499,              /* a scrape that did not reach its last byte, as proxies log it */
    NAMES_MAX = 64,              /* ?name[]= filters; more are refused */
    TIMEOUT_MS_MAX = 600 * 1000, /* what a scraper may ask for */
};

struct scrape {
    unsigned magic;
    struct exporter_metrics_page *page;
    struct timespec began;
    bool head; /* asked by HEAD: there is nothing to send */
    struct metric_scrape_options options;
    const char *names[NAMES_MAX];
    char *name_text; /* holds what names point to */
    struct metric_scrape *reading;
    struct exposition_stream stream;
};

static double seconds_since(const struct timespec *began)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec) / 1e9;
}

static void scrape_free(struct scrape **scrape_pointer)
{
    struct scrape *scrape = *scrape_pointer;
    if (scrape == NULL)
        return;
    *scrape_pointer = NULL;
    BASE_CHECK_MAGIC(scrape, SCRAPE_MAGIC);
    exposition_stream_close(&scrape->stream);
    metric_scrape_end(&scrape->reading);
    free(scrape->name_text);
    free(scrape);
}

static void scrape_close(void *arg)
{
    struct scrape *scrape = arg;
    collectors_scrape_done(scrape->page->collectors,
                           scrape->stream.ended || scrape->head ? 200 : CODE_CUT,
                           seconds_since(&scrape->began));
    scrape_free(&scrape);
}

/* ---- the stream ----------------------------------------------------------------------------- */

static ssize_t read_scrape(void *arg, char *bytes, size_t max)
{
    struct scrape *scrape = arg;
    const ssize_t length = exposition_stream_read(&scrape->stream, bytes, max);
    if (length > 0)
        return length;
    return length == EXPOSITION_LATER ? EXPORTER_STREAM_LATER
           : length == EXPOSITION_END ? EXPORTER_STREAM_END
                                      : EXPORTER_STREAM_FAILED;
}

/* ---- the request ---------------------------------------------------------------------------- */

/* Copies the filter out of the request, whose strings end with its answer's first byte. */
static bool copy_names(struct scrape *scrape, const char **values, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += strlen(values[i]) + 1;
    scrape->name_text = malloc(total > 0 ? total : 1);
    if (scrape->name_text == NULL)
        return false;
    char *at = scrape->name_text;
    for (size_t i = 0; i < count; i++) {
        const size_t size = strlen(values[i]) + 1;
        memcpy(at, values[i], size);
        scrape->names[i] = at;
        at += size;
    }
    scrape->options.names = count > 0 ? scrape->names : NULL;
    scrape->options.nnames = count;
    return true;
}

static struct scrape *scrape_new(struct exporter_metrics_page *page, enum metric_format format,
                                 bool gzip, const char **names, size_t nnames)
{
    struct scrape *scrape = calloc(1, sizeof *scrape);
    if (scrape == NULL)
        return NULL;
    scrape->magic = SCRAPE_MAGIC;
    scrape->page = page;
    clock_gettime(CLOCK_MONOTONIC, &scrape->began);
    scrape->options.format = format;
    scrape->options.created = atomic_load(&page->created);
    if (copy_names(scrape, names, nnames))
        scrape->reading =
            metric_scrape_begin(collectors_registry(page->collectors), &scrape->options);
    if (scrape->reading == NULL || !exposition_stream_open(&scrape->stream, scrape->reading, gzip))
        scrape_free(&scrape);
    return scrape;
}

/* "9.5" as 9500; 0 where there is no such header, or nonsense in it. */
static int64_t scrape_timeout_ms(const struct exporter_request *request)
{
    const char *text = exporter_request_header(request, "X-Prometheus-Scrape-Timeout-Seconds");
    int64_t ms = 0;
    int64_t scale = 100;
    if (text == NULL)
        return 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        ms = ms * 10 + INT64_C(1000) * (*text - '0');
        if (ms > TIMEOUT_MS_MAX)
            return TIMEOUT_MS_MAX;
    }
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++, scale /= 10)
            ms += (*text - '0') * scale;
    }
    return *text == '\0' ? ms : 0;
}

static void refuse_scrape(struct exporter_request *request, struct exporter_metrics_page *page,
                          const struct exporter_problem *problem)
{
    collectors_scrape_done(page->collectors, (int)exporter_problem_status(problem), 0);
    exporter_respond_problem(request, problem);
}

static void respond_scrape(struct exporter_request *request, struct scrape *scrape,
                           const char *content_type)
{
    struct exporter_reply reply = {.status = 200, .content_type = content_type};
    reply.headers[0] = (struct exporter_header){"Vary", "Accept, Accept-Encoding"};
    if (scrape->stream.gzip != NULL)
        reply.headers[1] = (struct exporter_header){"Content-Encoding", "gzip"};
    const struct exporter_stream stream = {
        .read = read_scrape, .close = scrape_close, .arg = scrape};
    const int64_t timeout_ms = scrape_timeout_ms(request);
    if (timeout_ms > 0)
        exporter_request_limit_sending(request, timeout_ms);
    exporter_respond_stream(request, &reply, &stream);
}

static struct scrape *begin_scrape(struct exporter_request *request,
                                   struct exporter_metrics_page *page, enum metric_format format,
                                   const char **names, size_t nnames)
{
    const bool gzip =
        exposition_accepts_gzip(exporter_request_header_list(request, "Accept-Encoding"));
    struct scrape *scrape = scrape_new(page, format, gzip, names, nnames);
    if (scrape != NULL)
        scrape->head = strcmp(exporter_request_method(request), "HEAD") == 0;
    return scrape;
}

void exporter_route_metrics(struct exporter_request *request, void *context)
{
    static const struct exporter_problem too_many_names = {
        .code = HANDOFF_ERR_INVALID,
        .detail = "too many name[] parameters; at most 64 are allowed"};
    static const struct exporter_problem busy = {
        .code = HANDOFF_ERR_TOO_MANY_SCRAPES,
        .detail = "concurrent scrape limit reached (metrics.scrapes)",
        .header = {"Retry-After", "1"},
    };
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (scrape)"};
    struct exporter_metrics_page *page = context;
    const char *names[NAMES_MAX];
    const size_t nnames = exporter_request_query_all(request, "name[]", names, NAMES_MAX);
    const struct exposition_negotiated negotiated =
        exposition_negotiate(exporter_request_header_list(request, "Accept"));
    collectors_scrape_started(page->collectors);
    if (nnames > NAMES_MAX) {
        refuse_scrape(request, page, &too_many_names);
        return;
    }
    if (!exporter_slots_take(&page->slots, request, atomic_load(&page->scrapes_max))) {
        refuse_scrape(request, page, &busy);
        return;
    }
    struct scrape *scrape = begin_scrape(request, page, negotiated.format, names, nnames);
    if (scrape == NULL)
        refuse_scrape(request, page, &no_memory);
    else
        respond_scrape(request, scrape, negotiated.content_type);
}
