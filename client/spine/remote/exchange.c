/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that asks a remote spine, see exchange.h. Calls come in by a queue under a lock, which
 * is held for nothing else than to take them; all else belongs to the thread.
 */
#include "client/spine/remote/exchange.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    EXCHANGE_MAGIC = 0x68747078,
    ANSWER_MAX = 8 * 1024 * 1024, /* bytes: a thousand memories of 8 KiB */
    FAILURES_OPEN = 5,            /* calls in a row after which it is left alone */
    PROBE_MS = 5000,              /* how often it is then asked whether it is back, */
    IDLE_PROBE_MS = 15000,        /* and how long it is left unasked */
    SHORTAGE_PAUSE_MS = 50,       /* before a request that we could not make is made again */
    URL_MAX = 4096,
};

STAILQ_HEAD(call_queue, handoff_remote_call);
STAILQ_HEAD(request_queue, handoff_remote_request);

struct handoff_remote_exchange {
    unsigned magic;
    char *url, *authorization, *ca_file, *cert_file, *key_file;
    int64_t timeout_ms;
    unsigned connections;
    void (*make_probe)(void *context, struct handoff_remote_request *request);
    bool (*is_probe_answered)(void *context, const struct handoff_remote_request *request);
    void *context;
    void (*on_shortage)(void *observer, enum handoff_shortage resource, const char *hindered);
    void *observer;
    pthread_t thread;
    CURLM *multi;

    pthread_mutex_t lock;
    struct call_queue queue; /* under the lock */
    bool closing;            /* under the lock */

    atomic_bool up, open; /* open: it is left alone */

    /* the thread's */
    struct request_queue waiting;
    unsigned running;
    unsigned failures; /* in a row */
    int64_t asked_ns;  /* last */
    int64_t paused_until_ns;
    struct handoff_remote_call probe;
    struct handoff_remote_request probe_request;
    bool probing;
    struct curl_slist *headers, *json_headers;
};

static int64_t exchange_now_ns(void)
{
    return base_monotonic_ns(&base_clock_system);
}

void handoff_remote_request_free(struct handoff_remote_request *request)
{
    base_buffer_free(&request->target);
    base_buffer_free(&request->body);
    base_buffer_free(&request->answer);
}

/* ---- one request ----------------------------------------------------------------------------- */

static size_t take_answer_bytes(char *bytes, size_t size, size_t count, void *context)
{
    struct handoff_remote_request *request = context;
    if (request->answer.size + size * count > ANSWER_MAX) {
        request->failure = "its answer is too long";
        return 0;
    }
    base_buffer_append(&request->answer, bytes, size * count);
    if (request->answer.failed) {
        request->failure = "there is no memory for its answer";
        request->own = HANDOFF_FAULT_MEMORY;
    }
    return request->answer.failed ? 0 : size * count;
}

static int64_t left_ms(const struct handoff_remote_call *call)
{
    return (call->deadline_ns - exchange_now_ns()) / 1000000;
}

/* libcurl does not say why it has no socket. */
static curl_socket_t open_exchange_socket(void *context, curlsocktype purpose,
                                          struct curl_sockaddr *to)
{
    struct handoff_remote_request *request = context;
    (void)purpose;
    const int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    request->own = fd < 0 ? handoff_own_fault_of_errno(errno) : HANDOFF_FAULT_NONE;
    request->peer_size = to->addrlen <= sizeof request->peer ? to->addrlen : 0;
    memcpy(&request->peer, &to->addr, request->peer_size);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

#define SET(option, value) (good = good && curl_easy_setopt(easy, option, value) == CURLE_OK)

static bool set_up_tls(const struct handoff_remote_exchange *exchange, CURL *easy)
{
    bool good = true;
    if (exchange->ca_file)
        SET(CURLOPT_CAINFO, exchange->ca_file);
    if (exchange->cert_file)
        SET(CURLOPT_SSLCERT, exchange->cert_file);
    if (exchange->key_file)
        SET(CURLOPT_SSLKEY, exchange->key_file);
    return good;
}

static bool set_up_limits(CURL *easy, int64_t timeout_ms)
{
    bool good = true;
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)timeout_ms);
#if LIBCURL_VERSION_NUM >= 0x075700
    SET(CURLOPT_QUICK_EXIT, 1L); /* a name server that does not answer holds only its own thread */
#endif
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    return good;
}

static bool set_up_request(struct handoff_remote_exchange *exchange,
                           struct handoff_remote_request *request, CURL *easy)
{
    bool good = !request->target.failed && !request->body.failed;
    struct base_buffer url = {0};
    base_buffer_text(&url, exchange->url);
    base_buffer_append(&url, request->target.data, request->target.size);
    good = good && !url.failed;
    if (good)
        SET(CURLOPT_URL, url.data); /* curl copies it */
    base_buffer_free(&url);
    SET(CURLOPT_CUSTOMREQUEST, request->method);
    SET(CURLOPT_HTTPHEADER, request->body.size > 0 ? exchange->json_headers : exchange->headers);
    if (request->body.size > 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
        SET(CURLOPT_POSTFIELDS, request->body.data);
    }
    SET(CURLOPT_WRITEFUNCTION, take_answer_bytes);
    SET(CURLOPT_WRITEDATA, request);
    SET(CURLOPT_PRIVATE, request);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_exchange_socket);
    SET(CURLOPT_OPENSOCKETDATA, request);
    return good;
}

/* false: it could not even be begun, as request->failure says. */
static bool begin_transfer(struct handoff_remote_exchange *exchange,
                           struct handoff_remote_request *request)
{
    const int64_t timeout_ms = left_ms(request->call);
    if (timeout_ms <= 0) {
        request->failure = "it did not answer in time";
        return false;
    }
    CURL *easy = curl_easy_init();
    if (easy && set_up_limits(easy, timeout_ms) && set_up_tls(exchange, easy) &&
        set_up_request(exchange, request, easy) &&
        curl_multi_add_handle(exchange->multi, easy) == CURLM_OK) {
        request->easy = easy;
        request->own = HANDOFF_FAULT_NONE;
        exchange->running++;
        return true;
    }
    curl_easy_cleanup(easy);
    request->failure = "there is no memory for the request";
    request->own = HANDOFF_FAULT_MEMORY;
    return false;
}

static const char *failure_of_curl(CURLcode result)
{
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        return "it did not answer in time";
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
        return "it cannot be reached";
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return "TLS failed; check spine.tls";
    default:
        return "its answer was incomplete or not HTTP";
    }
}

/* What we ran out of, which is why there is no answer; or NONE. */
static enum handoff_fault own_fault_of_curl(const struct handoff_remote_request *request,
                                            CURL *easy, CURLcode result)
{
    long error = 0;
    if (result == CURLE_OUT_OF_MEMORY)
        return HANDOFF_FAULT_MEMORY;
    if (result != CURLE_COULDNT_CONNECT || request->own != HANDOFF_FAULT_NONE)
        return result == CURLE_COULDNT_CONNECT ? request->own : HANDOFF_FAULT_NONE;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &error);
    return handoff_own_fault_of_connect(
        (int)error,
        request->peer_size ? (const struct sockaddr *)(const void *)&request->peer : NULL,
        request->peer_size);
}

static const char *failure_of_shortage(enum handoff_fault own)
{
    switch (own) {
    case HANDOFF_FAULT_DESCRIPTORS:
        return "the sidecar is out of file descriptors";
    case HANDOFF_FAULT_PORTS:
        return "the sidecar is out of local ports";
    default:
        return "the sidecar is out of memory";
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void begin_requests_of(struct handoff_remote_exchange *exchange,
                              struct handoff_remote_call *call)
{
    BASE_CHECK(call->count > 0);
    call->open = call->count;
    for (size_t i = 0; i < call->count; i++) {
        call->requests[i].call = call;
        STAILQ_INSERT_TAIL(&exchange->waiting, &call->requests[i], entry);
    }
}

/* Then it says nothing about the server. */
static bool call_ran_short(const struct handoff_remote_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        if (call->requests[i].failure && call->requests[i].own != HANDOFF_FAULT_NONE)
            return true;
    }
    return false;
}

static void note_exchange_health(struct handoff_remote_exchange *exchange, bool failed)
{
    exchange->failures = failed ? exchange->failures + 1 : 0;
    atomic_store(&exchange->up, !failed);
    if (!failed)
        atomic_store(&exchange->open, false);
    else if (exchange->failures >= FAILURES_OPEN)
        atomic_store(&exchange->open, true);
}

static void end_call(struct handoff_remote_exchange *exchange, struct handoff_remote_call *call)
{
    const bool ran_short = call_ran_short(call);
    exchange->asked_ns = exchange_now_ns();
    if (call->probes) {
        if (!ran_short)
            note_exchange_health(exchange, !exchange->is_probe_answered(exchange->context,
                                                                        &exchange->probe_request));
        handoff_remote_request_free(&exchange->probe_request);
        exchange->probing = false;
        return;
    }
    const bool again = call->ended(call);
    if (!ran_short) /* before anyone sees the answer */
        note_exchange_health(exchange, call->failed);
    if (again)
        begin_requests_of(exchange, call);
    else
        call->give(call);
}

static void end_request(struct handoff_remote_exchange *exchange,
                        struct handoff_remote_request *request)
{
    struct handoff_remote_call *call = request->call;
    BASE_CHECK(call->open > 0);
    if (--call->open == 0)
        end_call(exchange, call);
}

/* Once more within its time, and not at once. */
static void try_again(struct handoff_remote_exchange *exchange,
                      struct handoff_remote_request *request)
{
    request->status = 0;
    request->answer.size = 0;
    exchange->paused_until_ns = exchange_now_ns() + SHORTAGE_PAUSE_MS * 1000000LL;
    STAILQ_INSERT_TAIL(&exchange->waiting, request, entry);
    if (exchange->on_shortage)
        exchange->on_shortage(exchange->observer, handoff_fault_shortage(request->own),
                              "asking the spine");
}

static void end_transfer(struct handoff_remote_exchange *exchange, const struct CURLMsg *message)
{
    struct handoff_remote_request *request;
    CURL *easy = message->easy_handle;
    const CURLcode result = message->data.result; /* gone with the handle */
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)(void *)&request);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &request->status);
    if (!request->failure)
        request->own = own_fault_of_curl(request, easy, result);
    if (result != CURLE_OK && !request->failure && request->own == HANDOFF_FAULT_NONE)
        request->failure = failure_of_curl(result);
    curl_multi_remove_handle(exchange->multi, easy);
    curl_easy_cleanup(easy);
    request->easy = NULL;
    exchange->running--;
    if (request->own != HANDOFF_FAULT_NONE && !request->failure)
        try_again(exchange, request);
    else
        end_request(exchange, request);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool take_calls(struct handoff_remote_exchange *exchange)
{
    struct call_queue taken = STAILQ_HEAD_INITIALIZER(taken);
    struct handoff_remote_call *call;
    pthread_mutex_lock(&exchange->lock);
    STAILQ_CONCAT(&taken, &exchange->queue);
    const bool closing = exchange->closing;
    pthread_mutex_unlock(&exchange->lock);
    while ((call = STAILQ_FIRST(&taken))) {
        STAILQ_REMOVE_HEAD(&taken, entry);
        begin_requests_of(exchange, call);
    }
    return !closing;
}

/* What waits beyond its time ends here: its place in the order is no reason to wait longer. */
static void end_late_requests(struct handoff_remote_exchange *exchange)
{
    struct request_queue late = STAILQ_HEAD_INITIALIZER(late);
    struct request_queue rest = STAILQ_HEAD_INITIALIZER(rest);
    struct handoff_remote_request *request;
    while ((request = STAILQ_FIRST(&exchange->waiting))) {
        STAILQ_REMOVE_HEAD(&exchange->waiting, entry);
        if (left_ms(request->call) <= 0)
            STAILQ_INSERT_TAIL(&late, request, entry);
        else
            STAILQ_INSERT_TAIL(&rest, request, entry);
    }
    STAILQ_CONCAT(&exchange->waiting, &rest);
    while ((request = STAILQ_FIRST(&late))) {
        STAILQ_REMOVE_HEAD(&late, entry);
        request->failure = request->own != HANDOFF_FAULT_NONE ? failure_of_shortage(request->own)
                                                              : "it did not answer in time";
        end_request(exchange, request);
    }
}

static void begin_waiting(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_request *request;
    if (exchange_now_ns() < exchange->paused_until_ns)
        return;
    while (exchange->running < exchange->connections &&
           (request = STAILQ_FIRST(&exchange->waiting))) {
        STAILQ_REMOVE_HEAD(&exchange->waiting, entry);
        if (!begin_transfer(exchange, request))
            end_request(exchange, request);
    }
}

static void probe_if_due(struct handoff_remote_exchange *exchange)
{
    const int64_t now_ns = exchange_now_ns();
    const int64_t after_ms = atomic_load(&exchange->up) ? IDLE_PROBE_MS : PROBE_MS;
    if (exchange->probing || now_ns - exchange->asked_ns < after_ms * 1000000)
        return;
    exchange->probe_request = (struct handoff_remote_request){0};
    exchange->make_probe(exchange->context, &exchange->probe_request);
    exchange->probe =
        (struct handoff_remote_call){.requests = &exchange->probe_request,
                                     .count = 1,
                                     .probes = true,
                                     .deadline_ns = now_ns + exchange->timeout_ms * 1000000};
    exchange->probing = true;
    begin_requests_of(exchange, &exchange->probe);
}

static void end_finished(struct handoff_remote_exchange *exchange)
{
    struct CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(exchange->multi, &left))) {
        if (message->msg == CURLMSG_DONE)
            end_transfer(exchange, message);
    }
}

static void abandon_probe(struct handoff_remote_exchange *exchange)
{
    struct handoff_remote_request *request = &exchange->probe_request;
    if (!exchange->probing)
        return;
    if (request->easy) {
        curl_multi_remove_handle(exchange->multi, request->easy);
        curl_easy_cleanup(request->easy);
    }
    handoff_remote_request_free(request);
}

enum { LOOK_MS = 100 }; /* at the deadlines of what waits */

static void *run_exchange(void *argument)
{
    struct handoff_remote_exchange *exchange = argument;
    int running;
    while (take_calls(exchange)) {
        end_late_requests(exchange);
        probe_if_due(exchange);
        begin_waiting(exchange);
        curl_multi_perform(exchange->multi, &running);
        end_finished(exchange);
        begin_waiting(exchange);
        const bool idle = exchange->running == 0 && STAILQ_EMPTY(&exchange->waiting);
        curl_multi_poll(exchange->multi, NULL, 0, idle ? PROBE_MS / 5 : LOOK_MS, NULL);
    }
    abandon_probe(exchange);
    return NULL;
}

bool handoff_remote_exchange_submit(struct handoff_remote_exchange *exchange,
                                    struct handoff_remote_call *call)
{
    BASE_CHECK_MAGIC(exchange, EXCHANGE_MAGIC);
    if (atomic_load(&exchange->open))
        return false;
    call->deadline_ns = exchange_now_ns() + exchange->timeout_ms * 1000000;
    call->probes = call->failed = false;
    pthread_mutex_lock(&exchange->lock);
    STAILQ_INSERT_TAIL(&exchange->queue, call, entry);
    pthread_mutex_unlock(&exchange->lock);
    curl_multi_wakeup(exchange->multi);
    return true;
}

bool handoff_remote_exchange_is_up(const struct handoff_remote_exchange *exchange)
{
    return atomic_load(&exchange->up);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool copy_option(const char *from, char **to)
{
    *to = from ? base_strdup(from) : NULL;
    return *to || !from;
}

static bool copy_authorization(struct handoff_remote_exchange *exchange, const char *token)
{
    static const char head[] = "Authorization: Bearer ";
    if (!token)
        return true;
    exchange->authorization = base_malloc(sizeof head + strlen(token));
    if (exchange->authorization)
        sprintf(exchange->authorization, "%s%s", head, token);
    return exchange->authorization != NULL;
}

static bool add_exchange_header(struct curl_slist **list, const char *header)
{
    struct curl_slist *longer = curl_slist_append(*list, header);
    if (longer)
        *list = longer;
    return longer != NULL;
}

static bool make_exchange_headers(struct handoff_remote_exchange *exchange, const char *accept)
{
    const char *authorization = exchange->authorization;
    return add_exchange_header(&exchange->headers, accept) &&
           add_exchange_header(&exchange->json_headers, accept) &&
           add_exchange_header(&exchange->json_headers, "Content-Type: application/json") &&
           add_exchange_header(&exchange->json_headers, "Expect:") &&
           (!authorization || (add_exchange_header(&exchange->headers, authorization) &&
                               add_exchange_header(&exchange->json_headers, authorization)));
}

/* Paths begin with one. */
static void cut_slashes(char *url)
{
    for (size_t size = url ? strlen(url) : 0; size > 0 && url[size - 1] == '/'; size--)
        url[size - 1] = '\0';
}

static bool fill_exchange(struct handoff_remote_exchange *exchange,
                          const struct handoff_remote_exchange_options *options)
{
    exchange->timeout_ms = options->timeout_ms;
    exchange->connections = options->connections;
    exchange->make_probe = options->make_probe;
    exchange->is_probe_answered = options->is_probe_answered;
    exchange->context = options->context;
    exchange->on_shortage = options->on_shortage;
    exchange->observer = options->observer;
    exchange->asked_ns = exchange_now_ns() - (int64_t)IDLE_PROBE_MS * 1000000; /* asks at once */
    exchange->multi = curl_multi_init();
    if (!copy_option(options->url, &exchange->url))
        return false;
    cut_slashes(exchange->url);
    return exchange->multi && copy_option(options->ca_file, &exchange->ca_file) &&
           copy_option(options->cert_file, &exchange->cert_file) &&
           copy_option(options->key_file, &exchange->key_file) &&
           copy_authorization(exchange, options->bearer_token) &&
           make_exchange_headers(exchange, options->accept) &&
           curl_multi_setopt(exchange->multi, CURLMOPT_MAXCONNECTS, (long)options->connections) ==
               CURLM_OK;
}

static void free_remote_exchange(struct handoff_remote_exchange *exchange)
{
    curl_slist_free_all(exchange->headers);
    curl_slist_free_all(exchange->json_headers);
    curl_multi_cleanup(exchange->multi);
    base_free(exchange->url);
    base_free(exchange->authorization);
    base_free(exchange->ca_file);
    base_free(exchange->cert_file);
    base_free(exchange->key_file);
    pthread_mutex_destroy(&exchange->lock);
    exchange->magic = 0;
    base_free(exchange);
}

/* What curl would take for an option, or for another place. */
static enum handoff_code check_url(const char *url, struct handoff_error *error)
{
    CURLU *parsed = curl_url();
    char *part = NULL;
    const bool taken =
        parsed && strlen(url) < URL_MAX && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK;
    const bool is_http =
        taken && (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0);
    const bool has_more =
        is_http && (curl_url_get(parsed, CURLUPART_QUERY, &part, 0) == CURLUE_OK ||
                    curl_url_get(parsed, CURLUPART_FRAGMENT, &part, 0) == CURLUE_OK ||
                    curl_url_get(parsed, CURLUPART_USER, &part, 0) == CURLUE_OK);
    curl_free(part);
    curl_url_cleanup(parsed);
    if (is_http && !has_more)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "this is not the base URL of a server", "url",
                      NULL); /* which may have a password in it, so it is not shown */
    handoff_error_allow(error, "http://HOST[:PORT][/PATH] or https://..., without credentials, "
                               "query and fragment");
    return HANDOFF_ERR_INVALID;
}

enum handoff_code
handoff_remote_exchange_open(struct handoff_remote_exchange **exchange,
                             const struct handoff_remote_exchange_options *options,
                             struct handoff_error *error)
{
    *exchange = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return handoff_error_no_memory(error);
    enum handoff_code code = check_url(options->url, error);
    if (code != HANDOFF_OK)
        return code;
    struct handoff_remote_exchange *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = EXCHANGE_MAGIC;
    pthread_mutex_init(&made->lock, NULL);
    STAILQ_INIT(&made->queue);
    STAILQ_INIT(&made->waiting);
    atomic_init(&made->up, true);
    atomic_init(&made->open, false);
    if (!fill_exchange(made, options) ||
        pthread_create(&made->thread, NULL, run_exchange, made) != 0) {
        free_remote_exchange(made);
        return handoff_error_no_memory(error);
    }
    *exchange = made;
    return HANDOFF_OK;
}

void handoff_remote_exchange_close(struct handoff_remote_exchange **exchange)
{
    struct handoff_remote_exchange *dying = *exchange;
    *exchange = NULL;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, EXCHANGE_MAGIC);
    pthread_mutex_lock(&dying->lock);
    dying->closing = true;
    pthread_mutex_unlock(&dying->lock);
    curl_multi_wakeup(dying->multi);
    pthread_join(dying->thread, NULL);
    free_remote_exchange(dying);
}
