/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feeds.h - a feed is a channel and one of its receivers: what metrics and findings are about.
 *
 * A feed is made when the channel is configured, or with the first delivery to an agent that was
 * named in a publication. It stays until the client is closed, so a delivery keeps a pointer to its
 * feed. Both names are known ones, so the number of feeds is limited by the configurations that the
 * process has seen.
 *
 * Any thread. The lock is held for a lookup, or while feeds are visited.
 */
#ifndef HANDOFF_CHANNELS_FEEDS_H
#define HANDOFF_CHANNELS_FEEDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lib/base/span.h"

struct handoff_feed {
    LIST_ENTRY(handoff_feed) link;  /* lock of the table */
    const char *channel, *receiver; /* never change */
    bool subscribed;                /* lock of the table: the channel has this receiver now */

    /* of the visitor in snapshot.c, under its lock */
    uint64_t pending;
    int64_t oldest_ns; /* monotonic; INT64_MAX: none is pending */
};

enum { HANDOFF_FEED_BUCKETS = 256 };

struct handoff_feeds {
    pthread_mutex_t lock;
    LIST_HEAD(handoff_feed_list, handoff_feed) buckets[HANDOFF_FEED_BUCKETS];
};

void handoff_feeds_init(struct handoff_feeds *feeds);
void handoff_feeds_free(struct handoff_feeds *feeds); /* no delivery is left */

/* The feed of these names, made where it is new. NULL: out of memory. */
struct handoff_feed *handoff_feeds_get(struct handoff_feeds *feeds, struct base_span channel,
                                       struct base_span receiver);

/* None is subscribed; then each that is marked. Only a subscription makes a feed; without memory
   for it, the feed begins with its first delivery. */
void handoff_feeds_unsubscribe_all(struct handoff_feeds *feeds);
void handoff_feeds_subscribe(struct handoff_feeds *feeds, struct base_span channel,
                             struct base_span receiver, bool subscribed);

/* Calls `visit` for each feed, in no order, under the lock. */
void handoff_feeds_each(struct handoff_feeds *feeds,
                        void (*visit)(struct handoff_feed *feed, void *arg), void *arg);

#endif
