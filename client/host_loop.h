/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_loop.h - a client's loop on a loop that the host has already.
 *
 * For hosts built from this tree, whose threads run a struct base_loop: deliveries, the client's
 * timers and its mail are then served by the host's one epoll instance. Not installed; any other
 * host drives the loop of handoff_loop_open() through its descriptor (handoff.h).
 */
#ifndef HANDOFF_HOST_LOOP_H
#define HANDOFF_HOST_LOOP_H

#include "client/handoff.h"
#include "lib/base/loop.h"

/* `host` runs on the system's clock and outlives the loop. What it posts to itself is delivered in
   the order of posting together with the client's mail, also while the loop stops and closes. Of
   handoff.h's functions for a loop, _fd, _wait_ms, _run and _wait are not for this one. */
enum handoff_code handoff_loop_open_on(struct handoff_loop **loop, struct handoff_client *client,
                                       struct base_loop *host,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
