/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subscriptions, see subscribed.h. Any thread, under the lock of its user. */
#include "client/channels/subscribed.h"

#include <string.h>

#include "lib/base/memory.h"

void handoff_subscribed_init(struct handoff_subscribed *table)
{
    TAILQ_INIT(&table->channels);
    for (size_t i = 0; i < HANDOFF_SUBSCRIBED_BUCKETS; i++) {
        LIST_INIT(&table->by_name[i]);
        LIST_INIT(&table->by_pair[i]);
    }
    table->count = 0;
}

void handoff_subscribed_free(struct handoff_subscribed *table)
{
    struct handoff_subscribed_channel *channel;
    while ((channel = TAILQ_FIRST(&table->channels))) {
        struct handoff_new_subscription removed;
        handoff_subscribed_remove(table, TAILQ_FIRST(&channel->subscriptions), &removed);
        handoff_new_subscription_free(&removed);
    }
}

/* ---- finding ----------------------------------------------------------------------------------
 */

/* FNV-1a. How many names a client can choose is limited, so buckets stay short. */
static uint32_t mix_subscribed_name(uint32_t bits, struct base_span name)
{
    for (size_t i = 0; i < name.size; i++)
        bits = (bits ^ (unsigned char)name.data[i]) * 16777619u;
    return bits * 31;
}

static size_t name_bucket(struct base_span channel)
{
    const uint32_t bits = mix_subscribed_name(2166136261u, channel);
    return (bits ^ bits >> 16) % HANDOFF_SUBSCRIBED_BUCKETS;
}

static size_t pair_bucket(struct base_span channel, struct base_span receiver)
{
    const uint32_t bits = mix_subscribed_name(mix_subscribed_name(2166136261u, channel), receiver);
    return (bits ^ bits >> 16) % HANDOFF_SUBSCRIBED_BUCKETS;
}

struct handoff_subscription *handoff_subscribed_find(const struct handoff_subscribed *table,
                                                     struct base_span channel,
                                                     struct base_span receiver)
{
    struct handoff_subscription *found;
    LIST_FOREACH (found, &table->by_pair[pair_bucket(channel, receiver)], link) {
        if (base_span_equal(base_span_text(found->receiver), receiver) &&
            base_span_equal(base_span_text(found->channel->name), channel))
            return found;
    }
    return NULL;
}

struct handoff_subscribed_channel *
handoff_subscribed_find_channel(const struct handoff_subscribed *table, struct base_span name)
{
    struct handoff_subscribed_channel *found;
    LIST_FOREACH (found, &table->by_name[name_bucket(name)], link) {
        if (base_span_equal(base_span_text(found->name), name))
            return found;
    }
    return NULL;
}

size_t handoff_subscribed_count(const struct handoff_subscribed *table, struct base_span receiver)
{
    const struct handoff_subscribed_channel *channel;
    const struct handoff_subscription *subscription;
    size_t count = 0;
    TAILQ_FOREACH (channel, &table->channels, entry) {
        TAILQ_FOREACH (subscription, &channel->subscriptions, entry) {
            count += base_span_equal(base_span_text(subscription->receiver), receiver);
        }
    }
    return count;
}

/* ---- entries ----------------------------------------------------------------------------------
 */

bool handoff_subscribed_make(struct handoff_new_subscription *made, struct base_span channel,
                             struct base_span receiver)
{
    made->subscription = base_calloc(1, sizeof *made->subscription + receiver.size + 1);
    made->channel = base_calloc(1, sizeof *made->channel + channel.size + 1);
    if (!made->subscription || !made->channel) {
        handoff_new_subscription_free(made);
        return false;
    }
    memcpy(made->subscription->name, receiver.data, receiver.size);
    memcpy(made->channel->text, channel.data, channel.size);
    made->subscription->receiver = made->subscription->name;
    made->channel->name = made->channel->text;
    TAILQ_INIT(&made->channel->subscriptions);
    return true;
}

static struct handoff_subscribed_channel *
take_subscribed_channel(struct handoff_subscribed *table, struct handoff_new_subscription *made)
{
    const struct base_span name = base_span_text(made->channel->name);
    struct handoff_subscribed_channel *channel = handoff_subscribed_find_channel(table, name);
    if (channel)
        return channel;
    channel = made->channel;
    made->channel = NULL;
    TAILQ_INSERT_TAIL(&table->channels, channel, entry);
    LIST_INSERT_HEAD(&table->by_name[name_bucket(name)], channel, link);
    return channel;
}

struct handoff_subscription *handoff_subscribed_add(struct handoff_subscribed *table,
                                                    struct handoff_new_subscription *made)
{
    struct handoff_subscription *added = made->subscription;
    made->subscription = NULL;
    added->channel = take_subscribed_channel(table, made);
    const size_t bucket =
        pair_bucket(base_span_text(added->channel->name), base_span_text(added->receiver));
    TAILQ_INSERT_TAIL(&added->channel->subscriptions, added, entry);
    LIST_INSERT_HEAD(&table->by_pair[bucket], added, link);
    table->count++;
    return added;
}

void handoff_subscribed_remove(struct handoff_subscribed *table,
                               struct handoff_subscription *subscription,
                               struct handoff_new_subscription *removed)
{
    struct handoff_subscribed_channel *channel = subscription->channel;
    *removed = (struct handoff_new_subscription){.subscription = subscription};
    TAILQ_REMOVE(&channel->subscriptions, subscription, entry);
    LIST_REMOVE(subscription, link);
    table->count--;
    if (!TAILQ_EMPTY(&channel->subscriptions))
        return;
    TAILQ_REMOVE(&table->channels, channel, entry);
    LIST_REMOVE(channel, link);
    removed->channel = channel;
}

void handoff_new_subscription_free(struct handoff_new_subscription *made)
{
    base_free(made->subscription);
    base_free(made->channel);
    *made = (struct handoff_new_subscription){0};
}
