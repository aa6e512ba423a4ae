/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request from its first header to the end of its answer.
 *
 * libmicrohttpd calls exporter_request_handle() once when the headers are there, once for each
 * piece of the body, and once more when the body is complete; only then the handler runs. What is
 * refused (no such route, body too large) is decided at the first call, but mostly answered at the
 * last: a client that is still sending would lose an early answer to the reset of its connection.
 * Only a body too large to be read for that courtesy, or one that waits for "100 Continue", is
 * refused at once.
 *
 * Invariants: a request is answered exactly once. A deferred request has its connection suspended,
 * and libmicrohttpd never frees a suspended connection, so the request is good until it is answered
 * or cancelled, whatever the client does meanwhile.
 */
#include "exporter/http.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/admission.h"
#include "exporter/check.h"
#include "exporter/http_private.h"
#include "exporter/log.h"
#include "exporter/problem.h"

enum {
    DISCARD_MAX = 16 << 20,     /* so much of a refused body is read before the client is cut */
    BODY_FIRST_SIZE = 4 << 10,  /* where the length is not known */
    BODY_FIRST_MOST = 64 << 10, /* nearly all handoffs fit */
    STREAM_BLOCK = 16 << 10,    /* buffer for HTTP/1.0 clients; the others use the header memory */
};

enum request_state {
    REQUEST_RECEIVING,
    REQUEST_HANDLING, /* the handler is running */
    REQUEST_DEFERRED,
    REQUEST_ANSWERED,
    REQUEST_ABANDONED, /* no answer is possible; the connection is cut */
};

/* A string that was made for a request and goes with it. */
struct scratch {
    struct scratch *next;
    char text[];
};

struct exporter_request {
    unsigned magic;
    enum request_state state;
    struct exporter_server *server;
    struct exporter_connection *connection;
    struct MHD_Connection *mhd;
    const char *method;
    const char *raw_path;
    int64_t began_ms;
    int64_t write_ms;
    /* routing */
    struct exporter_path path;
    struct exporter_route_match match;
    struct exporter_problem refusal; /* status 0: none so far */
    /* body */
    char *body;
    size_t body_length;
    size_t body_capacity;
    size_t body_limit;
    unsigned long long announced; /* Content-Length; 0: none, or none that is a number */
    size_t discarded;
    struct scratch *scratch;
    /* deferred */
    bool suspended;
    void (*cancelled)(void *arg);
    void *cancelled_arg;
    LIST_ENTRY(exporter_request) entry;
};

/* ---- reading a request ---------------------------------------------------------------------- */

const char *exporter_request_method(const struct exporter_request *request)
{
    return request->method;
}

const char *exporter_request_path(const struct exporter_request *request)
{
    return request->raw_path;
}

const char *exporter_request_param(const struct exporter_request *request, size_t i)
{
    EXPORTER_CHECK(i < request->match.nparams);
    return request->match.params[i];
}

const char *exporter_request_header(const struct exporter_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

static char *scratch_new(struct exporter_request *request, size_t length)
{
    struct scratch *scratch = malloc(sizeof *scratch + length + 1);
    if (scratch == NULL)
        return NULL;
    scratch->next = request->scratch;
    request->scratch = scratch;
    return scratch->text;
}

/* What a walk over the values of one name collects. */
struct collected {
    struct exporter_request *request;
    const char *name;
    char *text; /* header lists: where the next value goes; NULL while lengths are summed */
    size_t length;
    const char **values; /* query values */
    size_t count;
    size_t max;
};

static enum MHD_Result collect_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    (void)kind;
    struct collected *list = arg;
    if (strcasecmp(name, list->name) != 0 || value == NULL)
        return MHD_YES;
    const size_t length = strlen(value);
    if (list->text != NULL) {
        memcpy(list->text + list->length, value, length);
        list->text[list->length + length] = ',';
    }
    list->length += length + 1;
    list->count++;
    return MHD_YES;
}

const char *exporter_request_header_list(struct exporter_request *request, const char *name)
{
    struct collected list = {.name = name};
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, collect_header, &list);
    if (list.count == 0)
        return "";
    if (list.count == 1)
        return exporter_request_header(request, name);
    list.text = scratch_new(request, list.length);
    if (list.text == NULL)
        return NULL;
    const size_t total = list.length;
    list.length = 0;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, collect_header, &list);
    list.text[total - 1] = '\0'; /* in the place of the last comma */
    return list.text;
}

static char *decoded_copy(struct exporter_request *request, const char *text)
{
    char *copy = scratch_new(request, strlen(text));
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, strlen(text) + 1);
    return exporter_percent_decode(copy) ? copy : NULL;
}

static enum MHD_Result collect_query(void *arg, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    (void)kind;
    struct collected *list = arg;
    const char *decoded_name = decoded_copy(list->request, name);
    if (decoded_name == NULL || strcmp(decoded_name, list->name) != 0)
        return MHD_YES;
    const char *decoded = decoded_copy(list->request, value != NULL ? value : "");
    if (decoded == NULL)
        return MHD_YES;
    if (list->count < list->max)
        list->values[list->count] = decoded;
    list->count++;
    return MHD_YES;
}

size_t exporter_request_query_all(struct exporter_request *request, const char *name,
                                  const char **values, size_t max)
{
    struct collected list = {.request = request, .name = name, .values = values, .max = max};
    MHD_get_connection_values(request->mhd, MHD_GET_ARGUMENT_KIND, collect_query, &list);
    return list.count;
}

const char *exporter_request_query(struct exporter_request *request, const char *name)
{
    const char *value = NULL;
    return exporter_request_query_all(request, name, &value, 1) > 0 ? value : NULL;
}

const char *exporter_request_body(const struct exporter_request *request, size_t *length)
{
    *length = request->body_length;
    return request->body != NULL ? request->body : "";
}

const char *exporter_request_peer(const struct exporter_request *request)
{
    return request->connection->peer;
}

struct exporter_loop *exporter_request_loop(const struct exporter_request *request)
{
    return request->server->options.loop;
}

int64_t exporter_request_began_ms(const struct exporter_request *request)
{
    return request->began_ms;
}

const struct exporter_server *exporter_request_server(const struct exporter_request *request)
{
    return request->server;
}

/* ---- answering ------------------------------------------------------------------------------ */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    /* libmicrohttpd refuses a value it cannot send; an answer without it is better than none. */
    if (MHD_add_response_header(response, name, value) != MHD_YES)
        log_debug("header_refused", LOG_STR("name", name));
}

static void add_headers(struct exporter_request *request, struct MHD_Response *response,
                        const struct exporter_reply *reply)
{
    if (reply->content_type != NULL)
        add_header(response, "Content-Type", reply->content_type);
    for (size_t i = 0; i < EXPORTER_REPLY_HEADERS_MAX && reply->headers[i].name != NULL; i++)
        add_header(response, reply->headers[i].name, reply->headers[i].value);
    struct exporter_header extra[EXPORTER_REPLY_HEADERS_MAX];
    const size_t count = exporter_admission_headers(request, extra, EXPORTER_REPLY_HEADERS_MAX);
    for (size_t i = 0; i < count; i++)
        add_header(response, extra[i].name, extra[i].value);
    if (request->server->quiesced)
        add_header(response, "Connection", "close");
}

static void wake_connection(struct exporter_request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    MHD_resume_connection(request->mhd);
    /* In external polling libmicrohttpd has no descriptor to tell of it. */
    exporter_source_wake(&request->server->source);
}

static void forget_deferral(struct exporter_request *request)
{
    if (request->state == REQUEST_DEFERRED)
        LIST_REMOVE(request, entry);
}

static void abandon(struct exporter_request *request)
{
    forget_deferral(request);
    request->state = REQUEST_ABANDONED;
    wake_connection(request);
}

/* Takes the response over; NULL (no memory) cuts the connection. */
static void answer(struct exporter_request *request, const struct exporter_reply *reply,
                   struct MHD_Response *response)
{
    if (response == NULL) {
        abandon(request);
        return;
    }
    add_headers(request, response, reply);
    const enum MHD_Result queued = MHD_queue_response(request->mhd, reply->status, response);
    MHD_destroy_response(response);
    if (queued != MHD_YES) {
        abandon(request);
        return;
    }
    forget_deferral(request);
    request->state = REQUEST_ANSWERED;
    exporter_connection_deadline(request->connection, exporter_monotonic_ms() + request->write_ms);
    wake_connection(request);
}

static void check_unanswered(const struct exporter_request *request)
{
    EXPORTER_CHECK_MAGIC(request, REQUEST_MAGIC);
    EXPORTER_CHECK(request->state != REQUEST_ANSWERED && request->state != REQUEST_ABANDONED);
}

void exporter_respond(struct exporter_request *request, const struct exporter_reply *reply)
{
    static const enum MHD_ResponseMemoryMode mode[] = {
        [EXPORTER_BODY_COPY] = MHD_RESPMEM_MUST_COPY,
        [EXPORTER_BODY_STATIC] = MHD_RESPMEM_PERSISTENT,
        [EXPORTER_BODY_GIVEN] = MHD_RESPMEM_MUST_FREE,
    };
    check_unanswered(request);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->length, (void *)(uintptr_t)reply->bytes, mode[reply->body]);
    if (response == NULL && reply->body == EXPORTER_BODY_GIVEN)
        free((void *)(uintptr_t)reply->bytes);
    answer(request, reply, response);
}

static ssize_t stream_read(void *arg, uint64_t position, char *bytes, size_t max)
{
    (void)position;
    struct exporter_stream *stream = arg;
    const ssize_t length = stream->read(stream->arg, bytes, max);
    if (length == EXPORTER_STREAM_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    return length > 0 ? length : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void stream_close(void *arg)
{
    struct exporter_stream *stream = arg;
    stream->close(stream->arg);
    free(stream);
}

void exporter_respond_stream(struct exporter_request *request, const struct exporter_reply *reply,
                             const struct exporter_stream *stream)
{
    check_unanswered(request);
    struct MHD_Response *response = NULL;
    struct exporter_stream *copy = malloc(sizeof *copy);
    if (copy != NULL) {
        *copy = *stream;
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read,
                                                     copy, stream_close);
    }
    if (response == NULL) {
        free(copy);
        stream->close(stream->arg);
    }
    answer(request, reply, response);
}

void exporter_request_limit_sending(struct exporter_request *request, int64_t delay_ms)
{
    request->write_ms = delay_ms;
}

/* ---- deferring ------------------------------------------------------------------------------ */

void exporter_request_defer(struct exporter_request *request, void (*cancelled)(void *arg),
                            void *arg)
{
    EXPORTER_CHECK_MAGIC(request, REQUEST_MAGIC);
    EXPORTER_CHECK(request->state == REQUEST_HANDLING || request->state == REQUEST_DEFERRED);
    if (request->state == REQUEST_HANDLING)
        LIST_INSERT_HEAD(&request->server->deferred, request, entry);
    request->state = REQUEST_DEFERRED;
    request->cancelled = cancelled;
    request->cancelled_arg = arg;
}

void exporter_request_cancel(struct exporter_request *request)
{
    EXPORTER_CHECK_MAGIC(request, REQUEST_MAGIC);
    EXPORTER_CHECK(request->state == REQUEST_DEFERRED);
    request->cancelled(request->cancelled_arg);
    abandon(request);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void refuse(struct exporter_request *request, unsigned status, const char *code,
                   const char *detail)
{
    request->refusal = (struct exporter_problem){.status = status, .code = code, .detail = detail};
}

static void refuse_too_large(struct exporter_request *request)
{
    free(request->body);
    request->body = NULL;
    request->body_length = request->body_capacity = 0;
    refuse(request, 413, "body_too_large", "the body is larger than this call takes");
}

static void route(struct exporter_request *request)
{
    switch (exporter_path_parse(&request->path, request->raw_path)) {
    case EXPORTER_PATH_OK:
        break;
    case EXPORTER_PATH_MALFORMED:
        refuse(request, 400, "bad_path", "the path is not well-formed");
        return;
    case EXPORTER_PATH_TOO_LONG:
        refuse(request, 404, "not_found", "there is nothing at this path");
        return;
    }
    switch (exporter_route_find(request->server->options.routes, request->method, &request->path,
                                &request->match)) {
    case EXPORTER_ROUTE_FOUND:
        break;
    case EXPORTER_ROUTE_UNKNOWN:
        refuse(request, 404, "not_found", "there is nothing at this path");
        break;
    case EXPORTER_ROUTE_METHOD:
        refuse(request, 405, "method_not_allowed", "this path does not take that method");
        request->refusal.header = (struct exporter_header){"Allow", request->match.allow};
        break;
    }
}

static size_t route_body_limit(const struct exporter_request *request)
{
    const struct exporter_route *found = request->match.route;
    if (found == NULL)
        return 0;
    if (found->body_limit == EXPORTER_BODY_OF_LISTENER)
        return (size_t)atomic_load_explicit(request->server->options.body_limit,
                                            memory_order_relaxed);
    return found->body_limit;
}

/* Whether the answer has to be given before the body was sent. */
static bool judge_body_length(struct exporter_request *request)
{
    const char *text = exporter_request_header(request, "Content-Length");
    const unsigned long long length = text != NULL ? strtoull(text, NULL, 10) : 0;
    request->announced = length;
    request->body_limit = route_body_limit(request);
    if (request->refusal.status == 0 && length > request->body_limit)
        refuse_too_large(request);
    if (request->refusal.status == 0)
        return false;
    return length > DISCARD_MAX || exporter_request_header(request, "Expect") != NULL;
}

/* As long as the client said, up to a bound: it may say what it likes, and send nothing. */
static size_t first_capacity(const struct exporter_request *request)
{
    if (request->announced < BODY_FIRST_SIZE)
        return BODY_FIRST_SIZE;
    return (request->announced < BODY_FIRST_MOST ? (size_t)request->announced : BODY_FIRST_MOST) +
           1;
}

static bool grow_body(struct exporter_request *request, size_t needed)
{
    if (needed <= request->body_capacity)
        return true;
    size_t capacity = request->body_capacity > 0 ? request->body_capacity : first_capacity(request);
    while (capacity < needed)
        capacity *= 2;
    char *grown = realloc(request->body, capacity);
    if (grown == NULL)
        return false;
    request->body = grown;
    request->body_capacity = capacity;
    return true;
}

/* false: the client has to be cut. */
static bool take_body(struct exporter_request *request, const char *bytes, size_t length)
{
    if (request->refusal.status == 0 && length > request->body_limit - request->body_length)
        refuse_too_large(request);
    if (request->refusal.status != 0) {
        request->discarded += length;
        return request->discarded <= DISCARD_MAX;
    }
    if (!grow_body(request, request->body_length + length + 1))
        return false;
    memcpy(request->body + request->body_length, bytes, length);
    request->body_length += length;
    request->body[request->body_length] = '\0';
    return true;
}

/* ---- handling ------------------------------------------------------------------------------- */

static void respond_options(struct exporter_request *request)
{
    struct exporter_reply reply = {.status = 204};
    reply.headers[0] = (struct exporter_header){"Allow", request->match.allow};
    exporter_respond(request, &reply);
}

void exporter_request_admitted(struct exporter_request *request)
{
    if (request->refusal.status != 0)
        exporter_respond_problem(request, &request->refusal);
    else if (request->match.route == NULL)
        respond_options(request);
    else
        request->match.route->handle(request, request->match.route->context);
}

static void handle(struct exporter_request *request)
{
    request->state = REQUEST_HANDLING;
    request->connection->deadline_ms = INT64_MAX;
    exporter_admission_judge(request);
    EXPORTER_CHECK(request->state != REQUEST_HANDLING); /* a handler that forgot to answer */
    if (request->state == REQUEST_DEFERRED) {
        request->suspended = true;
        MHD_suspend_connection(request->mhd);
    }
}

static struct exporter_request *request_new(struct exporter_server *server,
                                            struct MHD_Connection *mhd, const char *url,
                                            const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exporter_connection *connection = info != NULL ? info->socket_context : NULL;
    if (connection == NULL)
        return NULL; /* it was made when memory was short */
    EXPORTER_CHECK_MAGIC(connection, CONNECTION_MAGIC);
    struct exporter_request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    request->magic = REQUEST_MAGIC;
    request->server = server;
    request->connection = connection;
    request->mhd = mhd;
    request->method = method;
    request->raw_path = url;
    request->began_ms = exporter_monotonic_ms();
    request->write_ms = server->options.limits.write_ms;
    atomic_fetch_add(&server->in_flight, 1);
    return request;
}

static enum MHD_Result begin(struct exporter_server *server, struct MHD_Connection *mhd,
                             const char *url, const char *method, void **context)
{
    struct exporter_request *request = request_new(server, mhd, url, method);
    if (request == NULL)
        return MHD_NO;
    *context = request;
    route(request);
    if (judge_body_length(request))
        handle(request);
    return request->state == REQUEST_ABANDONED ? MHD_NO : MHD_YES;
}

enum MHD_Result exporter_request_handle(void *server_arg, struct MHD_Connection *mhd,
                                        const char *url, const char *method, const char *version,
                                        const char *upload, size_t *upload_size, void **context)
{
    (void)version;
    struct exporter_server *server = server_arg;
    EXPORTER_CHECK_MAGIC(server, SERVER_MAGIC);
    struct exporter_request *request = *context;
    if (request == NULL)
        return begin(server, mhd, url, method, context);
    EXPORTER_CHECK_MAGIC(request, REQUEST_MAGIC);
    if (*upload_size > 0) {
        const size_t length = *upload_size;
        *upload_size = 0;
        return take_body(request, upload, length) ? MHD_YES : MHD_NO;
    }
    if (request->state == REQUEST_RECEIVING)
        handle(request);
    return request->state == REQUEST_ABANDONED ? MHD_NO : MHD_YES;
}

static void request_free(struct exporter_request *request)
{
    while (request->scratch != NULL) {
        struct scratch *next = request->scratch->next;
        free(request->scratch);
        request->scratch = next;
    }
    free(request->body);
    request->magic = 0;
    free(request);
}

/* Between two requests a client may idle, and then has as long for the next as for the first. */
void exporter_request_completed(void *server_arg, struct MHD_Connection *mhd, void **context,
                                enum MHD_RequestTerminationCode how)
{
    (void)mhd;
    (void)how;
    struct exporter_server *server = server_arg;
    struct exporter_request *request = *context;
    if (request == NULL)
        return;
    EXPORTER_CHECK_MAGIC(request, REQUEST_MAGIC);
    EXPORTER_CHECK(request->state != REQUEST_DEFERRED);
    *context = NULL;
    const struct exporter_limits *limits = &server->options.limits;
    exporter_connection_deadline(request->connection,
                                 exporter_monotonic_ms() + limits->idle_ms + limits->read_ms);
    request_free(request);
    atomic_fetch_sub(&server->in_flight, 1);
}
