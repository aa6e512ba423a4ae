/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disconnects.h - clients that leave while their request waits.
 *
 * libmicrohttpd does not look at a suspended connection, so a client that is gone would keep its
 * connection, and whatever waits for it, until the answer comes. So the socket of every connection
 * is watched once more by the server's own loop, edge-triggered and for nothing but its end, from
 * when the connection begins. What the socket receives does not wake that watch, so a request that
 * answers at once pays nothing for it.
 *
 * A client that shuts down only its sending side cannot be told from one that has closed, since
 * both send the same and a test would need an answer to send. It counts as gone, as it does with
 * nginx: rather that than handing work to the dead. What it asked for is done; only the answer is
 * not given.
 */
#ifndef EXPORTER_HTTP_DISCONNECTS_H
#define EXPORTER_HTTP_DISCONNECTS_H

#include <stdbool.h>

struct exporter_connection;

/* Without kernel memory the connection is not watched: its requests wait as long as they do. */
void exporter_connection_watch(struct exporter_connection *connection);
/* Asks the kernel, which may know what the loop has not been told yet. */
bool exporter_connection_has_left(const struct exporter_connection *connection);
/* Before the descriptor is closed. */
void exporter_connection_unwatch(const struct exporter_connection *connection);

#endif
