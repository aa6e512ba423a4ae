/* SPDX-License-Identifier: Apache-2.0 */
/* The table of feeds, see feeds.h. Any thread. */
#include "client/channels/feeds.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/memory.h"

void handoff_feeds_init(struct handoff_feeds *feeds)
{
    pthread_mutex_init(&feeds->lock, NULL);
    for (size_t i = 0; i < HANDOFF_FEED_BUCKETS; i++)
        LIST_INIT(&feeds->buckets[i]);
    TAILQ_INIT(&feeds->idle);
    feeds->nidle = 0;
}

static void free_feed(struct handoff_feed *feed)
{
    pthread_mutex_destroy(&feed->lock);
    base_free(feed);
}

void handoff_feeds_free(struct handoff_feeds *feeds)
{
    for (size_t i = 0; i < HANDOFF_FEED_BUCKETS; i++) {
        struct handoff_feed *feed;
        while ((feed = LIST_FIRST(&feeds->buckets[i])) != NULL) {
            LIST_REMOVE(feed, link);
            free_feed(feed);
        }
    }
    pthread_mutex_destroy(&feeds->lock);
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* FNV-1a. How many there are is limited, so a client cannot make long buckets. */
static uint32_t mix_feed_name(uint32_t bits, struct base_span name)
{
    for (size_t i = 0; i < name.size; i++)
        bits = (bits ^ (unsigned char)name.data[i]) * 16777619u;
    return bits;
}

static struct handoff_feed_list *feed_bucket(struct handoff_feeds *feeds, struct base_span channel,
                                             struct base_span receiver)
{
    const uint32_t bits = mix_feed_name(mix_feed_name(2166136261u, channel) * 31, receiver);
    return &feeds->buckets[(bits ^ bits >> 16) % HANDOFF_FEED_BUCKETS];
}

/* NULL: out of memory. */
static struct handoff_feed *make_feed(struct base_span channel, struct base_span receiver)
{
    struct handoff_feed *feed = base_calloc(1, sizeof *feed + channel.size + receiver.size + 2);
    if (!feed)
        return NULL;
    char *names = (char *)(feed + 1);
    memcpy(names, channel.data, channel.size);
    memcpy(names + channel.size + 1, receiver.data, receiver.size);
    feed->channel = names;
    feed->receiver = names + channel.size + 1;
    feed->oldest_ns = INT64_MAX;
    pthread_mutex_init(&feed->lock, NULL);
    TAILQ_INIT(&feed->waiting);
    return feed;
}

/* Under the lock. */
static struct handoff_feed *find_feed(const struct handoff_feed_list *bucket,
                                      struct base_span channel, struct base_span receiver)
{
    struct handoff_feed *feed;
    LIST_FOREACH (feed, bucket, link) {
        if (base_span_equal(base_span_text(feed->channel), channel) &&
            base_span_equal(base_span_text(feed->receiver), receiver))
            return feed;
    }
    return NULL;
}

/* ---- idle ones --------------------------------------------------------------------------------
 */

/* Under the lock, after its users or its subscription have changed. */
static void note_whether_idle(struct handoff_feeds *feeds, struct handoff_feed *feed,
                              bool was_needed)
{
    const bool is_needed = feed->subscribed || feed->users > 0;
    if (was_needed == is_needed)
        return;
    if (is_needed)
        TAILQ_REMOVE(&feeds->idle, feed, idle);
    else
        TAILQ_INSERT_TAIL(&feeds->idle, feed, idle);
    feeds->nidle += is_needed ? (size_t)-1 : 1;
}

static void use_feed(struct handoff_feeds *feeds, struct handoff_feed *feed)
{
    const bool was_needed = feed->subscribed || feed->users > 0;
    feed->users++;
    note_whether_idle(feeds, feed, was_needed);
}

/* Under the lock. NULL: there are not too many. */
static struct handoff_feed *take_surplus_feed(struct handoff_feeds *feeds)
{
    struct handoff_feed *feed = TAILQ_FIRST(&feeds->idle);
    if (feeds->nidle <= HANDOFF_FEEDS_IDLE_MAX)
        return NULL;
    TAILQ_REMOVE(&feeds->idle, feed, idle);
    LIST_REMOVE(feed, link);
    feeds->nidle--;
    return feed;
}

static void free_surplus_feeds(struct handoff_feeds *feeds)
{
    struct handoff_feed *surplus;
    do {
        pthread_mutex_lock(&feeds->lock);
        surplus = take_surplus_feed(feeds);
        pthread_mutex_unlock(&feeds->lock);
        if (surplus)
            free_feed(surplus);
    } while (surplus);
}

/* ---- keeping one ------------------------------------------------------------------------------
 */

static struct handoff_feed *look_for_feed(struct handoff_feeds *feeds, struct base_span channel,
                                          struct base_span receiver)
{
    pthread_mutex_lock(&feeds->lock);
    struct handoff_feed *feed = find_feed(feed_bucket(feeds, channel, receiver), channel, receiver);
    if (feed)
        use_feed(feeds, feed);
    pthread_mutex_unlock(&feeds->lock);
    return feed;
}

struct handoff_feed *handoff_feeds_get(struct handoff_feeds *feeds, struct base_span channel,
                                       struct base_span receiver)
{
    struct handoff_feed *feed = look_for_feed(feeds, channel, receiver), *made;
    if (feed || !(made = make_feed(channel, receiver)))
        return feed;
    made->users = 1;
    pthread_mutex_lock(&feeds->lock);
    struct handoff_feed_list *bucket = feed_bucket(feeds, channel, receiver);
    feed = find_feed(bucket, channel, receiver);
    if (feed)
        use_feed(feeds, feed);
    else
        LIST_INSERT_HEAD(bucket, made, link);
    pthread_mutex_unlock(&feeds->lock);
    if (!feed)
        return made;
    free_feed(made); /* another thread was first */
    return feed;
}

void handoff_feeds_put(struct handoff_feeds *feeds, struct handoff_feed *feed)
{
    struct handoff_feed *surplus;
    pthread_mutex_lock(&feeds->lock);
    BASE_CHECK(feed->users > 0);
    feed->users--;
    note_whether_idle(feeds, feed, true);
    surplus = take_surplus_feed(feeds);
    pthread_mutex_unlock(&feeds->lock);
    if (surplus)
        free_feed(surplus);
}

/* ---- holding --------------------------------------------------------------------------------
 */

void handoff_feed_hold(struct handoff_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->holds++;
    atomic_fetch_add(&feed->busy, 1);
    pthread_mutex_unlock(&feed->lock);
}

void handoff_feed_release(struct handoff_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->holds--;
    atomic_fetch_sub(&feed->busy, 1);
    pthread_mutex_unlock(&feed->lock);
}

/* Most come in their order. */
static void wait_in_feed(struct handoff_feed *feed, struct handoff_held *held)
{
    struct handoff_held *before = TAILQ_LAST(&feed->waiting, handoff_held_list);
    while (before && before->seq > held->seq)
        before = TAILQ_PREV(before, handoff_held_list, entry);
    if (before)
        TAILQ_INSERT_AFTER(&feed->waiting, before, held, entry);
    else
        TAILQ_INSERT_HEAD(&feed->waiting, held, entry);
    held->queued = true;
    atomic_fetch_add(&feed->busy, 1);
}

static void stop_waiting(struct handoff_feed *feed, struct handoff_held *held)
{
    if (!held->queued)
        return;
    TAILQ_REMOVE(&feed->waiting, held, entry);
    held->queued = false;
    atomic_fetch_sub(&feed->busy, 1);
}

bool handoff_feed_pass(struct handoff_feed *feed, struct handoff_held *held)
{
    if (atomic_load(&feed->busy) == 0)
        return true;
    pthread_mutex_lock(&feed->lock);
    if (!held->queued)
        wait_in_feed(feed, held);
    const bool passes = feed->holds == 0 && TAILQ_FIRST(&feed->waiting) == held;
    if (passes)
        stop_waiting(feed, held);
    pthread_mutex_unlock(&feed->lock);
    return passes;
}

void handoff_feed_replace(struct handoff_feed *feed, struct handoff_held *from,
                          struct handoff_held *to)
{
    pthread_mutex_lock(&feed->lock);
    BASE_CHECK(from->queued);
    *to = *from;
    TAILQ_INSERT_BEFORE(from, to, entry);
    TAILQ_REMOVE(&feed->waiting, from, entry);
    from->queued = false;
    pthread_mutex_unlock(&feed->lock);
}

void handoff_feed_leave(struct handoff_feed *feed, struct handoff_held *held)
{
    pthread_mutex_lock(&feed->lock);
    stop_waiting(feed, held);
    pthread_mutex_unlock(&feed->lock);
}

bool handoff_feed_next(struct handoff_feed *feed, struct base_uuid *id, struct handoff_lane **lane)
{
    if (atomic_load(&feed->busy) == 0)
        return false;
    pthread_mutex_lock(&feed->lock);
    const struct handoff_held *first = feed->holds == 0 ? TAILQ_FIRST(&feed->waiting) : NULL;
    if (first) {
        *id = first->id;
        *lane = first->lane;
    }
    pthread_mutex_unlock(&feed->lock);
    return first != NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

void handoff_feeds_each(struct handoff_feeds *feeds,
                        void (*visit)(struct handoff_feed *feed, void *arg), void *arg)
{
    struct handoff_feed *feed;
    pthread_mutex_lock(&feeds->lock);
    for (size_t i = 0; i < HANDOFF_FEED_BUCKETS; i++) {
        LIST_FOREACH (feed, &feeds->buckets[i], link) {
            visit(feed, arg);
        }
    }
    pthread_mutex_unlock(&feeds->lock);
}

static void mark_feed(struct handoff_feeds *feeds, struct handoff_feed *feed, bool subscribed)
{
    const bool was_needed = feed->subscribed || feed->users > 0;
    feed->subscribed = subscribed;
    note_whether_idle(feeds, feed, was_needed);
}

static void unsubscribe_feed(struct handoff_feed *feed, void *feeds)
{
    mark_feed(feeds, feed, false);
}

void handoff_feeds_unsubscribe_all(struct handoff_feeds *feeds)
{
    handoff_feeds_each(feeds, unsubscribe_feed, feeds);
    free_surplus_feeds(feeds);
}

void handoff_feeds_subscribe(struct handoff_feeds *feeds, struct base_span channel,
                             struct base_span receiver, bool subscribed)
{
    struct handoff_feed *feed = subscribed ? handoff_feeds_get(feeds, channel, receiver)
                                           : look_for_feed(feeds, channel, receiver);
    if (!feed)
        return;
    pthread_mutex_lock(&feeds->lock);
    mark_feed(feeds, feed, subscribed);
    pthread_mutex_unlock(&feeds->lock);
    handoff_feeds_put(feeds, feed);
}
