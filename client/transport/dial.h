/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial.h - a new connection to where a URL leads, made by libcurl: names, addresses of both
 * families, time-outs. Nothing is sent over it.
 */
#ifndef HANDOFF_TRANSPORT_DIAL_H
#define HANDOFF_TRANSPORT_DIAL_H

#include <stdint.h>

#include "client/transport/curl_loop.h"

struct handoff_dial;

struct handoff_dialled {
    int fd;                         /* the receiver's; -1: there is none */
    const char *peer;               /* "127.0.0.1:9001"; lent */
    struct handoff_failure failure; /* where there is none; lent */
};

/* `done` is called once, on the loop, when curl is settled; the dial is gone then. NULL: no memory,
   and `done` will not be called. */
struct handoff_dial *handoff_dial_start(struct handoff_curl *curl, const char *url,
                                        int64_t timeout_ms,
                                        void (*done)(void *arg, const struct handoff_dialled *),
                                        void *arg);
/* Breaks it off without a word. Harmless on NULL. */
void handoff_dial_cancel(struct handoff_dial **dial);

#endif
