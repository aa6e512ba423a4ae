/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts over libcurl. It takes every URL, and fails those that are neither http nor https. The
 * thread of the loop.
 *
 * Curl is given connections that we dialled (dial.h), so that names and addresses are treated as
 * they are for plain HTTP. Only curl knows whether it has an idle connection for a post, so a post
 * is started without one. When curl asks for a new connection, the post is stopped, the host is
 * dialled, and the post is started again with what was dialled. No byte was sent by then.
 */
#include "client/transport/curl_transfer.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <unistd.h>

#include "client/transport/curl_loop.h"
#include "client/transport/dial.h"
#include "client/transport/http_answer.h"
#include "client/transport/retry_after.h"
#include "lib/base/buffer.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/memory.h"

enum {
    TRANSFERS_MAGIC = 0x63757278u,
    TRANSFER_MAGIC = 0x78666572u,
    RECEIVE_BUFFER = 1024, /* an acknowledgement is short, and each waiting transfer has a buffer */
    LONG_ANSWER_BUFFER = 16 * 1024,
    ACK_HEADER_MAX = 80, /* longer than any handoff id, so a truncated one never matches */
};

/* Of names in other alphabets, name servers know the form in ASCII. */
#if LIBCURL_VERSION_NUM >= 0x075800
#define HOST_FLAGS CURLU_PUNYCODE
#else
#define HOST_FLAGS 0
#endif

/* One easy handle with what belongs to its transfer. Pooled. */
struct curl_transfer {
    struct handoff_transfer transfer;
    struct handoff_curl_job job;
    unsigned magic;
    struct curl_transfers *owner;
    struct handoff_post *post; /* NULL in the pool */
    struct curl_transfer *next_free;
    int64_t began_ns;
    char *host; /* of the post's URL, for dialling; NULL: curl rejects the URL */
    uint16_t port;
    struct handoff_dial *dial; /* NULL: none in progress */
    bool is_due;               /* it is in the list of those that settle looks at ... */
    bool dial_failed;          /* ... to end it with its failure; else to dial */
    struct handoff_failure failure;
    TAILQ_ENTRY(curl_transfer) due;
    char *resolve_text; /* keeps curl from resolving the name */
    struct curl_slist resolve;
    bool has_tls;     /* an agent's own TLS options are set */
    size_t head_size; /* read so far */
    bool head_whole;
    bool is_interim; /* another head follows */
    bool chunked;
    char ack_header[ACK_HEADER_MAX];
    bool ack_header_seen;
    char retry_after[HANDOFF_RETRY_AFTER_SIZE]; /* "": none */
    struct base_buffer body;
    struct curl_slist headers[HANDOFF_TRANSPORT_HEADERS_MAX + 2];
};

TAILQ_HEAD(curl_transfer_list, curl_transfer);

struct curl_transfers {
    unsigned magic;
    const struct base_clock *clock;
    const struct handoff_dialer *dialer;
    struct handoff_curl *curl;
    struct curl_transfer *free;
    struct curl_transfer_list due;
    size_t in_progress;
};

/* ---- receiving ------------------------------------------------------------------------------ */

static size_t on_body(char *data, size_t one, size_t size, void *arg)
{
    (void)one;
    struct curl_transfer *transfer = arg;
    BASE_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    base_buffer_append(&transfer->body, data, size);
    return transfer->body.failed ? 0 : size; /* 0 aborts: too long, or out of memory */
}

static int64_t connect_ms(const struct handoff_post *post)
{
    return post->timeout_ms < HANDOFF_TRANSPORT_CONNECT_MS ? post->timeout_ms
                                                           : HANDOFF_TRANSPORT_CONNECT_MS;
}

static void forget_headers(struct curl_transfer *transfer)
{
    transfer->head_whole = false;
    transfer->is_interim = false;
    transfer->chunked = false;
    transfer->ack_header_seen = false;
    transfer->retry_after[0] = '\0';
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static bool is_header(const char *line, size_t size, const char *name)
{
    return size >= strlen(name) && strncasecmp(line, name, strlen(name)) == 0;
}

/* Copies the header's value, truncated to the room; false: it is another header. */
static bool take_value(const char *line, size_t size, const char *name, char *value, size_t room)
{
    if (!is_header(line, size, name))
        return false;
    const char *from = line + strlen(name), *end = line + size;
    while (from < end && is_blank(*from))
        from++;
    while (end > from && is_blank(end[-1]))
        end--;
    size_t length = (size_t)(end - from) < room ? (size_t)(end - from) : room - 1;
    memcpy(value, from, length);
    value[length] = '\0';
    return true;
}

/* An answer may follow one or more interim ones (1xx), whose headers say nothing of it. */
static void begin_head(struct curl_transfer *transfer, const char *line, size_t size)
{
    const char *space = memchr(line, ' ', size);
    forget_headers(transfer);
    transfer->is_interim = space && space + 1 < line + size && space[1] == '1';
}

static size_t on_header(char *line, size_t one, size_t size, void *arg)
{
    (void)one;
    struct curl_transfer *transfer = arg;
    BASE_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    transfer->head_size += size;
    if (transfer->head_size > HANDOFF_HTTP_HEAD_MAX)
        return 0; /* aborts */
    transfer->chunked |= is_header(line, size, "Transfer-Encoding:");
    transfer->head_whole |= *line == '\r' || *line == '\n';
    if (is_header(line, size, "HTTP/") && (!transfer->head_whole || transfer->is_interim))
        begin_head(transfer, line, size);
    else if (transfer->head_whole) /* a trailer: says nothing that counts, see http_answer.c */
        return size;
    else if (take_value(line, size, "Handoff-Ack:", transfer->ack_header,
                        sizeof transfer->ack_header))
        transfer->ack_header_seen = true;
    else
        take_value(line, size, "Retry-After:", transfer->retry_after, sizeof transfer->retry_after);
    return size;
}

/* An answer without a length ends with its connection. Without close_notify, TLS cannot say whether
 * it is complete, but parsing its JSON can, so it is accepted as over plain HTTP, with any TLS
 * library. */
static bool ended_with_connection(const struct curl_transfer *transfer, CURLcode code)
{
    curl_off_t length = 0;
    curl_easy_getinfo(transfer->job.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return handoff_curl_ended_without_notify(&transfer->job, code) && transfer->head_whole &&
           !transfer->chunked && length < 0;
}

static struct handoff_failure failure_of(const struct curl_transfer *transfer, CURLcode code)
{
    if (transfer->body.failed)
        return (struct handoff_failure){.fault = HANDOFF_FAULT_BODY_SIZE};
    if (transfer->head_size > HANDOFF_HTTP_HEAD_MAX)
        return (struct handoff_failure){.fault = HANDOFF_FAULT_HEAD_SIZE};
    if (code != CURLE_OK && !ended_with_connection(transfer, code))
        return handoff_curl_failure(&transfer->job, code, connect_ms(transfer->post),
                                    transfer->post->timeout_ms);
    if (!transfer->head_whole) /* curl accepts the end of the connection as the end of the head */
        return (struct handoff_failure){.fault = HANDOFF_FAULT_BROKE_OFF};
    return (struct handoff_failure){.fault = HANDOFF_FAULT_NONE};
}

static void read_curl_answer(struct curl_transfer *transfer, const struct handoff_failure *failure,
                             struct handoff_answer *answer)
{
    *answer = (struct handoff_answer){0};
    if (failure->fault != HANDOFF_FAULT_NONE) {
        answer->failure = handoff_fault_result(failure->fault);
        answer->fault = failure->fault;
        answer->shortage = handoff_fault_shortage(failure->fault);
        return;
    }
    long status = 0;
    curl_easy_getinfo(transfer->job.easy, CURLINFO_RESPONSE_CODE, &status);
    answer->answered = true;
    answer->status = (int)status;
    answer->ack_header = transfer->ack_header_seen ? transfer->ack_header : NULL;
    answer->body = transfer->body.data;
    answer->body_size = transfer->body.size;
    answer->retry_after_ms =
        handoff_retry_after_ms(transfer->retry_after, base_wall_ms(transfer->owner->clock));
}

static void read_curl_facts(struct curl_transfer *transfer, const struct handoff_failure *failure,
                            struct handoff_transport_facts *facts)
{
    *facts = (struct handoff_transport_facts){0};
    facts->duration_us = (base_monotonic_ns(transfer->owner->clock) - transfer->began_ns) / 1000;
    const char *address = NULL;
    long port = 0;
    curl_easy_getinfo(transfer->job.easy, CURLINFO_PRIMARY_IP, &address);
    curl_easy_getinfo(transfer->job.easy, CURLINFO_PRIMARY_PORT, &port);
    if (address && *address && !transfer->dial_failed)
        snprintf(facts->peer, sizeof facts->peer, strchr(address, ':') ? "[%s]:%ld" : "%s:%ld",
                 address, port);
    handoff_failure_write(failure, facts->error, sizeof facts->error);
}

/* ---- transfers ------------------------------------------------------------------------------ */

/* Settings that never change; curl_easy_reset clears them. */
static bool set_transfer_defaults(struct curl_transfer *transfer)
{
    CURL *easy = transfer->job.easy;
    bool failed = !handoff_curl_prepare(transfer->owner->curl, &transfer->job);
#define SET(option, value) failed |= curl_easy_setopt(easy, option, value) != CURLE_OK
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_USERAGENT, "handoff-exporter/" HANDOFF_VERSION);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, transfer);
#undef SET
    transfer->has_tls = false;
    return !failed;
}

static void curl_transfer_ended(struct handoff_curl_job *job, CURLcode code);

static void wants_dial(struct handoff_curl_job *job);

/* What belongs to one post. */
static void forget_target(struct curl_transfer *transfer)
{
    handoff_dial_cancel(&transfer->dial);
    if (transfer->is_due)
        TAILQ_REMOVE(&transfer->owner->due, transfer, due);
    transfer->is_due = transfer->dial_failed = false;
    if (transfer->job.fd >= 0) /* curl has not come to take it */
        handoff_dialled_close(transfer->owner->dialer, transfer->job.fd);
    transfer->job.fd = -1;
    base_free(transfer->host);
    base_free(transfer->resolve_text);
    transfer->host = transfer->resolve_text = NULL;
}

static void free_transfer(struct curl_transfer *transfer)
{
    forget_target(transfer);
    curl_easy_cleanup(transfer->job.easy);
    base_buffer_free(&transfer->body);
    base_free(transfer);
}

static struct curl_transfer *new_transfer(struct curl_transfers *transfers)
{
    struct curl_transfer *transfer = base_calloc(1, sizeof *transfer);
    if (!transfer)
        return NULL;
    transfer->transfer.driver = &handoff_curl_driver;
    transfer->job.ended = curl_transfer_ended;
    transfer->job.wants_connection = wants_dial;
    transfer->job.fd = -1;
    transfer->magic = TRANSFER_MAGIC;
    transfer->owner = transfers;
    transfer->body.limit = HANDOFF_TRANSPORT_ANSWER_MAX;
    transfer->job.easy = curl_easy_init();
    if (!transfer->job.easy || !set_transfer_defaults(transfer)) {
        free_transfer(transfer);
        return NULL;
    }
    return transfer;
}

static struct curl_transfer *take_transfer(struct curl_transfers *transfers)
{
    struct curl_transfer *transfer = transfers->free;
    if (!transfer)
        return new_transfer(transfers);
    transfers->free = transfer->next_free;
    transfer->next_free = NULL;
    return transfer;
}

/* A handle keeps the errno of a failure and would report it for a later one, so it is not reused.
 */
static void return_transfer(struct curl_transfer *transfer, bool failed)
{
    struct curl_transfers *transfers = transfer->owner;
    BASE_CHECK(transfers->in_progress > 0);
    transfer->post->transfer = NULL;
    transfer->post = NULL;
    transfers->in_progress--;
    if (failed) {
        free_transfer(transfer);
        return;
    }
    forget_target(transfer);
    base_buffer_free(&transfer->body); /* a pool of thousands must not keep thousands of bodies */
    transfer->next_free = transfers->free;
    transfers->free = transfer;
}

/* Adds an empty `Expect:`, or curl would wait for 100 Continue before a body of more than 1 MiB. */
static struct curl_slist *link_headers(struct curl_transfer *transfer,
                                       const struct handoff_post *post)
{
    BASE_CHECK(post->nheaders <= HANDOFF_TRANSPORT_HEADERS_MAX);
    struct curl_slist *list = &transfer->headers[HANDOFF_TRANSPORT_HEADERS_MAX];
    *list = (struct curl_slist){.data = (char *)(uintptr_t) "Expect:"}; /* curl only reads it */
    if (post->variant) {
        list[1] = (struct curl_slist){.data = (char *)(uintptr_t)post->variant->accept};
        list->next = &list[1];
    }
    for (size_t i = post->nheaders; i-- > 0;) {
        struct curl_slist *header = &transfer->headers[i];
        *header = (struct curl_slist){(char *)(uintptr_t)post->headers[i], list};
        list = header;
    }
    return list;
}

/* Curl's default folder would count beside the file, and be read for each connection. */
static bool set_authorities(CURL *easy, const char *ca_file)
{
    return !ca_file || (curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file) == CURLE_OK &&
                        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK);
}

static bool set_tls(struct curl_transfer *transfer, const struct handoff_tls *tls)
{
    if (transfer->has_tls) { /* another agent's files: reset to the system's */
        curl_easy_reset(transfer->job.easy);
        if (!set_transfer_defaults(transfer))
            return false;
    }
    if (!tls)
        return true;
    transfer->has_tls = true;
    CURL *easy = transfer->job.easy;
    return set_authorities(easy, tls->ca_file) &&
           (!tls->cert_file ||
            curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert_file) == CURLE_OK) &&
           (!tls->key_file || curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key_file) == CURLE_OK);
}

/* Brackets are of the URL, not of the address in them. NULL: out of memory. */
static char *write_target(const char *host, const char *zone)
{
    const bool bracketed = host[0] == '[';
    struct base_buffer text = {0};
    base_buffer_append(&text, host + bracketed, strcspn(host + bracketed, "]"));
    if (zone)
        base_buffer_printf(&text, "%%%s", zone);
    char *copy = text.failed ? NULL : base_strdup(text.data);
    base_buffer_free(&text);
    return copy;
}

/* The host of the URL, as curl reads it. False: out of memory. */
static bool read_target(struct curl_transfer *transfer, const char *text)
{
    char *host = NULL, *port = NULL, *zone = NULL;
    CURLU *url = curl_url();
    CURLUcode code = url ? curl_url_set(url, CURLUPART_URL, text, 0) : CURLUE_OUT_OF_MEMORY;
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_HOST, &host, HOST_FLAGS);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    if (code == CURLUE_OK && curl_url_get(url, CURLUPART_ZONEID, &zone, 0) == CURLUE_OUT_OF_MEMORY)
        code = CURLUE_OUT_OF_MEMORY;
    if (code == CURLUE_OK) {
        transfer->host = write_target(host, zone);
        transfer->port = (uint16_t)strtoul(port, NULL, 10);
    }
    const bool good = code == CURLUE_OK ? transfer->host != NULL : code != CURLUE_OUT_OF_MEMORY;
    curl_free(host);
    curl_free(port);
    curl_free(zone);
    curl_url_cleanup(url);
    return good;
}

/* Curl asks for a socket only when it knows an address. This one is never used. */
static bool keep_from_resolving(struct curl_transfer *transfer)
{
    CURL *easy = transfer->job.easy;
    if (!transfer->host || strchr(transfer->host, ':'))
        return curl_easy_setopt(easy, CURLOPT_RESOLVE, NULL) == CURLE_OK;
    struct base_buffer text = {0};
    base_buffer_printf(&text, "%s:%d:127.0.0.1", transfer->host, transfer->port);
    transfer->resolve_text = text.failed ? NULL : base_strdup(text.data);
    base_buffer_free(&text);
    transfer->resolve = (struct curl_slist){.data = transfer->resolve_text};
    return transfer->resolve_text &&
           curl_easy_setopt(easy, CURLOPT_RESOLVE, &transfer->resolve) == CURLE_OK;
}

static int64_t spent_of(const struct curl_transfer *transfer)
{
    return (base_monotonic_ns(transfer->owner->clock) - transfer->began_ns) / 1000000;
}

/* Not 0, which would be no time-out to curl. */
static long left_of(int64_t timeout_ms, int64_t spent_ms)
{
    return timeout_ms > spent_ms ? (long)(timeout_ms - spent_ms) : 1;
}

/* The method comes after the body, which would make it a POST. */
static bool set_request(CURL *easy, const struct handoff_post *post)
{
    const bool has_body = post->size > 0 || !post->variant;
    return curl_easy_setopt(easy, CURLOPT_URL, post->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, post->body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->size) ==
               CURLE_OK &&
           curl_easy_setopt(easy, has_body ? CURLOPT_POST : CURLOPT_HTTPGET, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST,
                            post->variant ? post->variant->method : NULL) == CURLE_OK;
}

static bool set_up_transfer(struct curl_transfer *transfer, const struct handoff_post *post)
{
    CURL *easy = transfer->job.easy;
    const long buffer = post->variant ? LONG_ANSWER_BUFFER : RECEIVE_BUFFER;
    transfer->body.limit = post->variant ? post->variant->answer_max : HANDOFF_TRANSPORT_ANSWER_MAX;
    return set_tls(transfer, post->tls) && set_request(easy, post) &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, (long)post->fresh) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, link_headers(transfer, post)) == CURLE_OK &&
           read_target(transfer, post->url) && keep_from_resolving(transfer);
}

/* With the time that is left of the post's. */
static bool run_transfer(struct curl_transfer *transfer)
{
    CURL *easy = transfer->job.easy;
    const struct handoff_post *post = transfer->post;
    const int64_t spent_ms = spent_of(transfer);
    transfer->head_size = 0;
    forget_headers(transfer);
    base_buffer_clear(&transfer->body);
    return curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, left_of(post->timeout_ms, spent_ms)) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, left_of(connect_ms(post), spent_ms)) ==
               CURLE_OK &&
           handoff_curl_start(transfer->owner->curl, &transfer->job);
}

static enum handoff_post_start start_curl_transfer(void *state, struct handoff_post *post)
{
    struct curl_transfers *transfers = state;
    BASE_CHECK_MAGIC(transfers, TRANSFERS_MAGIC);
    struct curl_transfer *transfer = take_transfer(transfers);
    if (!transfer)
        return HANDOFF_POST_NO_MEMORY;
    transfer->post = post;
    transfer->began_ns = base_monotonic_ns(transfers->clock);
    if (!set_up_transfer(transfer, post) || !run_transfer(transfer)) {
        free_transfer(transfer);
        return HANDOFF_POST_NO_MEMORY;
    }
    post->transfer = &transfer->transfer;
    transfers->in_progress++;
    return HANDOFF_POST_STARTED;
}

static void cancel_curl_transfer(struct handoff_transfer *base)
{
    struct curl_transfer *transfer = (struct curl_transfer *)base;
    BASE_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    handoff_curl_stop(transfer->owner->curl, &transfer->job);
    return_transfer(transfer, false);
}

static void finish_transfer(struct curl_transfer *transfer, const struct handoff_failure *failure,
                            bool failed)
{
    struct handoff_answer answer;
    struct handoff_transport_facts facts;
    read_curl_answer(transfer, failure, &answer);
    read_curl_facts(transfer, failure, &facts);
    handoff_curl_stop(transfer->owner->curl, &transfer->job);

    /* keep the answer's body until `done` has returned */
    struct handoff_post *post = transfer->post;
    struct base_buffer body = transfer->body;
    transfer->body = (struct base_buffer){.limit = HANDOFF_TRANSPORT_ANSWER_MAX};
    char ack_header[ACK_HEADER_MAX];
    if (answer.ack_header) {
        memcpy(ack_header, transfer->ack_header, sizeof ack_header);
        answer.ack_header = ack_header;
    }
    return_transfer(transfer, failed || !answer.answered);
    answer.keep = &body;
    post->done(post, &answer, &facts);
    base_buffer_free(&body);
}

static void curl_transfer_ended(struct handoff_curl_job *job, CURLcode code)
{
    struct curl_transfer *transfer = BASE_CONTAINER_OF(job, struct curl_transfer, job);
    BASE_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    if (transfer->is_due) /* curl gave up because we had no connection for it */
        return;
    const struct handoff_failure failure = failure_of(transfer, code);
    finish_transfer(transfer, &failure, code != CURLE_OK);
}

/* ---- dialling ------------------------------------------------------------------------------- */

static void make_due(struct curl_transfer *transfer)
{
    if (!transfer->is_due)
        TAILQ_INSERT_TAIL(&transfer->owner->due, transfer, due);
    transfer->is_due = true;
}

/* Called from within curl, which must not be called then. */
static void wants_dial(struct handoff_curl_job *job)
{
    make_due(BASE_CONTAINER_OF(job, struct curl_transfer, job));
}

static void fail_transfer(struct curl_transfer *transfer, struct handoff_failure failure)
{
    if (failure.within_ms > 0)
        failure.within_ms = connect_ms(transfer->post); /* of which the dial had what was left */
    transfer->failure = failure;
    transfer->dial_failed = true;
    make_due(transfer);
}

static void transfer_dialled(void *arg, const struct handoff_dialled *dialled)
{
    struct curl_transfer *transfer = arg;
    BASE_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    transfer->dial = NULL;
    if (dialled->fd < 0) {
        fail_transfer(transfer, dialled->failure);
        return;
    }
    transfer->job.fd = dialled->fd;
    transfer->job.address = dialled->address;
    /* which it takes even if another connection has become idle meanwhile */
    if (curl_easy_setopt(transfer->job.easy, CURLOPT_FRESH_CONNECT, 1L) != CURLE_OK ||
        !run_transfer(transfer))
        fail_transfer(transfer, (struct handoff_failure){.fault = HANDOFF_FAULT_MEMORY});
}

static void dial_for(struct curl_transfer *transfer)
{
    struct curl_transfers *transfers = transfer->owner;
    handoff_curl_stop(transfers->curl, &transfer->job);
    if (transfer->host)
        transfer->dial = handoff_dial_start(transfers->dialer, transfer->host, transfer->port,
                                            left_of(connect_ms(transfer->post), spent_of(transfer)),
                                            transfer_dialled, transfer);
    if (!transfer->dial) {
        const struct handoff_failure failure = {.fault = HANDOFF_FAULT_MEMORY};
        finish_transfer(transfer, &failure, true);
    }
}

static void settle_curl_transfers(void *state)
{
    struct curl_transfers *transfers = state;
    struct curl_transfer *transfer;
    BASE_CHECK_MAGIC(transfers, TRANSFERS_MAGIC);
    while ((transfer = TAILQ_FIRST(&transfers->due)) != NULL) {
        TAILQ_REMOVE(&transfers->due, transfer, due);
        transfer->is_due = false;
        if (transfer->dial_failed)
            finish_transfer(transfer, &transfer->failure, true);
        else
            dial_for(transfer);
    }
}

/* ---- the driver ----------------------------------------------------------------------------- */

static void *open_curl_transfers(const struct handoff_transport_loop *loop)
{
    struct curl_transfers *transfers = base_calloc(1, sizeof *transfers);
    if (!transfers)
        return NULL;
    transfers->magic = TRANSFERS_MAGIC;
    transfers->clock = loop->clock;
    transfers->curl = loop->curl;
    transfers->dialer = loop->dialer;
    TAILQ_INIT(&transfers->due);
    return transfers;
}

static void close_curl_transfers(void *state)
{
    struct curl_transfers *dying = state;
    BASE_CHECK_MAGIC(dying, TRANSFERS_MAGIC);
    BASE_CHECK(dying->in_progress == 0);
    for (struct curl_transfer *next; dying->free; dying->free = next) {
        next = dying->free->next_free;
        free_transfer(dying->free);
    }
    dying->magic = 0;
    base_free(dying);
}

const struct handoff_transport_driver handoff_curl_driver = {
    .name = "curl",
    .open = open_curl_transfers,
    .start = start_curl_transfer,
    .cancel = cancel_curl_transfer,
    .settle = settle_curl_transfers,
    .close = close_curl_transfers,
};
