/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd.h - more clients than a server has places for: whom it can spare gives way to who comes.
 *
 * A limit that only turns new clients away can be used up by whoever keeps its connections and asks
 * for nothing, and then locks everyone else out, Prometheus first. So a new client is always let
 * in, and a connection gives way that
 *
 *   1. idles between two requests, the longest first; its client connects again when it has to;
 *   2. reads its answer slower than any network of today, those that do not read at all first;
 *   3. has not sent its request yet, the longest first, once it has had a moment to.
 *
 * Who waits for us, or reads on, never gives way; where there are only those, new clients wait in
 * the kernel's queue.
 *
 * On the server's loop.
 */
#ifndef EXPORTER_HTTP_CROWD_H
#define EXPORTER_HTTP_CROWD_H

#include <stdint.h>

struct exporter_connection;
struct exporter_server;

/* A client has come; one of its own address gives way to it where that has too many, else any. */
void exporter_crowd_admit(struct exporter_connection *newcomer);
/* A place may have become one that can be spared. */
void exporter_crowd_thin(struct exporter_server *server);
/* The process has no descriptor for a client that waits: one that can be spared gives it one. */
void exporter_crowd_spare_descriptor(struct exporter_server *server);
/* Takes note of how fast the client of an answer that is being sent reads. */
void exporter_crowd_watch_reader(struct exporter_connection *connection, int64_t now_ms);

#endif
