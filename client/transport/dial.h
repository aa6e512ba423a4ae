/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial.h - a new connection to the host of a URL, made by libcurl: name resolution, both address
 * families, time-outs. Nothing is sent over it. The thread of the loop.
 */
#ifndef HANDOFF_TRANSPORT_DIAL_H
#define HANDOFF_TRANSPORT_DIAL_H

#include <stdint.h>

#include "client/transport/curl_loop.h"

struct handoff_dial;

struct handoff_dialled {
    int fd;                         /* owned by the receiver; -1: dialling failed */
    const char *peer;               /* "127.0.0.1:9001"; lent */
    struct handoff_failure failure; /* if fd is -1; lent */
};

/* `done` is called once, on the loop, when curl is settled; the dial is freed after it. NULL: out
 * of memory, and `done` will not be called. */
struct handoff_dial *handoff_dial_start(struct handoff_curl *curl, const char *url,
                                        int64_t timeout_ms,
                                        void (*done)(void *arg, const struct handoff_dialled *),
                                        void *arg);
/* Cancels it without calling `done`. Harmless on NULL. */
void handoff_dial_cancel(struct handoff_dial **dial);

#endif
