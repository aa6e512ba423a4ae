/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feeds.h - a feed is a channel and one of its receivers: what metrics and findings are about.
 *
 * A feed is made when the channel gets the receiver, or with the first delivery to an agent that
 * was named in a publication. It stays as long as the channel has the receiver, or a delivery keeps
 * a pointer to it. Then it is idle, so that a scrape sees that it is over; channels can have any
 * name, so the longest idle one goes when there are too many.
 *
 * A feed can be held: what is new for its receiver then waits, in the order of the store, until
 * something older was delivered (calls/catch_up.c). When it is released, those that waited go on
 * one after the other, each called up by the one before (deliver/order.c).
 *
 * Any thread. The lock is held for a lookup, or while feeds are visited.
 */
#ifndef HANDOFF_CHANNELS_FEEDS_H
#define HANDOFF_CHANNELS_FEEDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lib/base/span.h"
#include "lib/base/uuid.h"

struct handoff_lane;

/* Embedded in a delivery. */
struct handoff_held {
    TAILQ_ENTRY(handoff_held) entry; /* lock of the feed */
    struct handoff_lane *lane;
    struct base_uuid id;
    int64_t seq;
    bool queued; /* lock of the feed */
};

struct handoff_feed {
    LIST_ENTRY(handoff_feed) link;  /* lock of the table */
    TAILQ_ENTRY(handoff_feed) idle; /* likewise: in the list while nothing needs it */
    unsigned users;                 /* likewise: pointers to it that are kept */
    const char *channel, *receiver; /* never change */
    bool subscribed;                /* lock of the table: the channel has this receiver now */

    pthread_mutex_t lock;
    TAILQ_HEAD(handoff_held_list, handoff_held) waiting; /* lock; the oldest first */
    unsigned holds;                                      /* lock */
    atomic_uint busy; /* holds plus waiting deliveries; 0: anything may pass */

    /* of the visitor in snapshot.c, under its lock */
    uint64_t pending;
    int64_t oldest_ns; /* monotonic; INT64_MAX: none is pending */
};

enum { HANDOFF_FEED_BUCKETS = 256, HANDOFF_FEEDS_IDLE_MAX = 1000 };

struct handoff_feeds {
    pthread_mutex_t lock;
    LIST_HEAD(handoff_feed_list, handoff_feed) buckets[HANDOFF_FEED_BUCKETS];
    TAILQ_HEAD(handoff_feeds_idle, handoff_feed) idle; /* the longest idle first */
    size_t nidle;
};

void handoff_feeds_init(struct handoff_feeds *feeds);
void handoff_feeds_free(struct handoff_feeds *feeds); /* no delivery is left */

/* The feed of these names, made where it is new; kept until it is put back. NULL: out of memory. */
struct handoff_feed *handoff_feeds_get(struct handoff_feeds *feeds, struct base_span channel,
                                       struct base_span receiver);
void handoff_feeds_put(struct handoff_feeds *feeds, struct handoff_feed *feed);

/* None is subscribed; then each that is marked. Only a subscription makes a feed; without memory
   for it, the feed begins with its first delivery. */
void handoff_feeds_unsubscribe_all(struct handoff_feeds *feeds);
void handoff_feeds_subscribe(struct handoff_feeds *feeds, struct base_span channel,
                             struct base_span receiver, bool subscribed);

/* Each hold is released once. */
void handoff_feed_hold(struct handoff_feed *feed);
void handoff_feed_release(struct handoff_feed *feed);
/* false: it waits from now on, or still, behind those that are older. One that passes has to call
   up the next. */
bool handoff_feed_pass(struct handoff_feed *feed, struct handoff_held *held);
/* Waits in the place of another, which waits no more. */
void handoff_feed_replace(struct handoff_feed *feed, struct handoff_held *from,
                          struct handoff_held *to);
/* It does not wait any more. */
void handoff_feed_leave(struct handoff_feed *feed, struct handoff_held *held);
/* The delivery that may pass next; false: none waits, or the feed is held. */
bool handoff_feed_next(struct handoff_feed *feed, struct base_uuid *id, struct handoff_lane **lane);

/* Calls `visit` for each feed, in no order, under the lock. */
void handoff_feeds_each(struct handoff_feeds *feeds,
                        void (*visit)(struct handoff_feed *feed, void *arg), void *arg);

#endif
