/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How it stands with every agent: what a host shows in its gauges.
 *
 * Nothing here is counted along with the events, so a restart cannot make it lie: the breakers were
 * restored, the live handoffs were resumed, and what is parked is in the store. Only that costs a
 * query, so it is remembered for a second: a host that asks in a loop does not keep the disk busy.
 */
#include "client/client.h"
#include "lib/base/check.h"

enum { PARKED_FRESH_NS = 1000000000 };

struct visiting {
    struct handoff_client *client;
    void (*visit)(void *context, const struct handoff_agent_stats *agent);
    void *context;
    int64_t now_ns, wall_ms;
};

static void forget_live(struct handoff_agent *agent, void *unused)
{
    (void)unused;
    agent->look.oldest_live_ns = INT64_MAX;
}

static void note_live(const struct handoff_live_entry *entry, void *unused)
{
    (void)unused;
    int state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    struct handoff_agent *agent = atomic_load_explicit(&entry->agent, memory_order_relaxed);
    if (handoff_state_is_live((enum handoff_state)state) &&
        entry->since_ns < agent->look.oldest_live_ns)
        agent->look.oldest_live_ns = entry->since_ns;
}

static void forget_parked(struct handoff_agent *agent, void *unused)
{
    (void)unused;
    agent->look.parked = 0;
    agent->look.oldest_parked_ms = 0;
}

/* Where the store cannot be read, what was known stays. */
static void read_parked(struct visiting *visiting)
{
    struct handoff_client *client = visiting->client;
    struct handoff_stored_parked *list;
    struct base_arena arena;
    size_t count;
    if (client->parked_read_ns && visiting->now_ns - client->parked_read_ns < PARKED_FRESH_NS)
        return;
    client->parked_read_ns = visiting->now_ns;
    base_arena_init(&arena, 0);
    if (handoff_store_parked(client->store, &arena, &list, &count, NULL) == HANDOFF_OK) {
        handoff_agents_each(client->agents, forget_parked, NULL);
        for (size_t i = 0; i < count; i++) {
            struct handoff_agent *agent = handoff_agents_remember(client->agents, list[i].target);
            if (!agent)
                continue; /* no memory */
            agent->look.parked = list[i].count;
            agent->look.oldest_parked_ms = list[i].oldest_ms;
        }
    }
    base_arena_free(&arena);
}

static int64_t at_least_1(int64_t ns)
{
    return ns > 0 ? ns : 1;
}

static void tell(struct handoff_agent *agent, void *arg)
{
    const struct visiting *visiting = arg;
    const struct handoff_agent_look *look = &agent->look;
    struct handoff_agent_stats stats = {.name = agent->name, .parked = look->parked};
    pthread_mutex_lock(&agent->lock);
    stats.configured = agent->settings != NULL;
    stats.circuit = handoff_breaker_shown(&agent->breaker, visiting->now_ns / 1000000);
    stats.consecutive_failures = agent->breaker.consecutive_failures;
    if (agent->observed_failures > stats.consecutive_failures) /* rows of their own */
        stats.consecutive_failures = agent->observed_failures;
    stats.in_flight = agent->in_flight;
    pthread_mutex_unlock(&agent->lock);
    if (look->oldest_live_ns != 0 && look->oldest_live_ns != INT64_MAX)
        stats.oldest_in_flight_ns = at_least_1(visiting->now_ns - look->oldest_live_ns);
    if (look->parked > 0)
        stats.oldest_parked_ns = at_least_1((visiting->wall_ms - look->oldest_parked_ms) * 1000000);
    visiting->visit(visiting->context, &stats);
}

void handoff_client_visit_agents(struct handoff_client *client,
                                 void (*visit)(void *context,
                                               const struct handoff_agent_stats *agent),
                                 void *context)
{
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    struct visiting visiting = {.client = client,
                                .visit = visit,
                                .context = context,
                                .now_ns = base_monotonic_ns(&base_clock_system),
                                .wall_ms = base_wall_ms(&base_clock_system)};
    pthread_mutex_lock(&client->visit_lock);
    read_parked(&visiting);
    handoff_agents_each(client->agents, forget_live, NULL);
    handoff_live_each(handoff_engine_live(client->engine), note_live, NULL);
    handoff_agents_each(client->agents, tell, &visiting);
    pthread_mutex_unlock(&client->visit_lock);
}
