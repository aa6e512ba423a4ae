/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How it stands with every agent: what a host shows in its gauges. Any thread; reads memory only,
 * so a scrape waits for no disk.
 *
 * A restart cannot make it lie: the breakers were restored, the live handoffs were resumed, and
 * what is parked was noted when the store was opened (parked.h).
 */
#include "client/client.h"
#include "lib/base/check.h"

struct visiting {
    void (*visit)(void *context, const struct handoff_agent_stats *agent);
    void (*visit_feed)(void *context, const struct handoff_feed_stats *feed);
    void *context;
    struct handoff_channels *channels; /* whose lock is taken inside that of the feeds */
    int64_t now_ns, wall_ms;
};

static void forget_live(struct handoff_agent *agent, void *unused)
{
    (void)unused;
    agent->oldest_live_ns = INT64_MAX;
}

static void note_live(const struct handoff_live_entry *entry, void *unused)
{
    (void)unused;
    int state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    struct handoff_agent *agent = atomic_load_explicit(&entry->agent, memory_order_relaxed);
    if (handoff_state_is_live((enum handoff_state)state) && entry->since_ns < agent->oldest_live_ns)
        agent->oldest_live_ns = entry->since_ns;
}

static int64_t at_least_1(int64_t ns)
{
    return ns > 0 ? ns : 1;
}

static void tell_settings(const struct handoff_settings *settings,
                          struct handoff_agent_stats *stats)
{
    if (!settings)
        return;
    stats->pulls = settings->protocol->pulls;
    stats->timeout_ms =
        stats->pulls ? settings->options.ack_timeout_ms : settings->options.timeout_ms;
}

static void tell(struct handoff_agent *agent, void *arg)
{
    const struct visiting *visiting = arg;
    struct handoff_agent_stats stats = {.name = agent->name};
    pthread_mutex_lock(&agent->lock);
    stats.configured = agent->settings != NULL;
    stats.circuit = handoff_breaker_shown(&agent->breaker, visiting->now_ns / 1000000);
    stats.consecutive_failures = agent->breaker.consecutive_failures;
    if (agent->observed_failures > stats.consecutive_failures) /* rows of their own */
        stats.consecutive_failures = agent->observed_failures;
    stats.consecutive_refusals = agent->refusals;
    stats.in_flight = agent->in_flight;
    stats.parked = agent->parked.count;
    tell_settings(agent->settings, &stats);
    int64_t parked_ms = handoff_parked_oldest_ms(&agent->parked);
    pthread_mutex_unlock(&agent->lock);
    if (stats.pulls)
        handoff_inbox_stats(&agent->inbox, &stats.waiting, &stats.polled_ms);
    if (agent->oldest_live_ns != INT64_MAX)
        stats.oldest_in_flight_ns = at_least_1(visiting->now_ns - agent->oldest_live_ns);
    if (parked_ms > 0)
        stats.oldest_parked_ns = at_least_1((visiting->wall_ms - parked_ms) * 1000000);
    visiting->visit(visiting->context, &stats);
}

void handoff_client_visit_agents(struct handoff_client *client,
                                 void (*visit)(void *context,
                                               const struct handoff_agent_stats *agent),
                                 void *context)
{
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    struct visiting visiting = {.visit = visit,
                                .context = context,
                                .now_ns = base_monotonic_ns(&base_clock_system),
                                .wall_ms = base_wall_ms(&base_clock_system)};
    pthread_mutex_lock(&client->visit_lock);
    handoff_agents_each(client->agents, forget_live, NULL);
    handoff_live_each(handoff_engine_live(client->engine), note_live, NULL);
    handoff_agents_each(client->agents, tell, &visiting);
    pthread_mutex_unlock(&client->visit_lock);
}

/* ---- channels -------------------------------------------------------------------------------- */

static void forget_pending(struct handoff_feed *feed, void *known)
{
    *(bool *)known = true;
    feed->pending = 0;
    feed->oldest_ns = INT64_MAX;
}

static void note_pending(const struct handoff_live_entry *entry, void *unused)
{
    (void)unused;
    int state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    struct handoff_feed *feed = atomic_load_explicit(&entry->feed, memory_order_acquire);
    if (!feed || !handoff_state_is_live((enum handoff_state)state))
        return;
    feed->pending++;
    if (entry->since_ns < feed->oldest_ns)
        feed->oldest_ns = entry->since_ns;
}

static void tell_feed(struct handoff_feed *feed, void *arg)
{
    const struct visiting *visiting = arg;
    const struct handoff_feed_stats stats = {
        .channel = feed->channel,
        .receiver = feed->receiver,
        .subscribed = feed->subscribed,
        .pending = feed->pending,
        .dropped = (uint64_t)handoff_channels_dropped(
            visiting->channels, base_span_text(feed->channel), base_span_text(feed->receiver)),
        .oldest_pending_ns = feed->pending ? at_least_1(visiting->now_ns - feed->oldest_ns) : 0};
    visiting->visit_feed(visiting->context, &stats);
}

void handoff_client_visit_feeds(struct handoff_client *client,
                                void (*visit)(void *context, const struct handoff_feed_stats *feed),
                                void *context)
{
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    bool known = false;
    struct visiting visiting = {.visit_feed = visit,
                                .context = context,
                                .channels = &client->channels,
                                .now_ns = base_monotonic_ns(&base_clock_system)};
    pthread_mutex_lock(&client->visit_lock);
    handoff_feeds_each(&client->channels.feeds, forget_pending, &known);
    if (known)
        handoff_live_each(handoff_engine_live(client->engine), note_pending, NULL);
    handoff_feeds_each(&client->channels.feeds, tell_feed, &visiting);
    pthread_mutex_unlock(&client->visit_lock);
}
