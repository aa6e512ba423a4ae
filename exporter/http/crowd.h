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

#include <stdbool.h>
#include <stdint.h>

struct exporter_connection;
struct exporter_server;

/* A client has come; one of its own address gives way to it where that has too many, else any. */
void exporter_crowd_admit(struct exporter_connection *newcomer);
/* A place may have become one that can be spared. */
void exporter_crowd_thin(struct exporter_server *server);
/* The process has no descriptor for a client that waits: one that can be spared gives it one. */
void exporter_crowd_spare_descriptor(struct exporter_server *server);

/* ---- how fast a client reads an answer, or sends a large body ---- */

void exporter_crowd_begin_pace(struct exporter_connection *connection, int64_t now_ms);
/* Measures it, once a second or nearly. */
void exporter_crowd_sweep(struct exporter_connection *connection, int64_t now_ms);
/* The same, unless it did so less than `least_ms` ago. */
void exporter_crowd_watch(struct exporter_connection *connection, int64_t now_ms, int64_t least_ms);
/* As far as it is known. */
bool exporter_crowd_is_slow(const struct exporter_connection *connection);

#endif
