/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - which lane has a handoff: the one table that all threads share.
 *
 * Split into shards, each with a lock that is held for a lookup only. Entries are embedded, so
 * adding one cannot fail.
 */
#ifndef HANDOFF_DELIVER_LIVE_H
#define HANDOFF_DELIVER_LIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/base/uuid.h"

struct handoff_agent;
struct handoff_lane;

struct handoff_live_entry {
    LIST_ENTRY(handoff_live_entry) link;
    const struct handoff_uuid *id;
    struct handoff_lane *lane;
    void *owner;
    int64_t since_ns; /* monotonic; when it was accepted */

    /* for those who ask from other threads */
    _Atomic(int) state;
    _Atomic(struct handoff_agent *) agent; /* that has it */
};

enum { HANDOFF_LIVE_SHARDS = 16, HANDOFF_LIVE_BUCKETS = 1024 };

struct handoff_live_shard {
    pthread_mutex_t lock; /* of the lists */
    LIST_HEAD(handoff_live_bucket, handoff_live_entry) buckets[HANDOFF_LIVE_BUCKETS];
};

struct handoff_live {
    struct handoff_live_shard *shards;
};

bool handoff_live_init(struct handoff_live *live); /* false: no memory */
void handoff_live_free(struct handoff_live *live); /* it is empty */

/* false: there is one of this id. */
bool handoff_live_add(struct handoff_live *live, struct handoff_live_entry *entry);
void handoff_live_remove(struct handoff_live *live, struct handoff_live_entry *entry);

/* Any thread: the lane that has it, or NULL. */
struct handoff_lane *handoff_live_lane(struct handoff_live *live, const struct handoff_uuid *id);

static inline void handoff_live_note(struct handoff_live_entry *entry, int state)
{
    atomic_store_explicit(&entry->state, state, memory_order_relaxed);
}

/* Any thread: the state that was noted last; 0: it is not here. */
int handoff_live_state(struct handoff_live *live, const struct handoff_uuid *id);

static inline void handoff_live_note_agent(struct handoff_live_entry *entry,
                                           struct handoff_agent *agent)
{
    atomic_store_explicit(&entry->agent, agent, memory_order_relaxed);
}

/* Any thread: calls `visit` for each, under a lock that those who come and go wait for. */
void handoff_live_each(struct handoff_live *live,
                       void (*visit)(const struct handoff_live_entry *entry, void *arg), void *arg);

/* The lane's thread: the owner of the entry, if it is on this lane; else NULL. */
void *handoff_live_find(struct handoff_live *live, const struct handoff_uuid *id,
                        const struct handoff_lane *lane);

#endif
