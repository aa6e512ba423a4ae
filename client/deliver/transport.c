/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Curl tells through one callback which sockets it wants watched, and through another when it wants
 * to be called next. Both are answered here, in the loop's own poller and timers.
 *
 * A socket that we opened stays in epoll when curl loses interest in it (its transfer ended, the
 * connection is kept): the next transfer asks for the same events, and nothing has to change. If
 * something happens on it meanwhile, the agent closed it; it is then forgotten, and curl finds out
 * by itself. Sockets that curl opened for its own use (its resolver's) are forgotten at once,
 * because they are closed behind our back.
 */
#include "client/deliver/transport.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/base/buffer.h"
#include "client/base/check.h"
#include "client/base/error.h"
#include "client/base/memory.h"

enum {
    TRANSPORT_MAGIC = 0x74726e73u,
    TRANSFER_MAGIC = 0x78666572u,
    CONNECTIONS_KEPT = 16384, /* above any number in use, or curl closes warm ones under load */
    RECEIVE_BUFFER = 1024,    /* an acknowledgement is short, and each waiting transfer holds one */
    ACK_HEADER_MAX = 80,
    RETRY_AFTER_MAX_S = 3600, /* longer is a person's business, not a back-off */
};

/* A socket, found by its number. Made once for each number and kept until the end. */
struct socket {
    struct handoff_watch watch;
    struct handoff_transport *transport;
    int fd;
    uint32_t events; /* as registered in epoll; 0: not there */
    bool wanted;     /* curl asked for events, and not yet for none */
    bool ours;       /* opened and closed through our callbacks */
};

/* One easy handle with what belongs to its transfer. Pooled. */
struct handoff_transfer {
    unsigned magic;
    CURL *easy;
    struct handoff_transport *transport;
    struct handoff_post *post; /* NULL in the pool */
    struct handoff_transfer *next_free;
    bool has_tls; /* options of an agent's own were set */
    char error[CURL_ERROR_SIZE];
    char ack_header[ACK_HEADER_MAX];
    bool ack_header_seen;
    struct handoff_buffer body;
    struct curl_slist headers[HANDOFF_TRANSPORT_HEADERS_MAX];
};

struct handoff_transport {
    unsigned magic;
    CURLM *multi;
    struct handoff_poller *poller;
    struct handoff_timers *timers;
    const struct handoff_clock *clock;
    struct handoff_timer timer;
    struct socket **sockets; /* by descriptor */
    size_t nsockets;
    struct handoff_transfer *free;
    size_t under_way;
};

/* ---- sockets -------------------------------------------------------------------------------- */

static void socket_ready(struct handoff_watch *watch, uint32_t events);

static bool grow_sockets(struct handoff_transport *transport, size_t fd)
{
    size_t count = transport->nsockets ? transport->nsockets : 64;
    while (count <= fd)
        count *= 2;
    struct socket **sockets = handoff_realloc(transport->sockets, count * sizeof sockets[0]);
    if (!sockets)
        return false;
    memset(sockets + transport->nsockets, 0, (count - transport->nsockets) * sizeof sockets[0]);
    transport->sockets = sockets;
    transport->nsockets = count;
    return true;
}

static struct socket *socket_of(struct handoff_transport *transport, int fd)
{
    HANDOFF_CHECK(fd >= 0);
    if ((size_t)fd >= transport->nsockets && !grow_sockets(transport, (size_t)fd))
        return NULL;
    struct socket **place = &transport->sockets[fd];
    if (!*place && (*place = handoff_calloc(1, sizeof **place)) != NULL) {
        (*place)->watch.ready = socket_ready;
        (*place)->transport = transport;
        (*place)->fd = fd;
    }
    return *place;
}

static void forget(struct socket *socket)
{
    if (socket->events)
        handoff_poller_forget(socket->transport->poller, socket->fd);
    socket->events = 0;
}

static void watch_for(struct socket *socket, uint32_t events)
{
    if (socket->events == events)
        return;
    int failed =
        handoff_poller_watch(socket->transport->poller, socket->fd, events, &socket->watch);
    /* no memory in the kernel: the transfer runs into its time-out, and is tried again */
    socket->events = failed ? 0 : events;
}

static void socket_ready(struct handoff_watch *watch, uint32_t events)
{
    struct socket *socket = (struct socket *)watch;
    if (!socket->wanted) {
        forget(socket);
        return;
    }
    int bits = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
               (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;
    curl_multi_socket_action(socket->transport->multi, socket->fd, bits, &running);
}

/* curl: which events it wants of a socket. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
    (void)easy, (void)unused;
    struct handoff_transport *transport = arg;
    HANDOFF_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    struct socket *socket = socket_of(transport, fd);
    if (!socket)
        return -1; /* curl fails the transfer */
    socket->wanted = what != CURL_POLL_REMOVE;
    if (socket->wanted)
        watch_for(socket,
                  (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u));
    else if (!socket->ours)
        forget(socket);
    else if (socket->events & EPOLLOUT) /* always true of an idle connection: it would spin */
        watch_for(socket, EPOLLIN);
    return 0;
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)purpose;
    struct handoff_transport *transport = arg;
    HANDOFF_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    struct socket *socket = socket_of(transport, fd);
    if (!socket) {
        close(fd);
        return CURL_SOCKET_BAD;
    }
    socket->events = 0;
    socket->wanted = false;
    socket->ours = true;
    return fd;
}

static int on_close(void *arg, curl_socket_t fd)
{
    struct handoff_transport *transport = arg;
    HANDOFF_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    struct socket *socket = socket_of(transport, fd);
    if (socket) {
        forget(socket);
        socket->wanted = socket->ours = false;
    }
    return close(fd);
}

/* ---- time-outs ------------------------------------------------------------------------------ */

/* curl: when it wants to be called next. */
static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct handoff_transport *transport = arg;
    HANDOFF_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    if (timeout_ms < 0) {
        handoff_timers_stop(transport->timers, &transport->timer);
        return 0;
    }
    int64_t now_ms = handoff_monotonic_ns(transport->clock) / 1000000;
    handoff_timers_start(transport->timers, &transport->timer, now_ms + timeout_ms);
    return 0;
}

static void timer_fired(struct handoff_timer *timer)
{
    struct handoff_transport *transport =
        (void *)((char *)timer - offsetof(struct handoff_transport, timer));
    HANDOFF_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    int running;
    curl_multi_socket_action(transport->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* ---- what comes back ------------------------------------------------------------------------ */

static size_t on_body(char *data, size_t one, size_t size, void *arg)
{
    (void)one;
    struct handoff_transfer *transfer = arg;
    HANDOFF_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    handoff_buffer_append(&transfer->body, data, size);
    return transfer->body.failed ? 0 : size; /* 0 breaks it off: too long, or no memory */
}

static size_t on_header(char *line, size_t one, size_t size, void *arg)
{
    (void)one;
    static const char name[] = "handoff-ack:";
    struct handoff_transfer *transfer = arg;
    HANDOFF_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    const size_t name_size = sizeof name - 1;
    if (size < name_size || strncasecmp(line, name, name_size) != 0)
        return size;
    const char *value = line + name_size, *end = line + size;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    size_t length = (size_t)(end - value);
    if (length >=
        ACK_HEADER_MAX) /* no id of ours is that long, so the cut one is not ours either */
        length = ACK_HEADER_MAX - 1;
    memcpy(transfer->ack_header, value, length);
    transfer->ack_header[length] = '\0';
    transfer->ack_header_seen = true;
    return size;
}

static enum handoff_attempt_result failure_of(CURL *easy, CURLcode code)
{
    curl_off_t connected_us = 0;
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected_us);
        return connected_us > 0 ? HANDOFF_RESULT_TIMEOUT : HANDOFF_RESULT_CONNECT;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_OUT_OF_MEMORY:
        return HANDOFF_RESULT_CONNECT;
    default:
        return HANDOFF_RESULT_PROTOCOL;
    }
}

static void read_answer(struct handoff_transfer *transfer, CURLcode code,
                        struct handoff_answer *answer)
{
    *answer = (struct handoff_answer){0};
    if (code != CURLE_OK) {
        answer->failure = failure_of(transfer->easy, code);
        return;
    }
    long status = 0;
    curl_off_t retry_after_s = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    answer->answered = true;
    answer->status = (int)status;
    answer->ack_header = transfer->ack_header_seen ? transfer->ack_header : NULL;
    answer->body = transfer->body.data;
    answer->body_size = transfer->body.size;
    if (retry_after_s > 0)
        answer->retry_after_ms =
            1000 * (int64_t)(retry_after_s < RETRY_AFTER_MAX_S ? retry_after_s : RETRY_AFTER_MAX_S);
}

static void read_facts(struct handoff_transfer *transfer, CURLcode code,
                       struct handoff_transport_facts *facts)
{
    *facts = (struct handoff_transport_facts){0};
    curl_off_t total_us = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_TOTAL_TIME_T, &total_us);
    facts->duration_us = total_us;
    const char *address = NULL;
    long port = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_PRIMARY_IP, &address);
    curl_easy_getinfo(transfer->easy, CURLINFO_PRIMARY_PORT, &port);
    if (address && *address)
        snprintf(facts->peer, sizeof facts->peer, strchr(address, ':') ? "[%s]:%ld" : "%s:%ld",
                 address, port);
    if (transfer->body.failed)
        snprintf(facts->error, sizeof facts->error, "the answer is longer than %d bytes",
                 HANDOFF_TRANSPORT_ANSWER_MAX);
    else if (code != CURLE_OK)
        snprintf(facts->error, sizeof facts->error, "%.*s", (int)sizeof facts->error - 1,
                 transfer->error[0] ? transfer->error : curl_easy_strerror(code));
}

/* ---- transfers ------------------------------------------------------------------------------ */

/* Settings that never change, and that curl_easy_reset takes away. A setting can only fail for want
   of memory or of a feature in this build of curl; either way the handle is not to be used. */
static bool set_defaults(struct handoff_transfer *transfer)
{
    CURL *easy = transfer->easy;
    struct handoff_transport *transport = transfer->transport;
    bool failed = false;
#define SET(option, value) failed |= curl_easy_setopt(easy, option, value) != CURLE_OK
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_POST, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);
    SET(CURLOPT_USERAGENT, "handoff-exporter/" HANDOFF_VERSION);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
    SET(CURLOPT_OPENSOCKETDATA, transport);
    SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
    SET(CURLOPT_CLOSESOCKETDATA, transport);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_ERRORBUFFER, transfer->error);
    SET(CURLOPT_PRIVATE, transfer);
#undef SET
    transfer->has_tls = false;
    return !failed;
}

static void free_transfer(struct handoff_transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    handoff_buffer_free(&transfer->body);
    handoff_free(transfer);
}

static struct handoff_transfer *new_transfer(struct handoff_transport *transport)
{
    struct handoff_transfer *transfer = handoff_calloc(1, sizeof *transfer);
    if (!transfer)
        return NULL;
    transfer->magic = TRANSFER_MAGIC;
    transfer->transport = transport;
    transfer->body.limit = HANDOFF_TRANSPORT_ANSWER_MAX;
    transfer->easy = curl_easy_init();
    if (!transfer->easy || !set_defaults(transfer)) {
        free_transfer(transfer);
        return NULL;
    }
    return transfer;
}

static struct handoff_transfer *take_transfer(struct handoff_transport *transport)
{
    struct handoff_transfer *transfer = transport->free;
    if (!transfer)
        return new_transfer(transport);
    transport->free = transfer->next_free;
    transfer->next_free = NULL;
    return transfer;
}

static void give_back(struct handoff_transport *transport, struct handoff_transfer *transfer)
{
    transfer->post->transfer = NULL;
    transfer->post = NULL;
    handoff_buffer_free(
        &transfer->body); /* a pool of thousands must not keep thousands of bodies */
    transfer->next_free = transport->free;
    transport->free = transfer;
    transport->under_way--;
}

static struct curl_slist *link_headers(struct handoff_transfer *transfer,
                                       const struct handoff_post *post)
{
    HANDOFF_CHECK(post->nheaders <= HANDOFF_TRANSPORT_HEADERS_MAX);
    struct curl_slist *list = NULL, **end = &list;
    for (size_t i = 0; i < HANDOFF_TRANSPORT_HEADERS_MAX && i < post->nheaders; i++) {
        struct curl_slist *header = &transfer->headers[i];
        header->data = (char *)(uintptr_t)post->headers[i]; /* curl only reads it */
        header->next = NULL;
        *end = header;
        end = &header->next;
    }
    return list;
}

static bool set_tls(struct handoff_transfer *transfer, const struct handoff_tls *tls)
{
    if (transfer->has_tls) { /* another agent's files: back to the system's */
        curl_easy_reset(transfer->easy);
        if (!set_defaults(transfer))
            return false;
    }
    if (!tls)
        return true;
    transfer->has_tls = true;
    CURL *easy = transfer->easy;
    return (!tls->ca_file || curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca_file) == CURLE_OK) &&
           (!tls->cert_file ||
            curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert_file) == CURLE_OK) &&
           (!tls->key_file || curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key_file) == CURLE_OK);
}

static bool prepare(struct handoff_transfer *transfer, const struct handoff_post *post)
{
    CURL *easy = transfer->easy;
    int64_t connect_ms = post->timeout_ms < HANDOFF_TRANSPORT_CONNECT_MS
                             ? post->timeout_ms
                             : HANDOFF_TRANSPORT_CONNECT_MS;
    transfer->error[0] = '\0';
    transfer->ack_header_seen = false;
    transfer->body.failed = false;
    return set_tls(transfer, post->tls) &&
           curl_easy_setopt(easy, CURLOPT_URL, post->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, post->body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->size) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, link_headers(transfer, post)) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)post->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms) == CURLE_OK;
}

enum handoff_code handoff_transport_start(struct handoff_transport *transport,
                                          struct handoff_post *post)
{
    HANDOFF_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    HANDOFF_CHECK(!post->transfer && post->timeout_ms > 0 && post->timeout_ms <= INT_MAX);
    struct handoff_transfer *transfer = take_transfer(transport);
    if (!transfer)
        return HANDOFF_ERR_OUT_OF_MEMORY;
    if (!prepare(transfer, post) ||
        curl_multi_add_handle(transport->multi, transfer->easy) != CURLM_OK) {
        free_transfer(transfer);
        return HANDOFF_ERR_OUT_OF_MEMORY;
    }
    transfer->post = post;
    post->transfer = transfer;
    transport->under_way++;
    return HANDOFF_OK;
}

void handoff_transport_cancel(struct handoff_transport *transport, struct handoff_post *post)
{
    struct handoff_transfer *transfer = post->transfer;
    if (!transfer)
        return;
    HANDOFF_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    curl_multi_remove_handle(transport->multi, transfer->easy);
    give_back(transport, transfer);
}

static void tell(struct handoff_transport *transport, CURL *easy, CURLcode code)
{
    void *private = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
    struct handoff_transfer *transfer = private;
    HANDOFF_CHECK_MAGIC(transfer, TRANSFER_MAGIC);
    struct handoff_answer answer;
    struct handoff_transport_facts facts;
    read_answer(transfer, code, &answer);
    read_facts(transfer, code, &facts);
    curl_multi_remove_handle(transport->multi, easy);

    /* the answer's body stays ours until it was told */
    struct handoff_post *post = transfer->post;
    struct handoff_buffer body = transfer->body;
    transfer->body = (struct handoff_buffer){.limit = HANDOFF_TRANSPORT_ANSWER_MAX};
    char ack_header[ACK_HEADER_MAX];
    if (answer.ack_header) {
        memcpy(ack_header, transfer->ack_header, sizeof ack_header);
        answer.ack_header = ack_header;
    }
    give_back(transport, transfer);
    post->done(post, &answer, &facts);
    handoff_buffer_free(&body);
}

void handoff_transport_settle(struct handoff_transport *transport)
{
    HANDOFF_CHECK_MAGIC(transport, TRANSPORT_MAGIC);
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(transport->multi, &left)) != NULL;)
        if (message->msg == CURLMSG_DONE)
            tell(transport, message->easy_handle, message->data.result);
}

/* ---- the transport -------------------------------------------------------------------------- */

enum handoff_code handoff_transport_new(struct handoff_transport **transport,
                                        struct handoff_poller *poller,
                                        struct handoff_timers *timers,
                                        const struct handoff_clock *clock,
                                        struct handoff_error *error)
{
    struct handoff_transport *made = handoff_calloc(1, sizeof *made);
    CURLM *multi = made ? curl_multi_init() : NULL;
    if (!multi) {
        handoff_free(made);
        return handoff_error_no_memory(error);
    }
    made->magic = TRANSPORT_MAGIC;
    made->multi = multi;
    made->poller = poller;
    made->timers = timers;
    made->clock = clock;
    made->timer.fire = timer_fired;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, made);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, made);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    *transport = made;
    return HANDOFF_OK;
}

void handoff_transport_free(struct handoff_transport **transport)
{
    struct handoff_transport *dying = *transport;
    if (!dying)
        return;
    HANDOFF_CHECK_MAGIC(dying, TRANSPORT_MAGIC);
    HANDOFF_CHECK(dying->under_way == 0);
    *transport = NULL;
    for (struct handoff_transfer *next; dying->free; dying->free = next) {
        next = dying->free->next_free;
        free_transfer(dying->free);
    }
    curl_multi_cleanup(dying->multi); /* closes the kept connections through on_close */
    handoff_timers_stop(dying->timers, &dying->timer);
    for (size_t i = 0; i < dying->nsockets; i++)
        handoff_free(dying->sockets[i]);
    handoff_free(dying->sockets);
    dying->magic = 0;
    handoff_free(dying);
}
