/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - a bounded number of requests whose answers cost much while they are sent, as scrapes
 * do.
 *
 * Where all slots are taken, the answer that is read slowest is cut for the next request, and if
 * every client reads well there is no slot. Whoever was served last has one for itself even then:
 * others cannot keep the Prometheus out that has always come. A slot is held until the request is
 * over, whatever ends it.
 *
 * On the loop of the requests.
 */
#ifndef EXPORTER_HTTP_SLOTS_H
#define EXPORTER_HTTP_SLOTS_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct exporter_request;

enum { EXPORTER_REGULARS = 2 }; /* Prometheus usually runs twice */

/* An address that was served to the end. */
struct exporter_regular {
    char peer[INET6_ADDRSTRLEN]; /* "": none */
    int64_t served_ms;
};

struct exporter_slots {
    TAILQ_HEAD(exporter_slot_holders, exporter_request) holders; /* the oldest first */
    unsigned taken;
    struct exporter_regular regulars[EXPORTER_REGULARS];
};

void exporter_slots_init(struct exporter_slots *slots);

/* Before the request is answered; once for each request. `most` may change from call to call. */
bool exporter_slots_take(struct exporter_slots *slots, struct exporter_request *request,
                         unsigned most);

#endif
