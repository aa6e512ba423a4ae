/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disconnects.h - clients that leave while their request waits.
 *
 * libmicrohttpd does not look at a suspended connection, so a client that is gone would keep its
 * connection, and whatever waits for it, until the answer comes. So every connection of a server is
 * watched once more, for nothing but its end: by an epoll instance of our own, edge-triggered, in
 * which it is entered once when it begins. A request that answers at once pays nothing for it.
 *
 * A client that shuts down only its sending side cannot be told from one that has closed, since
 * both send the same and a test would need an answer to send. It counts as gone, as it does with
 * nginx: rather that than handing work to the dead. What it asked for is done; only the answer is
 * not given.
 */
#ifndef EXPORTER_HTTP_DISCONNECTS_H
#define EXPORTER_HTTP_DISCONNECTS_H

#include <stdbool.h>

#include "exporter/http/loop.h"

struct exporter_connection;

struct exporter_departures {
    struct exporter_loop *loop;
    struct exporter_source source;
};

/* false with errno set. */
bool exporter_departures_open(struct exporter_departures *departures, struct exporter_loop *loop);
/* Harmless on one that did not open. */
void exporter_departures_close(struct exporter_departures *departures);

/* Without kernel memory the connection is not watched: its requests wait as long as they do. */
void exporter_departures_watch(const struct exporter_departures *departures,
                               struct exporter_connection *connection);
/* Asks the kernel, which may know what the loop has not been told yet. */
bool exporter_connection_has_left(const struct exporter_connection *connection);
void exporter_departures_forget(const struct exporter_departures *departures,
                                const struct exporter_connection *connection);

#endif
