/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolver.h - from the name of a host to its addresses.
 *
 * getaddrinfo is the only function that knows all sources of names that a machine is configured
 * with, and it blocks, for as long as a name server pleases. So it runs on threads of the resolver,
 * at most HANDOFF_RESOLVER_THREADS of them in the whole process, each started when a name waits and
 * ended when none did for a while. A name is looked up once for everything that waits for it, and
 * remembered for a few seconds. Addresses written as numbers and localhost need no lookup.
 *
 * A port is a transport's end of the resolver: it belongs to one loop, and its answers arrive
 * there. All functions run on the thread of that loop.
 */
#ifndef HANDOFF_TRANSPORT_RESOLVER_H
#define HANDOFF_TRANSPORT_RESOLVER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "client/handoff.h"
#include "client/transport/fault.h"
#include "lib/base/poller.h"

enum {
    HANDOFF_RESOLVER_THREADS = 16,
    HANDOFF_RESOLVER_FOUND_MS = 10000, /* how long addresses are remembered */
    HANDOFF_RESOLVER_FAILED_MS = 1000, /* and failures */
    HANDOFF_ADDRESSES_MAX = 16,        /* of one host; more are ignored */
};

struct handoff_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } of;
    socklen_t size;
};

/* In the order in which they should be tried: families alternate (RFC 8305 section 4). */
struct handoff_addresses {
    size_t count;
    struct handoff_address list[HANDOFF_ADDRESSES_MAX]; /* without a port */
};

TAILQ_HEAD(handoff_lookups, handoff_lookup);

/* Embedded in its owner. */
struct handoff_lookup {
    void (*done)(struct handoff_lookup *lookup); /* set by the owner; it may free the lookup */
    struct handoff_addresses addresses;          /* result; none: it failed */
    enum handoff_fault own; /* result: a shortage of ours, which is why it failed; or NONE */

    /* the resolver's */
    struct handoff_resolver_port *port;
    struct handoff_lookups *in; /* the list that it waits in; NULL: none */
    TAILQ_ENTRY(handoff_lookup) entry;
};

struct handoff_resolver_port;

enum handoff_code handoff_resolver_port_open(struct handoff_resolver_port **port,
                                             struct base_poller *poller,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;
/* No lookup waits. Lookups that run on threads go on, and are forgotten. */
void handoff_resolver_port_close(struct handoff_resolver_port **port);

/* True: the result is there, and `done` will not be called. False: it will be, on the loop. The
 * host is copied. */
bool handoff_lookup_start(struct handoff_resolver_port *port, struct handoff_lookup *lookup,
                          const char *host) HANDOFF_MUST_CHECK;
/* Harmless on a zeroed one, and on one that is done. */
void handoff_lookup_cancel(struct handoff_lookup *lookup);

static inline bool handoff_lookup_waits(const struct handoff_lookup *lookup)
{
    return lookup->in != NULL;
}

#endif
