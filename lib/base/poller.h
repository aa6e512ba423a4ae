/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poller.h - one epoll instance and what it watches.
 *
 * The host watches base_poller.fd in its own loop and calls base_poller_run when that is
 * readable. Watches are embedded in their owners; one that was removed may still be told of an
 * event of the same turn, so an owner keeps its memory until the run is over, or stays for good.
 */
#ifndef BASE_POLLER_H
#define BASE_POLLER_H

#include <stdint.h>

#include "lib/base/handoff_error.h"

struct base_watch {
    void (*ready)(struct base_watch *watch, uint32_t events); /* EPOLLIN and so on */
};

struct base_poller {
    unsigned magic;
    int fd;
};

enum handoff_code base_poller_init(struct base_poller *poller,
                                   struct handoff_error *error) HANDOFF_MUST_CHECK;
void base_poller_free(struct base_poller *poller);

/* Watches fd for `events`, level-triggered; changes them when it is watched already. Returns 0, or
   an errno value. */
int base_poller_watch(struct base_poller *poller, int fd, uint32_t events,
                      struct base_watch *watch) HANDOFF_MUST_CHECK;
/* Harmless for a descriptor that is not watched. */
void base_poller_forget(struct base_poller *poller, int fd);

/* Tells every watch whose descriptor is ready, without waiting. */
void base_poller_run(struct base_poller *poller);

#endif
