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
#include "lib/base/workers.h"

/* `host` runs on the system's clock and outlives the loop. What it posts to itself is delivered in
   the order of posting together with the client's mail, also while the loop stops and closes. Of
   handoff.h's functions for a loop, _fd, _wait_ms, _run and _wait are not for this one. */
enum handoff_code handoff_loop_open_on(struct handoff_loop **loop, struct handoff_client *client,
                                       struct base_loop *host,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

/* What would keep the host's loop from serving others, for the client's workers. */
struct handoff_host_work {
    struct base_work work;                        /* the host sets `bytes` (workers.h) */
    struct handoff_loop *loop;                    /* it is not closed before this is done */
    void (*run)(struct handoff_host_work *work);  /* on a worker */
    void (*done)(struct handoff_host_work *work); /* on the loop; may free the work */
};

/* False: as many wait as may, and nothing was begun. On the loop's thread. */
bool handoff_host_work_begin(struct handoff_host_work *work);
/* Empties an arena; its memory is returned to the kernel on a worker, since that takes milliseconds
   where it is much. Any thread. */
void handoff_host_free_arena(struct handoff_loop *loop, struct base_arena *arena);

#endif
