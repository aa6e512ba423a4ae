/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial.h - a new TCP connection to a host, whichever of its addresses answers first.
 *
 * The addresses are tried as RFC 8305 says (happy eyeballs): in turn, the next one when the last
 * one failed, or after HANDOFF_DIAL_DELAY_MS in which it did not answer; those before go on
 * meanwhile. The first connection wins, and the others are closed. So an address that refuses costs
 * nothing, and one that drops packets a quarter of a second.
 *
 * A dialer belongs to one loop, and all runs on its thread.
 */
#ifndef HANDOFF_TRANSPORT_DIAL_H
#define HANDOFF_TRANSPORT_DIAL_H

#include <stdint.h>

#include "client/transport/fault.h"
#include "client/transport/resolver.h"
#include "lib/base/clock.h"
#include "lib/base/poller.h"
#include "lib/base/quota.h"
#include "lib/base/timers.h"

enum { HANDOFF_DIAL_DELAY_MS = 250 }; /* the Connection Attempt Delay that RFC 8305 recommends */

struct handoff_dialer {
    struct base_poller *poller;
    struct base_timers *timers;
    const struct base_clock *clock;
    struct handoff_resolver_port *port;
    struct base_quota *quota; /* of sockets; each that is open has a place of it */
};

struct handoff_dial;

struct handoff_dialled {
    int fd;                         /* owned by the receiver, with its place in the quota; -1:
                                       dialling failed */
    const char *peer;               /* "127.0.0.1:9001"; lent until done returns */
    struct handoff_address address; /* the address that answered */
    struct handoff_failure failure; /* if fd is -1; lent until done returns */
};

/* `done` is called once, on the loop, and never from here; the dial is freed after it. NULL: out of
 * memory, and `done` will not be called. `host` is copied: a name, or an address, without brackets.
 */
struct handoff_dial *handoff_dial_start(const struct handoff_dialer *dialer, const char *host,
                                        uint16_t port, int64_t timeout_ms,
                                        void (*done)(void *arg, const struct handoff_dialled *),
                                        void *arg);
/* Cancels it without calling `done`. Harmless on NULL. */
void handoff_dial_cancel(struct handoff_dial **dial);

/* Closes a connection that was dialled, and gives its place back. */
void handoff_dialled_close(const struct handoff_dialer *dialer, int fd);

/* What has taken too long if it is given up now, after so many ms. */
struct handoff_failure handoff_dial_timeout(const struct handoff_dial *dial, int64_t within_ms);

#endif
