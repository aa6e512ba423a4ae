/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscribed.h - the table of subscriptions in memory: found by channel and receiver, and listed
 * by channel in the order in which they were made.
 *
 * A channel is in the table as long as it has an entry. Its user holds a lock: channels.c.
 */
#ifndef HANDOFF_CHANNELS_SUBSCRIBED_H
#define HANDOFF_CHANNELS_SUBSCRIBED_H

#include <sys/queue.h>

#include "client/store/subscriptions.h"
#include "lib/base/span.h"

enum {
    HANDOFF_SUBSCRIPTIONS_MAX = 10000,
    HANDOFF_SUBSCRIPTIONS_OF_AGENT_MAX = 1000, /* so that one agent does not use up all of them */
};

struct handoff_subscribed_channel;

struct handoff_subscription {
    TAILQ_ENTRY(handoff_subscription) entry; /* of its channel */
    LIST_ENTRY(handoff_subscription) link;   /* of its bucket */
    struct handoff_subscribed_channel *channel;
    const char *receiver;
    enum handoff_subscription_state state; /* as it is on disk, unless it is changing */
    bool changing;                         /* being stored: no other change may start */
    bool included; /* of one that is catching up: new publications include it again */
    uint64_t number;
    int64_t behind; /* of one that is catching up: the smallest number that may have appeared behind
                       its position; 0: none */
    /* publications that retention took before it had come to them: since the decision that is in
       force, and since the one that is being stored */
    struct handoff_dropped {
        int64_t at_ms, count;
    } dropped, coming;
    char name[];
};

struct handoff_subscribed_channel {
    TAILQ_ENTRY(handoff_subscribed_channel) entry; /* of the table */
    LIST_ENTRY(handoff_subscribed_channel) link;   /* of its bucket */
    const char *name;
    TAILQ_HEAD(handoff_subscription_list, handoff_subscription) subscriptions;
    char text[];
};

enum { HANDOFF_SUBSCRIBED_BUCKETS = 1024 };

struct handoff_subscribed {
    TAILQ_HEAD(handoff_subscribed_channels, handoff_subscribed_channel) channels;
    LIST_HEAD(handoff_subscribed_names, handoff_subscribed_channel)
    by_name[HANDOFF_SUBSCRIBED_BUCKETS];
    LIST_HEAD(handoff_subscribed_pairs, handoff_subscription) by_pair[HANDOFF_SUBSCRIBED_BUCKETS];
    size_t count;
};

void handoff_subscribed_init(struct handoff_subscribed *table);
void handoff_subscribed_free(struct handoff_subscribed *table);

struct handoff_subscription *handoff_subscribed_find(const struct handoff_subscribed *table,
                                                     struct base_span channel,
                                                     struct base_span receiver);
/* NULL: it has no entry. */
struct handoff_subscribed_channel *
handoff_subscribed_find_channel(const struct handoff_subscribed *table, struct base_span name);
/* How many an agent has. Looks through all. */
size_t handoff_subscribed_count(const struct handoff_subscribed *table, struct base_span receiver);

/* A new entry is made without the lock, and added or freed with it. */
struct handoff_new_subscription {
    struct handoff_subscription *subscription;
    struct handoff_subscribed_channel *channel;
};

/* false: out of memory. */
bool handoff_subscribed_make(struct handoff_new_subscription *made, struct base_span channel,
                             struct base_span receiver) HANDOFF_MUST_CHECK;
/* Takes over what is needed of it; the rest is left to be freed. */
struct handoff_subscription *handoff_subscribed_add(struct handoff_subscribed *table,
                                                    struct handoff_new_subscription *made);
void handoff_subscribed_remove(struct handoff_subscribed *table,
                               struct handoff_subscription *subscription,
                               struct handoff_new_subscription *removed);
/* What is left in it. */
void handoff_new_subscription_free(struct handoff_new_subscription *made);

#endif
