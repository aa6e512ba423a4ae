/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The current state of every agent: circuit, failures in a row, what is in flight and what
 * is parked. Not counted along with the events but read from the client when a scrape begins, so
 * that it is right from the first scrape after a restart, and cannot drift.
 *
 * Agents that were removed may still have handoffs; those add up under "other", which has no
 * circuit because it is not an agent.
 *
 * On the thread that scrapes.
 */
#include <string.h>

#include "collectors/measures.h"
#include "collectors/rows.h"

void collectors_standing_resolve(struct collectors *collectors, struct collectors_target *target)
{
    const char *const name[] = {target->name};
    target->in_flight = collectors_gauge(collectors, COLLECTORS_IN_FLIGHT, name);
    target->oldest_in_flight = collectors_gauge(collectors, COLLECTORS_OLDEST_IN_FLIGHT, name);
    target->parked_entries = collectors_gauge(collectors, COLLECTORS_PARKED_ENTRIES, name);
    target->oldest_parked = collectors_gauge(collectors, COLLECTORS_OLDEST_PARKED, name);
    if (strcmp(target->name, handoff_reserved_name(HANDOFF_RESERVED_OTHER)) == 0)
        return;
    target->consecutive_failures =
        collectors_gauge(collectors, COLLECTORS_CONSECUTIVE_FAILURES, name);
    target->consecutive_refusals =
        collectors_gauge(collectors, COLLECTORS_CONSECUTIVE_REFUSALS, name);
    target->timeout = collectors_gauge(collectors, COLLECTORS_AGENT_TIMEOUT, name);
    for (int i = 0; i < HANDOFF_CIRCUIT_COUNT; i++) {
        const char *circuit = handoff_circuit_name((enum handoff_circuit)i);
        target->circuit[i] = collectors_gauge(collectors, COLLECTORS_CIRCUIT_STATE,
                                              (const char *const[]){target->name, circuit});
    }
}

struct standing {
    struct collectors *collectors;
    struct handoff_agent_stats others; /* all that are not targets themselves */
};

static void show_agent_stats(const struct collectors_target *target,
                             const struct handoff_agent_stats *agent)
{
    prom_metric_sample_set(target->in_flight, agent->in_flight);
    prom_metric_sample_set(target->oldest_in_flight, (double)agent->oldest_in_flight_ns / 1e9);
    prom_metric_sample_set(target->parked_entries, (double)agent->parked);
    prom_metric_sample_set(target->oldest_parked, (double)agent->oldest_parked_ns / 1e9);
}

static void show_circuit(const struct collectors_target *target,
                         const struct handoff_agent_stats *agent)
{
    prom_metric_sample_set(target->consecutive_failures, agent->consecutive_failures);
    prom_metric_sample_set(target->consecutive_refusals, agent->consecutive_refusals);
    prom_metric_sample_set(target->timeout, (double)agent->timeout_ms / 1e3);
    for (int i = 0; i < HANDOFF_CIRCUIT_COUNT; i++)
        prom_metric_sample_set(target->circuit[i],
                               (enum handoff_circuit)i == agent->circuit ? 1 : 0);
}

/* Only agents that pull have these, and a reload may change whether an agent does. Under the lock:
 * a target that was removed meanwhile must not begin a series that nothing would end. */
static void begin_inbox(struct collectors *collectors, struct collectors_target *target)
{
    const char *const name[] = {target->name};
    pthread_mutex_lock(&collectors->targets.lock);
    if (target->configured) {
        target->inbox_waiting = collectors_gauge(collectors, COLLECTORS_INBOX_WAITING, name);
        target->inbox_polled = collectors_gauge(collectors, COLLECTORS_INBOX_LAST_POLL, name);
    }
    pthread_mutex_unlock(&collectors->targets.lock);
}

static void show_inbox(struct collectors *collectors, struct collectors_target *target,
                       const struct handoff_agent_stats *agent)
{
    if (agent->pulls && target->inbox_waiting == NULL)
        begin_inbox(collectors, target);
    if (target->inbox_waiting == NULL)
        return;
    prom_metric_sample_set(target->inbox_waiting, (double)agent->waiting);
    prom_metric_sample_set(target->inbox_polled, (double)agent->polled_ms / 1e3);
}

static int64_t greater_age(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_agent_stats(struct handoff_agent_stats *sum,
                            const struct handoff_agent_stats *agent)
{
    sum->in_flight += agent->in_flight;
    sum->parked += agent->parked;
    sum->oldest_in_flight_ns = greater_age(sum->oldest_in_flight_ns, agent->oldest_in_flight_ns);
    sum->oldest_parked_ns = greater_age(sum->oldest_parked_ns, agent->oldest_parked_ns);
}

static void collect_agent_stats(void *context, const struct handoff_agent_stats *agent)
{
    struct standing *standing = context;
    struct collectors_targets *targets = &standing->collectors->targets;
    struct collectors_target *target = collectors_target(targets, agent->name);
    if (target == targets->other) {
        add_agent_stats(&standing->others, agent);
        return;
    }
    show_agent_stats(target, agent);
    show_circuit(target, agent);
    show_inbox(standing->collectors, target, agent);
}

void collectors_standing_read(struct collectors *collectors)
{
    struct standing standing = {.collectors = collectors};
    handoff_client_visit_agents(collectors->client, collect_agent_stats, &standing);
    show_agent_stats(collectors->targets.other, &standing.others);
}
