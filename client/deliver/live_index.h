/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_index.h - which lane has a handoff: the one table that all threads share.
 *
 * Split into shards, each with a lock that is held for a lookup only. Entries are embedded, so
 * adding one cannot fail.
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
struct handoff_lane;

/* How it stands with one, all of the same moment. state NONE: what is told of it is the store's
   row. */
struct handoff_live_view {
    enum handoff_state state;
    const char *target; /* name of the agent that has it; lives as long as the table of agents */
    enum handoff_reason reason;
    uint32_t attempts;
    int64_t settled_ms; /* wall clock; 0: it goes on */
};

struct handoff_live_entry {
    LIST_ENTRY(handoff_live_entry) link;
    const struct base_uuid *id;
    struct handoff_lane *lane;
    void *owner;
    int64_t since_ns; /* monotonic; when it was accepted; lock of the shard */

    /* for those who ask from other threads */
    _Atomic(int) state;
    _Atomic(struct handoff_agent *) agent; /* that has it */
    struct handoff_live_view view;         /* what may be told; lock of the shard */
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
/* What one that was added is, for those who visit. */
void handoff_live_begin(struct handoff_live *live, struct handoff_live_entry *entry, int state,
                        struct handoff_agent *agent, int64_t since_ns);

/* Any thread: the lane that has it, or NULL. */
struct handoff_lane *handoff_live_lane(struct handoff_live *live, const struct base_uuid *id);

static inline void handoff_live_note(struct handoff_live_entry *entry, int state)
{
    atomic_store_explicit(&entry->state, state, memory_order_relaxed);
}

/* Any thread: the state that was noted last; 0: it is not here. */
int handoff_live_state(struct handoff_live *live, const struct base_uuid *id);

/* What is told of it from now on. */
void handoff_live_show(struct handoff_live *live, struct handoff_live_entry *entry,
                       const struct handoff_live_view *view);
/* Any thread. false: the store's row is what there is to tell. */
bool handoff_live_look(struct handoff_live *live, const struct base_uuid *id,
                       struct handoff_live_view *view);

static inline void handoff_live_note_agent(struct handoff_live_entry *entry,
                                           struct handoff_agent *agent)
{
    atomic_store_explicit(&entry->agent, agent, memory_order_relaxed);
}

/* Any thread: calls `visit` for each, under a lock that those who come and go wait for. */
void handoff_live_each(struct handoff_live *live,
                       void (*visit)(const struct handoff_live_entry *entry, void *arg), void *arg);

/* The lane's thread: the owner of the entry, if it is on this lane; else NULL. */
void *handoff_live_find(struct handoff_live *live, const struct base_uuid *id,
                        const struct handoff_lane *lane);

#endif
