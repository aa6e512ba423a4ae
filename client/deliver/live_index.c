/* SPDX-License-Identifier: Apache-2.0 */
/* Which lane has a handoff; live_index.h says who may call what. */
#include "client/deliver/live_index.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"

bool handoff_live_init(struct handoff_live *live)
{
    live->shards = base_calloc(HANDOFF_LIVE_SHARDS, sizeof live->shards[0]);
    for (size_t i = 0; live->shards && i < HANDOFF_LIVE_SHARDS; i++)
        pthread_mutex_init(&live->shards[i].lock, NULL);
    return live->shards != NULL;
}

void handoff_live_free(struct handoff_live *live)
{
    for (size_t i = 0; live->shards && i < HANDOFF_LIVE_SHARDS; i++) {
        for (size_t k = 0; k < HANDOFF_LIVE_BUCKETS; k++)
            BASE_CHECK(LIST_EMPTY(&live->shards[i].buckets[k]));
        pthread_mutex_destroy(&live->shards[i].lock);
    }
    base_free(live->shards);
    live->shards = NULL;
}

/* The last bytes of a UUIDv7 are random. */
static uint32_t hash(const struct base_uuid *id)
{
    uint32_t bits;
    memcpy(&bits, id->bytes + 12, sizeof bits);
    return bits;
}

static struct handoff_live_shard *shard_of(struct handoff_live *live, uint32_t bits)
{
    return &live->shards[bits % HANDOFF_LIVE_SHARDS];
}

static size_t bucket_of(uint32_t bits)
{
    return bits / HANDOFF_LIVE_SHARDS % HANDOFF_LIVE_BUCKETS;
}

static struct handoff_live_entry *find_entry(const struct handoff_live_shard *shard, size_t bucket,
                                             const struct base_uuid *id)
{
    struct handoff_live_entry *entry;
    LIST_FOREACH (entry, &shard->buckets[bucket], link) {
        if (memcmp(entry->id->bytes, id->bytes, sizeof id->bytes) == 0)
            return entry;
    }
    return NULL;
}

bool handoff_live_add(struct handoff_live *live, struct handoff_live_entry *entry)
{
    uint32_t bits = hash(entry->id);
    struct handoff_live_shard *shard = shard_of(live, bits);
    pthread_mutex_lock(&shard->lock);
    bool there = find_entry(shard, bucket_of(bits), entry->id) != NULL;
    if (!there)
        LIST_INSERT_HEAD(&shard->buckets[bucket_of(bits)], entry, link);
    entry->is_listed = !there;
    pthread_mutex_unlock(&shard->lock);
    return !there;
}

void handoff_live_remove(struct handoff_live *live, struct handoff_live_entry *entry)
{
    struct handoff_live_shard *shard = shard_of(live, hash(entry->id));
    pthread_mutex_lock(&shard->lock);
    if (entry->is_listed)
        LIST_REMOVE(entry, link);
    entry->is_listed = false;
    pthread_mutex_unlock(&shard->lock);
}

static void copy_entry(struct handoff_live_entry *from, struct handoff_live_entry *to)
{
    to->since_ns = from->since_ns;
    to->view = from->view;
    atomic_store_explicit(&to->state, atomic_load_explicit(&from->state, memory_order_relaxed),
                          memory_order_relaxed);
    handoff_live_note_agent(to, atomic_load_explicit(&from->agent, memory_order_relaxed));
    atomic_store_explicit(&to->feed, atomic_load_explicit(&from->feed, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(&from->feed, NULL, memory_order_relaxed);
}

void handoff_live_replace(struct handoff_live *live, struct handoff_live_entry *from,
                          struct handoff_live_entry *to)
{
    struct handoff_live_shard *shard = shard_of(live, hash(from->id));
    pthread_mutex_lock(&shard->lock);
    BASE_CHECK(from->is_listed && !to->is_listed);
    copy_entry(from, to);
    LIST_INSERT_BEFORE(from, to, link);
    LIST_REMOVE(from, link);
    from->is_listed = false;
    to->is_listed = true;
    pthread_mutex_unlock(&shard->lock);
}

void handoff_live_fill(struct handoff_live *live, struct handoff_live_entry *entry, int state,
                       struct handoff_agent *agent, int64_t since_ns)
{
    struct handoff_live_shard *shard = shard_of(live, hash(entry->id));
    pthread_mutex_lock(&shard->lock);
    entry->since_ns = since_ns;
    handoff_live_note_agent(entry, agent);
    handoff_live_note(entry, state);
    pthread_mutex_unlock(&shard->lock);
}

struct handoff_lane *handoff_live_lane(struct handoff_live *live, const struct base_uuid *id)
{
    uint32_t bits = hash(id);
    struct handoff_live_shard *shard = shard_of(live, bits);
    pthread_mutex_lock(&shard->lock);
    const struct handoff_live_entry *entry = find_entry(shard, bucket_of(bits), id);
    struct handoff_lane *lane = entry ? entry->lane : NULL;
    pthread_mutex_unlock(&shard->lock);
    return lane;
}

int handoff_live_state(struct handoff_live *live, const struct base_uuid *id)
{
    uint32_t bits = hash(id);
    struct handoff_live_shard *shard = shard_of(live, bits);
    pthread_mutex_lock(&shard->lock);
    const struct handoff_live_entry *entry = find_entry(shard, bucket_of(bits), id);
    int state = entry ? atomic_load_explicit(&entry->state, memory_order_relaxed) : 0;
    pthread_mutex_unlock(&shard->lock);
    return state;
}

void handoff_live_publish(struct handoff_live *live, struct handoff_live_entry *entry,
                          const struct handoff_live_view *view)
{
    struct handoff_live_shard *shard = shard_of(live, hash(entry->id));
    pthread_mutex_lock(&shard->lock);
    entry->view = *view;
    pthread_mutex_unlock(&shard->lock);
}

bool handoff_live_read_view(struct handoff_live *live, const struct base_uuid *id,
                            struct handoff_live_view *view)
{
    uint32_t bits = hash(id);
    struct handoff_live_shard *shard = shard_of(live, bits);
    pthread_mutex_lock(&shard->lock);
    const struct handoff_live_entry *entry = find_entry(shard, bucket_of(bits), id);
    bool shown = entry && entry->view.state != 0;
    if (shown)
        *view = entry->view;
    pthread_mutex_unlock(&shard->lock);
    return shown;
}

void *handoff_live_find(struct handoff_live *live, const struct base_uuid *id,
                        const struct handoff_lane *lane)
{
    uint32_t bits = hash(id);
    struct handoff_live_shard *shard = shard_of(live, bits);
    pthread_mutex_lock(&shard->lock);
    const struct handoff_live_entry *entry = find_entry(shard, bucket_of(bits), id);
    void *owner = entry && entry->lane == lane ? entry->owner : NULL;
    pthread_mutex_unlock(&shard->lock);
    return owner;
}

static void each_in(const struct handoff_live_shard *shard,
                    void (*visit)(const struct handoff_live_entry *entry, void *arg), void *arg)
{
    const struct handoff_live_entry *entry;
    for (size_t i = 0; i < HANDOFF_LIVE_BUCKETS; i++) {
        LIST_FOREACH (entry, &shard->buckets[i], link) {
            visit(entry, arg);
        }
    }
}

void handoff_live_each(struct handoff_live *live,
                       void (*visit)(const struct handoff_live_entry *entry, void *arg), void *arg)
{
    for (size_t i = 0; i < HANDOFF_LIVE_SHARDS; i++) {
        pthread_mutex_lock(&live->shards[i].lock);
        each_in(&live->shards[i], visit, arg);
        pthread_mutex_unlock(&live->shards[i].lock);
    }
}
