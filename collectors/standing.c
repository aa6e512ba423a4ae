/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The current state of every agent: circuit, failures in a row, what is in flight and what
 * is parked. Not counted along with the events but read from the client when a scrape begins, so
 * that it is right from the first scrape after a restart, and cannot drift.
 *
 * Agents that were removed may still have handoffs; those add up under "other", which has no
 * circuit because it is not an agent. Agents beyond the series limit share the gauges of "other":
 * what they have adds up there too, and the worst of their circuits is shown.
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
    /* those beyond the series limit, and the gauges that they share; each NULL: there are none */
    struct handoff_agent_stats folded;
    const struct collectors_target *with_folded_numbers, *with_folded_inbox;
    prom_metric_sample_t *folded_circuit[HANDOFF_CIRCUIT_COUNT];
};

static void show_agent_stats(const struct collectors_target *target,
                             const struct handoff_agent_stats *agent)
{
    prom_metric_sample_set(target->in_flight, agent->in_flight);
    prom_metric_sample_set(target->oldest_in_flight, (double)agent->oldest_in_flight_ns / 1e9);
    prom_metric_sample_set(target->parked_entries, (double)agent->parked);
    prom_metric_sample_set(target->oldest_parked, (double)agent->oldest_parked_ns / 1e9);
}

static void show_numbers(const struct collectors_target *target,
                         const struct handoff_agent_stats *agent)
{
    prom_metric_sample_set(target->consecutive_failures, agent->consecutive_failures);
    prom_metric_sample_set(target->consecutive_refusals, agent->consecutive_refusals);
    prom_metric_sample_set(target->timeout, (double)agent->timeout_ms / 1e3);
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

static void show_inbox(const struct collectors_target *target,
                       const struct handoff_agent_stats *agent)
{
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

/* ---- beyond the series limit ------------------------------------------------------------------
 */

static unsigned greater(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static int circuit_severity(enum handoff_circuit circuit)
{
    static const int severities[HANDOFF_CIRCUIT_COUNT] = {
        [HANDOFF_CIRCUIT_HALF_OPEN] = 1, [HANDOFF_CIRCUIT_OPEN] = 2};
    return severities[circuit];
}

static void fold_numbers(struct standing *standing, const struct collectors_target *target,
                         const struct handoff_agent_stats *agent)
{
    struct handoff_agent_stats *most = &standing->folded;
    standing->with_folded_numbers = target;
    most->consecutive_failures = greater(most->consecutive_failures, agent->consecutive_failures);
    most->consecutive_refusals = greater(most->consecutive_refusals, agent->consecutive_refusals);
    most->timeout_ms = greater_age(most->timeout_ms, agent->timeout_ms);
}

static void fold_circuit(struct standing *standing, const struct collectors_target *target,
                         const struct handoff_agent_stats *agent, int state)
{
    standing->folded_circuit[state] = target->circuit[state];
    if (circuit_severity(agent->circuit) > circuit_severity(standing->folded.circuit))
        standing->folded.circuit = agent->circuit;
}

/* The poll that is longest ago, of those that have work. */
static void fold_inbox(struct standing *standing, const struct collectors_target *target,
                       const struct handoff_agent_stats *agent)
{
    struct handoff_agent_stats *all = &standing->folded;
    const bool first = standing->with_folded_inbox == NULL;
    standing->with_folded_inbox = target;
    if (first || (agent->waiting > 0 && (all->waiting == 0 || agent->polled_ms < all->polled_ms)))
        all->polled_ms = agent->polled_ms;
    all->waiting += agent->waiting;
}

static bool owns_gauge(const struct collectors_target *target, prom_metric_sample_t *gauge)
{
    return collectors_owns(target, prom_metric_sample_series(gauge));
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static void collect_numbers(struct standing *standing, const struct collectors_target *target,
                            const struct handoff_agent_stats *agent)
{
    if (owns_gauge(target, target->consecutive_failures))
        show_numbers(target, agent);
    else
        fold_numbers(standing, target, agent);
}

/* The limit may come between the series of one agent. */
static void collect_circuit(struct standing *standing, const struct collectors_target *target,
                            const struct handoff_agent_stats *agent)
{
    for (int i = 0; i < HANDOFF_CIRCUIT_COUNT; i++) {
        if (owns_gauge(target, target->circuit[i]))
            prom_metric_sample_set(target->circuit[i], (enum handoff_circuit)i == agent->circuit);
        else
            fold_circuit(standing, target, agent, i);
    }
}

static void collect_inbox(struct standing *standing, struct collectors_target *target,
                          const struct handoff_agent_stats *agent)
{
    if (agent->pulls && target->inbox_waiting == NULL)
        begin_inbox(standing->collectors, target);
    if (target->inbox_waiting == NULL)
        return;
    if (owns_gauge(target, target->inbox_waiting))
        show_inbox(target, agent);
    else
        fold_inbox(standing, target, agent);
}

static void collect_agent_stats(void *context, const struct handoff_agent_stats *agent)
{
    struct standing *standing = context;
    struct collectors_targets *targets = &standing->collectors->targets;
    struct collectors_target *target = collectors_target(targets, agent->name);
    if (target == targets->other || !owns_gauge(target, target->in_flight))
        add_agent_stats(&standing->others, agent);
    else
        show_agent_stats(target, agent);
    if (target == targets->other)
        return;
    collect_numbers(standing, target, agent);
    collect_circuit(standing, target, agent);
    collect_inbox(standing, target, agent);
}

static void show_folded(const struct standing *standing)
{
    if (standing->with_folded_numbers != NULL)
        show_numbers(standing->with_folded_numbers, &standing->folded);
    for (int i = 0; i < HANDOFF_CIRCUIT_COUNT; i++) {
        if (standing->folded_circuit[i] != NULL)
            prom_metric_sample_set(standing->folded_circuit[i],
                                   (enum handoff_circuit)i == standing->folded.circuit);
    }
    if (standing->with_folded_inbox != NULL)
        show_inbox(standing->with_folded_inbox, &standing->folded);
}

void collectors_standing_read(void *arg)
{
    struct collectors *collectors = arg;
    struct standing standing = {.collectors = collectors};
    if (collectors->client == NULL)
        return;
    handoff_client_visit_agents(collectors->client, collect_agent_stats, &standing);
    show_agent_stats(collectors->targets.other, &standing.others);
    show_folded(&standing);
}
