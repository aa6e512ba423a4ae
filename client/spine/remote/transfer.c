/* SPDX-License-Identifier: Apache-2.0 */
/* One request of an exchange, as libcurl makes it. On the exchange's thread. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "client/spine/remote/exchange_internal.h"
#include "lib/base/clock.h"
#include "lib/base/hide.h"

int64_t handoff_remote_now_ns(void)
{
    return base_monotonic_ns(&base_clock_system);
}

void handoff_remote_request_free(struct handoff_remote_request *request)
{
    base_buffer_free(&request->target);
    base_buffer_free(&request->body);
    base_buffer_free(&request->answer);
    base_buffer_free(&request->framed);
    base_buffer_free(&request->headers);
    base_buffer_free(&request->session);
    base_buffer_free(&request->url);
}

/* Whether it is answered by events, which libcurl knows once there is a body. */
static void note_stream(struct handoff_remote_request *request)
{
    static const char stream[] = "text/event-stream";
    char *type = NULL;
    if (request->answer.size == 0 && request->rpc &&
        curl_easy_getinfo(request->easy, CURLINFO_CONTENT_TYPE, &type) == CURLE_OK && type)
        request->streamed = strncasecmp(type, stream, sizeof stream - 1) == 0;
}

static size_t take_answer_bytes(char *bytes, size_t size, size_t count, void *context)
{
    struct handoff_remote_request *request = context;
    if (request->whole) /* the server may end it as it likes */
        return size * count;
    if (request->answer.size + size * count > HANDOFF_REMOTE_ANSWER_MAX) {
        request->failure = "its answer is too long";
        return 0;
    }
    request->call->bytes += size * count;
    if (request->call->bytes > HANDOFF_REMOTE_ANSWERS_MAX) {
        request->failure = HANDOFF_REMOTE_TOO_LONG_TOGETHER;
        return 0;
    }
    note_stream(request);
    base_buffer_append(&request->answer, bytes, size * count);
    if (request->answer.failed) {
        request->failure = "there is no memory for its answer";
        request->own = HANDOFF_FAULT_MEMORY;
    }
    if (request->streamed && !request->answer.failed &&
        request->call->exchange->options.conversation->is_whole(request)) {
        request->whole = true;
        request->whole_ns = handoff_remote_now_ns();
    }
    return request->answer.failed ? 0 : size * count;
}

int64_t handoff_remote_left_ms(const struct handoff_remote_call *call)
{
    return (call->deadline_ns - handoff_remote_now_ns()) / 1000000;
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
    if (exchange->options.ca_file)
        SET(CURLOPT_CAINFO, exchange->options.ca_file);
    if (exchange->options.cert_file)
        SET(CURLOPT_SSLCERT, exchange->options.cert_file);
    if (exchange->options.key_file)
        SET(CURLOPT_SSLKEY, exchange->options.key_file);
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

static bool add_request_header(struct handoff_remote_request *request, const char *header)
{
    struct curl_slist *longer = curl_slist_append(request->list, header);
    if (longer)
        request->list = longer;
    return longer != NULL;
}

static bool set_up_headers(const struct handoff_remote_exchange *exchange,
                           struct handoff_remote_request *request, struct base_span body,
                           CURL *easy)
{
    bool good =
        add_request_header(request, exchange->options.accept) &&
        (!exchange->authorization || add_request_header(request, exchange->authorization)) &&
        (body.size == 0 || (add_request_header(request, "Content-Type: application/json") &&
                            add_request_header(request, "Expect:")));
    for (size_t at = 0; good && at < request->headers.size;
         at += strlen(request->headers.data + at) + 1)
        good = add_request_header(request, request->headers.data + at);
    SET(CURLOPT_HTTPHEADER, request->list);
    return good;
}

static bool set_up_body(struct base_span body, CURL *easy)
{
    bool good = true;
    if (body.size > 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.size);
        SET(CURLOPT_POSTFIELDS, body.data);
    }
    return good;
}

static bool set_up_url(const struct handoff_remote_exchange *exchange,
                       const struct handoff_remote_request *request, CURL *easy)
{
    struct base_buffer url = {0};
    base_buffer_text(&url, exchange->options.url);
    base_buffer_append(&url, request->target.data, request->target.size);
    bool good = !url.failed;
    if (good)
        SET(CURLOPT_URL, url.data); /* curl copies it */
    base_buffer_free(&url);
    return good;
}

static bool set_up_request(const struct handoff_remote_exchange *exchange,
                           struct handoff_remote_request *request, CURL *easy)
{
    const struct base_buffer *sent = request->rpc ? &request->framed : &request->body;
    const struct base_span body = base_span(sent->data, sent->size);
    bool good = !request->target.failed && !sent->failed && !request->headers.failed &&
                set_up_url(exchange, request, easy) && set_up_body(body, easy) &&
                set_up_headers(exchange, request, body, easy);
    SET(CURLOPT_CUSTOMREQUEST, request->method);
    SET(CURLOPT_WRITEFUNCTION, take_answer_bytes);
    SET(CURLOPT_WRITEDATA, request);
    SET(CURLOPT_PRIVATE, request);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_exchange_socket);
    SET(CURLOPT_OPENSOCKETDATA, request);
    return good;
}

static void drop_transfer(struct handoff_remote_request *request)
{
    curl_easy_cleanup(request->easy);
    curl_slist_free_all(request->list);
    request->easy = NULL;
    request->list = NULL;
}

/* false: it could not even be begun, as request->failure says. */
bool handoff_remote_transfer_begin(struct handoff_remote_exchange *exchange,
                                   struct handoff_remote_request *request)
{
    const int64_t timeout_ms = handoff_remote_left_ms(request->call);
    if (timeout_ms <= 0) {
        request->failure = "it did not answer in time";
        return false;
    }
    CURL *easy = request->easy = curl_easy_init();
    if (easy && set_up_limits(easy, timeout_ms) && set_up_tls(exchange, easy) &&
        set_up_request(exchange, request, easy) &&
        curl_multi_add_handle(exchange->multi, easy) == CURLM_OK) {
        request->own = HANDOFF_FAULT_NONE;
        handoff_remote_note_running(exchange, request);
        return true;
    }
    drop_transfer(request);
    request->failure = "there is no memory for the request";
    request->own = HANDOFF_FAULT_MEMORY;
    return false;
}

/* A server that does not accept our certificate says so after its part of the handshake: the
   connection ends. */
static const char *failure_of_ending(const char *url)
{
    return strncmp(url, "https:", 6) == 0
               ? "the connection ended before it had answered; if it always does, check spine.tls"
               : "the connection ended before it had answered";
}

const char *handoff_remote_failure(enum handoff_fault fault, const char *url)
{
    switch (fault) {
    case HANDOFF_FAULT_TIME:
        return "it did not answer in time";
    case HANDOFF_FAULT_NAME:
        return "its host name cannot be resolved";
    case HANDOFF_FAULT_CONNECTION:
        return "it refused the connection, or cannot be reached";
    case HANDOFF_FAULT_RESET:
    case HANDOFF_FAULT_CLOSED:
    case HANDOFF_FAULT_OTHER:
        return failure_of_ending(url);
    case HANDOFF_FAULT_TLS:
        return "TLS failed; check spine.tls";
    case HANDOFF_FAULT_BODY_SIZE:
        return "its answer is too long";
    default:
        return "its answer was incomplete or not HTTP";
    }
}

static enum handoff_fault fault_of_curl(CURLcode result)
{
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        return HANDOFF_FAULT_TIME;
    case CURLE_COULDNT_RESOLVE_HOST:
        return HANDOFF_FAULT_NAME;
    case CURLE_COULDNT_CONNECT:
        return HANDOFF_FAULT_CONNECTION;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return HANDOFF_FAULT_CLOSED;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return HANDOFF_FAULT_TLS;
    default:
        return HANDOFF_FAULT_GARBLED;
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

static void leave_transfer(struct handoff_remote_exchange *exchange,
                           struct handoff_remote_request *request)
{
    curl_multi_remove_handle(exchange->multi, request->easy);
    drop_transfer(request);
    handoff_remote_leave_running(exchange, request);
}

static void take_session_header(struct handoff_remote_request *request)
{
    struct curl_header *header;
    base_buffer_clear(&request->session);
    if (curl_easy_header(request->easy, "Mcp-Session-Id", 0, CURLH_HEADER, -1, &header) ==
        CURLHE_OK)
        base_buffer_text(&request->session, header->value);
}

void handoff_remote_hide_token(const struct handoff_remote_exchange *exchange,
                               struct base_buffer *answer)
{
    if (exchange->authorization)
        base_hide_credential(answer->data, answer->size,
                             exchange->authorization + strlen(HANDOFF_REMOTE_BEARER));
}

void handoff_remote_transfer_end(struct handoff_remote_exchange *exchange,
                                 struct handoff_remote_request *request, CURLcode result)
{
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &request->status);
    if (request->whole)
        result = CURLE_OK;
    if (!request->failure)
        request->own = own_fault_of_curl(request, request->easy, result);
    if (result != CURLE_OK && !request->failure && request->own == HANDOFF_FAULT_NONE)
        request->failure = handoff_remote_failure(fault_of_curl(result), exchange->options.url);
    if (!request->failure && request->streamed && !request->whole)
        request->failure = "its stream of events ended without an answer";
    if (request->rpc)
        take_session_header(request);
    handoff_remote_hide_token(exchange, &request->answer);
    leave_transfer(exchange, request);
}

void handoff_remote_transfer_abandon(struct handoff_remote_exchange *exchange,
                                     struct handoff_remote_request *request)
{
    if (request->easy)
        leave_transfer(exchange, request);
    handoff_remote_request_free(request);
}
