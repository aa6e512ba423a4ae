/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes in before a handler runs: the path, which chooses the route, and the body, within the
 * route's limit. What was refused is still read, up to a limit, and thrown away (http.c says why).
 *
 * On the request's loop thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/http/crowd.h"
#include "exporter/http/http_private.h"

enum {
    DISCARD_MAX = 16 << 20,     /* so much of a refused body is read before the client is cut */
    BODY_FIRST_SIZE = 4 << 10,  /* where the length is not known */
    BODY_FIRST_MOST = 64 << 10, /* nearly all handoffs fit */
};

static void refuse_request(struct exporter_request *request, enum handoff_code code,
                           const char *detail)
{
    request->refusal = (struct exporter_problem){.code = code, .detail = detail};
}

static void refuse_too_large(struct exporter_request *request)
{
    const struct exporter_route *found = request->match.route;
    const bool configured = found != NULL && found->body_limit == EXPORTER_BODY_OF_LISTENER;
    exporter_request_drop_body(request);
    refuse_request(request, HANDOFF_ERR_TOO_LARGE, "the request body is too large for this call");
    snprintf(request->body_allowed, sizeof request->body_allowed, "up to %zu bytes%s",
             request->body_limit, configured ? " (api.max_body)" : "");
    request->refusal.field = "body";
    request->refusal.allowed = request->body_allowed;
}

/* One listener is often asked for what the other has. */
static void refuse_path(struct exporter_request *request)
{
    struct exporter_route_match match;
    const struct exporter_server_options *options = &request->server->options;
    refuse_request(request, HANDOFF_ERR_NOT_FOUND, "no such path");
    if (options->other.routes == NULL ||
        exporter_route_find(options->other.routes, request->method, &request->path, &match) ==
            EXPORTER_ROUTE_UNKNOWN)
        return;
    request->refusal.detail = options->other.advice;
    request->refusal.field = "path";
    request->refusal.seen = request->raw_path;
    request->refusal.allowed = options->other.address;
}

void exporter_request_route(struct exporter_request *request)
{
    switch (exporter_path_parse(&request->path, request->raw_path)) {
    case EXPORTER_PATH_OK:
        break;
    case EXPORTER_PATH_MALFORMED:
        refuse_request(request, HANDOFF_ERR_BAD_PATH, "the path is malformed");
        return;
    case EXPORTER_PATH_TOO_LONG:
        refuse_request(request, HANDOFF_ERR_NOT_FOUND, "no such path");
        return;
    }
    switch (exporter_route_find(request->server->options.routes, request->method, &request->path,
                                &request->match)) {
    case EXPORTER_ROUTE_FOUND:
        break;
    case EXPORTER_ROUTE_UNKNOWN:
        refuse_path(request);
        break;
    case EXPORTER_ROUTE_METHOD:
        refuse_request(request, HANDOFF_ERR_METHOD_NOT_ALLOWED, "method not allowed for this path");
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

bool exporter_request_check_length(struct exporter_request *request)
{
    const char *text = exporter_request_header(request, "Content-Length");
    const unsigned long long length = text != NULL ? strtoull(text, NULL, 10) : 0;
    request->announced = length;
    request->body_limit = route_body_limit(request);
    if (request->refusal.code == HANDOFF_OK && length > request->body_limit)
        refuse_too_large(request);
    if (request->refusal.code == HANDOFF_OK)
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

/* In place of what it has. */
static void hold_body(struct exporter_request *request, struct exporter_body_room room)
{
    struct exporter_connection *connection = request->connection;
    if (connection->held == 0)
        exporter_crowd_begin_pace(connection, base_monotonic_ms(&base_clock_system));
    exporter_held_add(connection, room.capacity);
    exporter_held_drop(connection, request->body.capacity);
    request->body = room;
}

/* A body lives from its first byte to the end of its handler, so there is seldom more than one, and
 * its memory is warm when the next one comes. */
static void take_spare(struct exporter_request *request)
{
    struct exporter_body_room *spare = &request->server->spare;
    if (spare->capacity < first_capacity(request))
        return;
    hold_body(request, *spare);
    *spare = (struct exporter_body_room){0};
}

void exporter_request_drop_body(struct exporter_request *request)
{
    struct exporter_body_room *spare = &request->server->spare, *room = &request->body;
    exporter_held_drop(request->connection, room->capacity);
    if (room->capacity > spare->capacity && room->capacity <= BODY_FIRST_MOST + 1) {
        free(spare->bytes);
        *spare = *room;
    } else {
        free(room->bytes);
    }
    *room = (struct exporter_body_room){0};
    request->body_length = 0;
}

char *exporter_request_give_body(struct exporter_request *request)
{
    char *bytes = request->body.bytes;
    exporter_held_drop(request->connection, request->body.capacity);
    request->body = (struct exporter_body_room){0};
    request->body_length = 0;
    return bytes;
}

static bool grow_body(struct exporter_request *request, size_t needed)
{
    struct exporter_body_room *room = &request->body;
    if (room->capacity == 0)
        take_spare(request);
    if (needed <= room->capacity)
        return true;
    size_t capacity = room->capacity > 0 ? room->capacity : first_capacity(request);
    while (capacity < needed)
        capacity *= 2;
    if (!exporter_held_make_room(request->connection, capacity - room->capacity))
        return false;
    char *grown = realloc(room->bytes, capacity);
    if (grown == NULL)
        return false;
    hold_body(request, (struct exporter_body_room){grown, capacity});
    return true;
}

bool exporter_request_take(struct exporter_request *request, const char *bytes, size_t length)
{
    if (request->refusal.code == HANDOFF_OK && length > request->body_limit - request->body_length)
        refuse_too_large(request);
    if (request->refusal.code != HANDOFF_OK) {
        request->discarded += length;
        return request->discarded <= DISCARD_MAX;
    }
    if (!grow_body(request, request->body_length + length + 1)) {
        exporter_request_drop_body(request);
        request->refusal = exporter_held_refusal;
        return true;
    }
    memcpy(request->body.bytes + request->body_length, bytes, length);
    request->body_length += length;
    request->body.bytes[request->body_length] = '\0';
    request->connection->received = (int64_t)request->body_length;
    return true;
}
