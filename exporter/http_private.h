/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_private.h - what server.c (connections), http.c (requests) and admission.c (who may come in)
 * share. No one else includes it.
 */
#ifndef EXPORTER_HTTP_PRIVATE_H
#define EXPORTER_HTTP_PRIVATE_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/queue.h>

#include "exporter/server.h"

enum {
    SERVER_MAGIC = 0x5e57e75e,
    CONNECTION_MAGIC = 0xc0ec7102,
    REQUEST_MAGIC = 0x7ea0e575,
};

struct exporter_tls;

struct exporter_connection {
    unsigned magic;
    struct exporter_server *server;
    int fd;
    /* When the client is cut, on the loop's clock; INT64_MAX while it waits for us. */
    int64_t deadline_ms;
    struct exporter_tls *tls; /* NULL on a plain connection */
    char peer[INET6_ADDRSTRLEN];
    LIST_ENTRY(exporter_connection) entry;
};

LIST_HEAD(exporter_connections, exporter_connection);
LIST_HEAD(exporter_requests, exporter_request);

struct exporter_server {
    unsigned magic;
    struct exporter_server_options options;
    struct MHD_Daemon *daemon;
    struct exporter_source source;
    bool quiesced;
    struct exporter_connections connections;
    struct exporter_requests deferred;
    struct exporter_timer sweep;
    /* written by the loop, read by any thread */
    atomic_uint in_flight;
};

/* Moves the deadline of a connection, and the sweep that enforces it. */
void exporter_connection_deadline(struct exporter_connection *connection, int64_t deadline_ms);

/* The calls that libmicrohttpd makes for a request: *context is the request. */
enum MHD_Result exporter_request_handle(void *server_arg, struct MHD_Connection *mhd,
                                        const char *url, const char *method, const char *version,
                                        const char *upload, size_t *upload_size, void **context);
void exporter_request_completed(void *server_arg, struct MHD_Connection *mhd, void **context,
                                enum MHD_RequestTerminationCode how);

const struct exporter_server *exporter_request_server(const struct exporter_request *request);

/* What admission.c calls when a request may go on: its handler runs, or its refusal is sent. */
void exporter_request_admitted(struct exporter_request *request);

/* Cancels a deferred request and lets its connection die. */
void exporter_request_cancel(struct exporter_request *request);

#endif
