/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_index.h - which lane has a handoff: the one table that all threads share.
 *
 * Split into shards, each with a lock that is held for a lookup only. An entry is embedded in its
 * delivery (delivery.h), so adding one cannot fail; only the delivery's lane changes it. Functions
 * not marked "Any thread" are for that lane.
 */
#ifndef HANDOFF_DELIVER_LIVE_INDEX_H
#define HANDOFF_DELIVER_LIVE_INDEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/model/handoff_model.h"
#include "lib/base/uuid.h"

struct handoff_agent;
struct handoff_feed;
struct handoff_lane;

/* A consistent snapshot of one handoff's status. state NONE: use the store's row. */
struct handoff_live_view {
    enum handoff_state state;
    const char *target; /* name of the agent that has it; lives as long as the table of agents */
    enum handoff_reason reason;
    uint32_t attempts;
    int64_t settled_ms; /* wall clock; 0: not settled */
};

struct handoff_live_entry {
    LIST_ENTRY(handoff_live_entry) link;
    const struct base_uuid *id;
    struct handoff_lane *lane;
    void *owner;                         /* begins with its magic */
    _Atomic(struct handoff_feed *) feed; /* of a publication; set once. NULL: it is not of one */
    int64_t since_ns;                    /* monotonic; when it was accepted; lock of the shard */
    bool is_listed;                      /* lock of the shard */

    /* read by other threads */
    _Atomic(int) state;
    _Atomic(struct handoff_agent *) agent; /* that has the handoff */
    struct handoff_live_view view;         /* what is published; lock of the shard */
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
void handoff_live_free(struct handoff_live *live); /* must be empty */

/* false: the index has an entry with this id. */
bool handoff_live_add(struct handoff_live *live, struct handoff_live_entry *entry);
/* The same handoff by another entry of its lane, with all that is known of it; the old one is not
   listed any more, and has no feed. No other thread sees a moment without either. */
void handoff_live_replace(struct handoff_live *live, struct handoff_live_entry *from,
                          struct handoff_live_entry *to);
/* Does nothing where it was removed before. */
void handoff_live_remove(struct handoff_live *live, struct handoff_live_entry *entry);
/* Fills in a claimed entry: state, agent and when it was accepted. Until then it shows as parked,
   with no agent. */
void handoff_live_fill(struct handoff_live *live, struct handoff_live_entry *entry, int state,
                       struct handoff_agent *agent, int64_t since_ns);

/* Any thread: the lane that has the handoff, or NULL. */
struct handoff_lane *handoff_live_lane(struct handoff_live *live, const struct base_uuid *id);

static inline void handoff_live_note(struct handoff_live_entry *entry, int state)
{
    atomic_store_explicit(&entry->state, state, memory_order_relaxed);
}

/* Any thread: the state that was noted last; 0: no lane has the handoff. */
int handoff_live_state(struct handoff_live *live, const struct base_uuid *id);

/* Publishes its status. */
void handoff_live_publish(struct handoff_live *live, struct handoff_live_entry *entry,
                          const struct handoff_live_view *view);
/* Any thread. false: use the store's row. */
bool handoff_live_read_view(struct handoff_live *live, const struct base_uuid *id,
                            struct handoff_live_view *view);

static inline void handoff_live_note_agent(struct handoff_live_entry *entry,
                                           struct handoff_agent *agent)
{
    atomic_store_explicit(&entry->agent, agent, memory_order_relaxed);
}

/* Any thread: calls `visit` for each entry, under the shard's lock, so adding and removing wait. */
void handoff_live_each(struct handoff_live *live,
                       void (*visit)(const struct handoff_live_entry *entry, void *arg), void *arg);

/* The lane's thread: the owner of the entry, if it is on this lane; else NULL. */
void *handoff_live_find(struct handoff_live *live, const struct base_uuid *id,
                        const struct handoff_lane *lane);

#endif
