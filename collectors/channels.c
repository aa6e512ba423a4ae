/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: how much was published to each receiver, and how far behind it is.
 *
 * By the receiver that a publication was for, whoever has it now: an alternate that takes over
 * clears the receiver's backlog. Both labels are names of the configuration, or of subscriptions.
 * What is pending, and what retention removed unread, is read from the client when a scrape begins,
 * so it is right from the first scrape after a restart.
 *
 * Events on any thread; what is pending on the thread that scrapes.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"

static const enum collectors_row feed_rows[] = {
    COLLECTORS_CHANNEL_PUBLISHED, COLLECTORS_CHANNEL_PENDING, COLLECTORS_CHANNEL_REDELIVERED,
    COLLECTORS_CHANNEL_OLDEST_PENDING, COLLECTORS_CHANNEL_DROPPED};

static struct metric_series *feed_series(struct collectors *collectors, enum collectors_row row,
                                         const char *channel, const char *receiver)
{
    return metric_resolve(collectors->families[row], (const char *const[]){channel, receiver});
}

void collectors_channels_moved(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_who *who = &event->who;
    const struct handoff_moved *moved = &event->of.moved;
    if (who->channel == NULL)
        return;
    if (moved->from == HANDOFF_STATE_NONE && !moved->resumed)
        metric_add(
            feed_series(collectors, COLLECTORS_CHANNEL_PUBLISHED, who->channel, who->receiver), 1);
    if (moved->attempted && moved->attempts > 1)
        metric_add(
            feed_series(collectors, COLLECTORS_CHANNEL_REDELIVERED, who->channel, who->receiver),
            1);
}

/* All begin at 0, so that the first publication is an increase. */
static void show_feed(struct collectors *collectors, const struct handoff_feed_stats *feed)
{
    const char *names[] = {feed->channel, feed->receiver};
    feed_series(collectors, COLLECTORS_CHANNEL_PUBLISHED, feed->channel, feed->receiver);
    feed_series(collectors, COLLECTORS_CHANNEL_REDELIVERED, feed->channel, feed->receiver);
    prom_metric_sample_set(collectors_gauge(collectors, COLLECTORS_CHANNEL_PENDING, names),
                           (double)feed->pending);
    prom_metric_sample_set(collectors_gauge(collectors, COLLECTORS_CHANNEL_OLDEST_PENDING, names),
                           (double)feed->oldest_pending_ns / 1e9);
    prom_counter_set(collectors->metrics[COLLECTORS_CHANNEL_DROPPED], (double)feed->dropped, names);
}

static void collect_feed(void *context, const struct handoff_feed_stats *feed)
{
    struct collectors *collectors = context;
    const char *const names[] = {feed->channel, feed->receiver};
    if (feed->subscribed || feed->pending > 0) {
        show_feed(collectors, feed);
        return;
    }
    for (size_t i = 0; i < sizeof feed_rows / sizeof *feed_rows; i++)
        metric_retire_exact(collectors->families[feed_rows[i]], names);
}

void collectors_channels_read(void *arg)
{
    struct collectors *collectors = arg;
    if (collectors->client != NULL)
        handoff_client_visit_feeds(collectors->client, collect_feed, collectors);
}
