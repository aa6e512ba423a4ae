/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves registries over libmicrohttpd, as promhttp.h says. The threads of the daemon: one, or one
 * for each connection, as the program chose.
 *
 * An answer owns its scrape, which keeps the metrics alive that it reads, so the active registry
 * may change or be freed meanwhile. The count of scrapes is all that answers share.
 */
#include "lib/promhttp/promhttp.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/exposition/negotiate.h"
#include "lib/exposition/stream.h"
#include "lib/metrics/metric.h"
#include "lib/prom/prom_scrape.h"

enum {
    PAGE_MAGIC = 0x70687401,
    SCRAPES_MAX = 16,
    BLOCK_BYTES = 32 << 10, /* what libmicrohttpd asks for at a time */
    IDLE_SECONDS = 60,      /* a client that neither sends nor reads for so long is cut off */
};

/* One answer to a scrape. */
struct page {
    unsigned magic;
    struct metric_scrape_options options;
    prom_scrape_t *scrape;
    struct exposition_stream stream;
};

static _Atomic(prom_collector_registry_t *) active; /* NULL: the default one */
static atomic_uint scrapes;

void promhttp_set_active_collector_registry(prom_collector_registry_t *active_registry)
{
    atomic_store(&active, active_registry);
}

static prom_collector_registry_t *served_registry(void)
{
    prom_collector_registry_t *chosen = atomic_load(&active);
    return chosen ? chosen : __atomic_load_n(&PROM_COLLECTOR_REGISTRY_DEFAULT, __ATOMIC_ACQUIRE);
}

/* ---- a page --------------------------------------------------------------------------------- */

static bool take_slot(void)
{
    if (atomic_fetch_add(&scrapes, 1) < SCRAPES_MAX)
        return true;
    atomic_fetch_sub(&scrapes, 1);
    return false;
}

static void page_free(void *arg)
{
    struct page *page = arg;
    BASE_CHECK_MAGIC(page, PAGE_MAGIC);
    exposition_stream_close(&page->stream);
    prom_scrape_end(&page->scrape);
    page->magic = 0;
    free(page);
    atomic_fetch_sub(&scrapes, 1);
}

/* A slot was taken; it is returned with the page, or at once if there is none. */
static struct page *page_new(enum metric_format format, bool gzip)
{
    struct page *page = calloc(1, sizeof *page);
    if (!page) {
        atomic_fetch_sub(&scrapes, 1);
        return NULL;
    }
    page->magic = PAGE_MAGIC;
    page->options.format = format;
    page->scrape = prom_scrape_begin(served_registry(), &page->options);
    if (page->scrape &&
        exposition_stream_open(&page->stream, prom_scrape_reading(page->scrape), gzip))
        return page;
    page_free(page);
    return NULL;
}

static ssize_t read_scrape_page(void *arg, uint64_t position, char *bytes, size_t max)
{
    struct page *page = arg;
    BASE_CHECK_MAGIC(page, PAGE_MAGIC);
    (void)position;
    const ssize_t length = exposition_stream_read(&page->stream, bytes, max);
    return length > 0                 ? length
           : length == EXPOSITION_END ? MHD_CONTENT_READER_END_OF_STREAM
                                      : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* ---- answers -------------------------------------------------------------------------------- */

static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned status,
                                     struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    const enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* `text` is a constant; `name` and `value` are one header more, or NULL. */
static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status,
                                 const char *text, const char *name, const char *value)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                "text/plain; charset=utf-8");
        if (name)
            MHD_add_response_header(response, name, value);
    }
    return send_response(connection, status, response);
}

/* The lines of a header that may come several times, as one list: the first that is there, since
 * scrapers send one. */
static const char *first_header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result answer_metrics(struct MHD_Connection *connection)
{
    const struct exposition_negotiated negotiated =
        exposition_negotiate(first_header(connection, MHD_HTTP_HEADER_ACCEPT));
    const bool gzip =
        exposition_accepts_gzip(first_header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING));
    if (!take_slot())
        return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "too many scrapes at once; at most 16 are served\n",
                         MHD_HTTP_HEADER_RETRY_AFTER, "1");
    struct page *page = page_new(negotiated.format, gzip);
    if (!page)
        return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "out of memory, or the registry is gone\n", NULL, NULL);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_scrape_page, page, page_free);
    if (!response) {
        page_free(page);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, negotiated.content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Accept, Accept-Encoding");
    if (gzip)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    return send_response(connection, MHD_HTTP_OK, response);
}

/* libmicrohttpd calls with the headers, and once more for each piece of a body; whoever has a body
 * is answered before it. */
static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, /* NOLINT(readability-non-const-parameter) */
                              void **request)
{
    (void)arg;
    (void)version;
    (void)body;
    (void)body_size;
    (void)request;
    const bool metrics = strcmp(url, "/metrics") == 0;
    if (!metrics && strcmp(url, "/") != 0)
        return send_text(connection, MHD_HTTP_NOT_FOUND, "not found; try /metrics\n", NULL, NULL);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n",
                         MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    return metrics ? answer_metrics(connection)
                   : send_text(connection, MHD_HTTP_OK, "OK\n", NULL, NULL);
}

struct MHD_Daemon *promhttp_start_daemon(unsigned int flags, unsigned short port,
                                         MHD_AcceptPolicyCallback apc, void *apc_cls)
{
    return MHD_start_daemon(flags, port, apc, apc_cls, answer, NULL, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)IDLE_SECONDS, MHD_OPTION_END);
}
