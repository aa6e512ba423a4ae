/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin.h - a host and port that is posted to over plain HTTP, and the connections to it that are
 * kept, whatever paths they are used for.
 *
 * Found by how a URL begins, and gone when nobody uses it: connections and exchanges do.
 */
#ifndef HANDOFF_TRANSPORT_ORIGIN_H
#define HANDOFF_TRANSPORT_ORIGIN_H

#include <stddef.h>
#include <sys/queue.h>

#include "lib/base/buffer.h"

struct handoff_connection;

TAILQ_HEAD(handoff_connections, handoff_connection);

struct handoff_origin {
    LIST_ENTRY(handoff_origin) entry;
    unsigned users;
    struct handoff_connections idle; /* the last used first, so that the others grow old */
    struct base_buffer head;         /* the headers that every request to it has */
    size_t url_size;
    char url[]; /* "http://127.0.0.1:9001" */
};

enum { HANDOFF_ORIGIN_BUCKETS = 512 }; /* agents are rarely more */

LIST_HEAD(handoff_origin_bucket, handoff_origin);

struct handoff_origins {
    struct handoff_origin_bucket buckets[HANDOFF_ORIGIN_BUCKETS];
};

/* Makes it where there is none. NULL: there is no memory, or it is a URL that curl has to read. */
struct handoff_origin *handoff_origin_use(struct handoff_origins *origins, const char *url);
void handoff_origin_leave(struct handoff_origin **origin);

/* The request line for a URL of this origin, and the headers that every request has. */
void handoff_origin_write(const struct handoff_origin *origin, const char *url,
                          struct base_buffer *head);

#endif
