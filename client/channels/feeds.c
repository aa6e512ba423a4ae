/* SPDX-License-Identifier: Apache-2.0 */
/* The table of feeds, see feeds.h. Any thread. */
#include "client/channels/feeds.h"

#include <string.h>

#include "lib/base/memory.h"

void handoff_feeds_init(struct handoff_feeds *feeds)
{
    pthread_mutex_init(&feeds->lock, NULL);
    for (size_t i = 0; i < HANDOFF_FEED_BUCKETS; i++)
        LIST_INIT(&feeds->buckets[i]);
}

void handoff_feeds_free(struct handoff_feeds *feeds)
{
    for (size_t i = 0; i < HANDOFF_FEED_BUCKETS; i++) {
        struct handoff_feed *feed;
        while ((feed = LIST_FIRST(&feeds->buckets[i])) != NULL) {
            LIST_REMOVE(feed, link);
            base_free(feed);
        }
    }
    pthread_mutex_destroy(&feeds->lock);
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* FNV-1a. The names are configured, so a client cannot make long buckets. */
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

static struct handoff_feed *look_for_feed(struct handoff_feeds *feeds, struct base_span channel,
                                          struct base_span receiver)
{
    pthread_mutex_lock(&feeds->lock);
    struct handoff_feed *feed = find_feed(feed_bucket(feeds, channel, receiver), channel, receiver);
    pthread_mutex_unlock(&feeds->lock);
    return feed;
}

struct handoff_feed *handoff_feeds_get(struct handoff_feeds *feeds, struct base_span channel,
                                       struct base_span receiver)
{
    struct handoff_feed *feed = look_for_feed(feeds, channel, receiver), *made;
    if (feed || !(made = make_feed(channel, receiver)))
        return feed;
    pthread_mutex_lock(&feeds->lock);
    struct handoff_feed_list *bucket = feed_bucket(feeds, channel, receiver);
    feed = find_feed(bucket, channel, receiver);
    if (!feed)
        LIST_INSERT_HEAD(bucket, made, link);
    pthread_mutex_unlock(&feeds->lock);
    if (!feed)
        return made;
    base_free(made); /* another thread was first */
    return feed;
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

static void unsubscribe_feed(struct handoff_feed *feed, void *unused)
{
    (void)unused;
    feed->subscribed = false;
}

void handoff_feeds_unsubscribe_all(struct handoff_feeds *feeds)
{
    handoff_feeds_each(feeds, unsubscribe_feed, NULL);
}

void handoff_feeds_subscribe(struct handoff_feeds *feeds, struct base_span channel,
                             struct base_span receiver, bool subscribed)
{
    struct handoff_feed *feed = subscribed ? handoff_feeds_get(feeds, channel, receiver)
                                           : look_for_feed(feeds, channel, receiver);
    pthread_mutex_lock(&feeds->lock);
    if (feed)
        feed->subscribed = subscribed;
    pthread_mutex_unlock(&feeds->lock);
}
