/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves registries over libmicrohttpd, as promhttp.h says. The threads of the daemon: one, or one
 * for each connection, as the program chose.
 *
 * An answer owns its scrape, which keeps the metrics alive that it reads, so the active registry
 * may change or be freed meanwhile. The list of the answers that have a place is all that they
 * share.
 */
#include "lib/promhttp/promhttp.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "lib/base/check.h"
#include "lib/exposition/negotiate.h"
#include "lib/exposition/stream.h"
#include "lib/metrics/metric.h"
#include "lib/prom/prom_scrape.h"

enum {
    PAGE_MAGIC = 0x70687401,
    SCRAPES_MAX = 16,
    LONG_MS = 10000,        /* Prometheus's default time-out: by then most scrapers have given up */
    BLOCK_BYTES = 32 << 10, /* what libmicrohttpd asks for at a time */
    IDLE_SECONDS = 60,      /* a client that neither sends nor reads for so long is cut off */
};

/* What is served: the id of a registry, or one of these. No registry has them. */
#define DEFAULT_REGISTRY UINT64_C(0)
#define NO_REGISTRY      UINT64_MAX

/* One answer to a scrape. */
struct page {
    unsigned magic;
    struct metric_scrape_options options;
    prom_scrape_t *scrape;
    struct exposition_stream stream;
    int socket;                     /* constant; open for as long as the page is listed */
    _Atomic(int64_t) sending_since; /* in ms; 0: it is still being made */
    _Atomic(uint64_t) bytes;        /* given to libmicrohttpd */

    struct page *next; /* under the lock; of those that have a place */
};

static _Atomic(uint64_t) active = DEFAULT_REGISTRY;

static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static struct page *pages; /* at most SCRAPES_MAX */

/* By the id, since another registry may get the address of one that was destroyed. */
void promhttp_set_active_collector_registry(prom_collector_registry_t *active_registry)
{
    const uint64_t id = prom_collector_registry_id(active_registry);
    atomic_store(&active, active_registry == NULL ? DEFAULT_REGISTRY : id == 0 ? NO_REGISTRY : id);
}

static prom_scrape_t *scrape_active_registry(const struct metric_scrape_options *options)
{
    const uint64_t id = atomic_load(&active);
    if (id != DEFAULT_REGISTRY)
        return prom_scrape_begin_id(id, options);
    return prom_scrape_begin(__atomic_load_n(&PROM_COLLECTOR_REGISTRY_DEFAULT, __ATOMIC_ACQUIRE),
                             options);
}

/* ---- places --------------------------------------------------------------------------------- */

static int64_t pace_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Under the lock. */
static void unlist_page(struct page *page)
{
    struct page **at = &pages;
    while (*at != NULL && *at != page)
        at = &(*at)->next;
    if (*at != NULL)
        *at = page->next;
}

/* Under the lock: bytes per millisecond, if the answer has been read for so long that it may give
 * way; otherwise infinity. */
static double pace_of(struct page *page, int64_t now)
{
    const int64_t since = atomic_load(&page->sending_since);
    if (since == 0 || now - since < LONG_MS)
        return INFINITY;
    return (double)atomic_load(&page->bytes) / (double)(now - since);
}

/* Under the lock, so that the socket is still that of the page: closes the connection that reads
 * most slowly. Its daemon notices, and frees the page. */
static void cut_slowest_page(void)
{
    const int64_t now = pace_clock_ms();
    struct page *slowest = NULL;
    for (struct page *page = pages; page != NULL; page = page->next) {
        if (pace_of(page, now) < (slowest != NULL ? pace_of(slowest, now) : INFINITY))
            slowest = page;
    }
    if (slowest == NULL)
        return;
    unlist_page(slowest);
    shutdown(slowest->socket, SHUT_RDWR);
}

/* Under the lock. */
static size_t count_pages(void)
{
    size_t count = 0;
    for (const struct page *page = pages; page != NULL; page = page->next)
        count++;
    return count;
}

static bool claim_place(struct page *page)
{
    pthread_mutex_lock(&pages_lock);
    if (count_pages() >= SCRAPES_MAX)
        cut_slowest_page();
    const bool has_place = count_pages() < SCRAPES_MAX;
    if (has_place) {
        page->next = pages;
        pages = page;
    }
    pthread_mutex_unlock(&pages_lock);
    return has_place;
}

/* ---- a page --------------------------------------------------------------------------------- */

static void page_free(void *arg)
{
    struct page *page = arg;
    BASE_CHECK_MAGIC(page, PAGE_MAGIC);
    pthread_mutex_lock(&pages_lock);
    unlist_page(page);
    pthread_mutex_unlock(&pages_lock);
    exposition_stream_close(&page->stream);
    prom_scrape_end(&page->scrape);
    page->magic = 0;
    free(page);
}

/* Without a place, and without a scrape yet. NULL: out of memory. */
static struct page *page_new(struct MHD_Connection *connection, enum metric_format format)
{
    struct page *page = calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->magic = PAGE_MAGIC;
    page->options.format = format;
    page->socket =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    return page;
}

/* false: no memory, or no registry. */
static bool page_open(struct page *page, bool gzip)
{
    page->scrape = scrape_active_registry(&page->options);
    if (!page->scrape)
        return false;
    if (!exposition_stream_open(&page->stream, prom_scrape_reading(page->scrape), gzip))
        return false;
    atomic_store(&page->sending_since, pace_clock_ms());
    return true;
}

static ssize_t read_scrape_page(void *arg, uint64_t position, char *bytes, size_t max)
{
    struct page *page = arg;
    BASE_CHECK_MAGIC(page, PAGE_MAGIC);
    (void)position;
    ssize_t length;
    do {
        length = exposition_stream_read(&page->stream, bytes, max);
    } while (length ==
             EXPOSITION_LATER); /* the loop is libmicrohttpd's, and has nothing else to do */
    if (length > 0)
        atomic_fetch_add(&page->bytes, (uint64_t)length);
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

/* NULL: there is none. A header may come in several lines; the first is enough, since scrapers send
 * one. */
static const char *first_header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* The page belongs to the response from now on. An answer without one of these headers would be
 * read wrongly, so there is none then. */
static enum MHD_Result send_page(struct MHD_Connection *connection, struct page *page,
                                 const char *content_type, bool gzip)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_scrape_page, page, page_free);
    if (!response) {
        page_free(page);
        return MHD_NO;
    }
    if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Accept, Accept-Encoding") &&
        (!gzip || MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip")))
        return send_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return MHD_NO;
}

static enum MHD_Result answer_metrics(struct MHD_Connection *connection)
{
    static const char failed[] = "out of memory, or the registry is gone\n";
    const struct exposition_negotiated negotiated =
        exposition_negotiate(first_header(connection, MHD_HTTP_HEADER_ACCEPT));
    const bool gzip =
        exposition_accepts_gzip(first_header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING));
    struct page *page = page_new(connection, negotiated.format);
    if (!page)
        return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, failed, NULL, NULL);
    if (!claim_place(page)) {
        page_free(page);
        return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "too many scrapes at once; at most 16 are served\n",
                         MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    if (!page_open(page, gzip)) {
        page_free(page);
        return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, failed, NULL, NULL);
    }
    return send_page(connection, page, negotiated.content_type, gzip);
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
