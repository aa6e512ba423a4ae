/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poller.h - one epoll instance and what it watches.
 *
 * Part of a loop (loop.h), which waits here. Watches are embedded in their owners. One that was
 * forgotten is not called any more, not even for an event that had already been received, so its
 * owner may free it at once. On the loop's thread.
 */
#ifndef BASE_POLLER_H
#define BASE_POLLER_H

#include <stdint.h>

#include "lib/base/handoff_error.h"

struct base_watch {
    void (*ready)(struct base_watch *watch, uint32_t events); /* EPOLLIN and so on */
};

struct epoll_event;

enum { BASE_POLLER_BATCH = 64 }; /* what is ready beyond that is received the next time */

struct base_poller {
    unsigned magic;
    int fd;
    struct epoll_event *received; /* of the run under way; NULL: none is */
    int left;                     /* of them, not yet dispatched */
};

enum handoff_code base_poller_init(struct base_poller *poller,
                                   struct handoff_error *error) HANDOFF_MUST_CHECK;
void base_poller_free(struct base_poller *poller);

/* Watches fd, which is not watched yet, for `events`: level-triggered unless EPOLLET is one of
   them. Returns 0, or an errno value. */
int base_poller_add(struct base_poller *poller, int fd, uint32_t events,
                    struct base_watch *watch) HANDOFF_MUST_CHECK;
/* The same for one that may be watched already; its events are then changed. */
int base_poller_watch(struct base_poller *poller, int fd, uint32_t events,
                      struct base_watch *watch) HANDOFF_MUST_CHECK;
/* Harmless for a descriptor that is not watched. */
void base_poller_forget(struct base_poller *poller, int fd, const struct base_watch *watch);

/* Waits at most timeout_ms (-1: for ever) and calls every watch whose descriptor is ready. */
void base_poller_run(struct base_poller *poller, int timeout_ms);

/* Its two steps: waits, and returns how many are ready, of BASE_POLLER_BATCH; then calls their
   watches. */
int base_poller_wait(struct base_poller *poller, struct epoll_event *ready, int timeout_ms);
void base_poller_dispatch(struct base_poller *poller, struct epoll_event *ready, int count);

#endif
