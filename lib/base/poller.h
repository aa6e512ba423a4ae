/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poller.h - one epoll instance and what it watches.
 *
 * The host watches handoff_poller.fd in its own loop and calls handoff_poller_run when that is
 * readable. Watches are embedded in their owners; one that was removed may still be told of an
 * event of the same turn, so an owner keeps its memory until the run is over, or stays for good.
 */
#ifndef HANDOFF_BASE_POLLER_H
#define HANDOFF_BASE_POLLER_H

#include <stdint.h>

#include "client/handoff.h"

struct handoff_watch {
    void (*ready)(struct handoff_watch *watch, uint32_t events); /* EPOLLIN and so on */
};

struct handoff_poller {
    unsigned magic;
    int fd;
};

enum handoff_code handoff_poller_init(struct handoff_poller *poller,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;
void handoff_poller_free(struct handoff_poller *poller);

/* Watches fd for `events`, level-triggered; changes them when it is watched already. Returns 0, or
   an errno value. */
int handoff_poller_watch(struct handoff_poller *poller, int fd, uint32_t events,
                         struct handoff_watch *watch) HANDOFF_MUST_CHECK;
/* Harmless for a descriptor that is not watched. */
void handoff_poller_forget(struct handoff_poller *poller, int fd);

/* Tells every watch whose descriptor is ready, without waiting. */
void handoff_poller_run(struct handoff_poller *poller);

#endif
