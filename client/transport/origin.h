/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin.h - a host and port that receives posts over plain HTTP, and its idle connections, which
 * serve any path.
 *
 * Found by the beginning of a URL, and freed with its last user: connections and exchanges use it.
 * Belongs to one loop, and runs on its thread.
 */
#ifndef HANDOFF_TRANSPORT_ORIGIN_H
#define HANDOFF_TRANSPORT_ORIGIN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lib/base/buffer.h"

struct handoff_connection;

TAILQ_HEAD(handoff_connections, handoff_connection);

struct handoff_origin {
    LIST_ENTRY(handoff_origin) entry;
    unsigned users;
    struct handoff_connections idle; /* the last used first, so the others can expire */
    struct base_buffer head;         /* the headers common to all its requests */
    char *host;                      /* to dial: a name, or an address without brackets */
    uint16_t port;
    size_t url_size;
    char url[]; /* "http://127.0.0.1:9001" */
};

enum { HANDOFF_ORIGIN_BUCKETS = 512 }; /* agents are rarely more */

LIST_HEAD(handoff_origin_bucket, handoff_origin);

struct handoff_origins {
    struct handoff_origin_bucket buckets[HANDOFF_ORIGIN_BUCKETS];
};

/* Creates it if needed. NULL: out of memory, or a URL that only curl can handle. */
struct handoff_origin *handoff_origin_use(struct handoff_origins *origins, const char *url);
void handoff_origin_leave(struct handoff_origin **origin);

/* Writes the request line for a URL of this origin, and the common headers. */
void handoff_origin_write(const struct handoff_origin *origin, const char *method, const char *url,
                          struct base_buffer *head);

#endif
