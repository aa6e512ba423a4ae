/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the status, see status.h. */
#include "exporter/status/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exporter/status/rules.h"
#include "lib/base/clock.h"

enum {
    FINDINGS_MAX = 256, /* more than all rules have to say together */
};

const char *exporter_standing_name(enum exporter_standing standing)
{
    static const char *const names[] = {"ok", "attention", "trouble"};
    return names[standing];
}

/* ---- the agents ----------------------------------------------------------------------------- */

struct gathering {
    struct exporter_status *status;
    size_t room;
    bool failed;
};

static bool make_room_for_agent(struct gathering *gathering)
{
    struct exporter_status *status = gathering->status;
    if (status->nagents < gathering->room)
        return true;
    const size_t room = gathering->room > 0 ? gathering->room * 2 : 16;
    struct handoff_agent_stats *agents = base_arena_calloc(&status->arena, room, sizeof *agents);
    if (agents == NULL)
        return false;
    if (status->nagents > 0)
        memcpy(agents, status->agents, status->nagents * sizeof *agents);
    status->agents = agents;
    gathering->room = room;
    return true;
}

static int64_t max_age(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* An agent that left the configuration is shown for as long as it has handoffs. */
static void gather_agent(void *context, const struct handoff_agent_stats *agent)
{
    struct gathering *gathering = context;
    struct exporter_status *status = gathering->status;
    if (!agent->configured && agent->in_flight == 0 && agent->parked == 0)
        return;
    char *name = base_arena_copy(&status->arena, agent->name, strlen(agent->name));
    if (name == NULL || !make_room_for_agent(gathering)) {
        gathering->failed = true;
        return;
    }
    struct handoff_agent_stats *kept = &status->agents[status->nagents++];
    *kept = *agent;
    kept->name = name;
    status->in_flight += agent->in_flight;
    status->parked += agent->parked;
    status->oldest_in_flight_ns = max_age(status->oldest_in_flight_ns, agent->oldest_in_flight_ns);
    status->oldest_parked_ns = max_age(status->oldest_parked_ns, agent->oldest_parked_ns);
}

static int circuit_rank(const struct handoff_agent_stats *agent)
{
    static const int ranks[HANDOFF_CIRCUIT_COUNT] = {
        [HANDOFF_CIRCUIT_HALF_OPEN] = 1, [HANDOFF_CIRCUIT_OPEN] = 2};
    return ranks[agent->circuit];
}

static int descending(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

static int worst_first(const void *left, const void *right)
{
    const struct handoff_agent_stats *a = left;
    const struct handoff_agent_stats *b = right;
    int order = circuit_rank(b) - circuit_rank(a);
    if (order == 0)
        order = descending(a->consecutive_failures, b->consecutive_failures);
    if (order == 0)
        order = descending(a->parked, b->parked);
    return order != 0 ? order : strcmp(a->name, b->name);
}

static bool gather_agents(struct exporter_status *status, struct handoff_client *client)
{
    struct gathering gathering = {.status = status};
    handoff_client_visit_agents(client, gather_agent, &gathering);
    if (status->nagents > 1)
        qsort(status->agents, status->nagents, sizeof *status->agents, worst_first);
    return !gathering.failed;
}

/* ---- the receivers of channels -------------------------------------------------------------- */

static bool make_room_for_feed(struct gathering *gathering)
{
    struct exporter_status *status = gathering->status;
    if (status->nfeeds < gathering->room)
        return true;
    const size_t room = gathering->room > 0 ? gathering->room * 2 : 16;
    struct handoff_feed_stats *feeds = base_arena_calloc(&status->arena, room, sizeof *feeds);
    if (feeds == NULL)
        return false;
    if (status->nfeeds > 0)
        memcpy(feeds, status->feeds, status->nfeeds * sizeof *feeds);
    status->feeds = feeds;
    gathering->room = room;
    return true;
}

/* The names of a feed stay until the client is closed. */
static void gather_feed(void *context, const struct handoff_feed_stats *feed)
{
    struct gathering *gathering = context;
    if (!feed->subscribed && feed->pending == 0)
        return;
    if (make_room_for_feed(gathering))
        gathering->status->feeds[gathering->status->nfeeds++] = *feed;
    else
        gathering->failed = true;
}

static int furthest_behind_first(const void *left, const void *right)
{
    const struct handoff_feed_stats *a = left;
    const struct handoff_feed_stats *b = right;
    int order = descending((uint64_t)a->oldest_pending_ns, (uint64_t)b->oldest_pending_ns);
    if (order == 0)
        order = strcmp(a->channel, b->channel);
    return order != 0 ? order : strcmp(a->receiver, b->receiver);
}

static bool gather_feeds(struct exporter_status *status, struct handoff_client *client)
{
    struct gathering gathering = {.status = status};
    handoff_client_visit_feeds(client, gather_feed, &gathering);
    if (status->nfeeds > 1)
        qsort(status->feeds, status->nfeeds, sizeof *status->feeds, furthest_behind_first);
    return !gathering.failed;
}

/* ---- the last hour -------------------------------------------------------------------------- */

enum { SHOWN_S = 60 * 60 };

static double counted_in_hour(const struct exporter_windows *windows,
                              const struct exporter_history *agent, size_t number)
{
    return exporter_history_increase(agent, &windows->times, number, SHOWN_S);
}

static void read_hour(struct exporter_hour *hour, const struct exporter_windows *windows,
                      const struct exporter_history *agent)
{
    for (size_t i = 0; i < HANDOFF_OUTCOME_COUNT; i++)
        hour->ended[i] = counted_in_hour(windows, agent, COLLECTORS_COUNTED_OUTCOME + i);
    hour->included = counted_in_hour(windows, agent, COLLECTORS_COUNTED_REFS_INCLUDED);
    hour->requested = counted_in_hour(windows, agent, COLLECTORS_COUNTED_REFS_REQUESTED);
    hour->latency_50 = exporter_rules_latency(windows, agent, 0.5, SHOWN_S);
    hour->latency_99 = exporter_rules_latency(windows, agent, 0.99, SHOWN_S);
}

static void add_to_all(struct exporter_hour *sum, const struct exporter_windows *windows,
                       const struct exporter_history *agent)
{
    struct exporter_hour hour;
    read_hour(&hour, windows, agent);
    for (size_t i = 0; i < HANDOFF_OUTCOME_COUNT; i++)
        sum->ended[i] += hour.ended[i];
    sum->included += hour.included;
    sum->requested += hour.requested;
}

static bool read_hours(struct exporter_status *status, const struct exporter_windows *windows)
{
    status->hours = base_arena_calloc(&status->arena, status->nagents + 1, sizeof *status->hours);
    if (status->hours == NULL)
        return false;
    for (size_t i = 0; i < status->nagents; i++) {
        const struct exporter_history *agent =
            status->agents[i].configured ? exporter_windows_agent(windows, status->agents[i].name)
                                         : NULL;
        if (agent != NULL)
            read_hour(&status->hours[i], windows, agent);
    }
    for (size_t i = 0; i < windows->nagents; i++)
        add_to_all(&status->hour, windows, &windows->agents[i]->history);
    return true;
}

/* ---- what is not as it should be ------------------------------------------------------------ */

const char *exporter_severity_name(enum exporter_severity severity)
{
    static const char *const names[] = {"info", "warning", "critical"};
    return names[severity];
}

enum exporter_standing exporter_severity_standing(enum exporter_severity severity)
{
    return severity == EXPORTER_SEVERITY_CRITICAL ? EXPORTER_STANDING_TROUBLE
                                                  : EXPORTER_STANDING_ATTENTION;
}

void exporter_status_find(struct exporter_status *status, const struct exporter_finding *finding)
{
    const enum exporter_standing standing = exporter_severity_standing(finding->severity);
    if (standing > status->standing)
        status->standing = standing;
    if (status->nfindings == FINDINGS_MAX)
        return;
    const char *text = base_arena_copy(&status->arena, finding->text, strlen(finding->text));
    if (text == NULL)
        return;
    status->findings[status->nfindings] = *finding;
    status->findings[status->nfindings++].text = text;
}

/* What no alert is about: a daemon that stops, and work that waits for less than an hour. */
static void find_facts(struct exporter_status *status)
{
    char text[128];
    if (status->daemon.draining)
        exporter_status_find(
            status, &(struct exporter_finding){
                        .severity = EXPORTER_SEVERITY_INFO,
                        .text = "The daemon is shutting down and accepts no new handoffs."});
    if (status->parked == 0)
        return;
    if (status->parked == 1)
        snprintf(text, sizeof text,
                 "One handoff could not be delivered and is waiting for a decision.");
    else
        snprintf(text, sizeof text,
                 "%" PRIu64 " handoffs could not be delivered and are waiting for a decision.",
                 status->parked);
    exporter_status_find(
        status, &(struct exporter_finding){.severity = EXPORTER_SEVERITY_INFO, .text = text});
}

/* The worst first; among equals as they were found. */
static void sort_findings(struct exporter_status *status)
{
    for (size_t i = 1; i < status->nfindings; i++) {
        const struct exporter_finding moving = status->findings[i];
        size_t at = i;
        for (; at > 0 && status->findings[at - 1].severity < moving.severity; at--)
            status->findings[at] = status->findings[at - 1];
        status->findings[at] = moving;
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

bool exporter_status_read(struct exporter_status *status,
                          const struct exporter_lifecycle *lifecycle,
                          struct exporter_client_host *client_host,
                          struct exporter_windows *windows)
{
    struct handoff_client *client = exporter_client_host_client(client_host);
    struct timespec now;
    *status = (struct exporter_status){0};
    clock_gettime(CLOCK_REALTIME, &now);
    status->now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    exporter_lifecycle_look(lifecycle, &status->daemon);
    handoff_client_stats(client, &status->client);
    exporter_windows_look(windows, base_monotonic_ms(&base_clock_system));
    status->since_ms = windows->since_ms;
    status->findings = base_arena_calloc(&status->arena, FINDINGS_MAX, sizeof *status->findings);
    if (status->findings == NULL || !gather_agents(status, client) ||
        !gather_feeds(status, client) || !read_hours(status, windows)) {
        exporter_status_clear(status);
        return false;
    }
    status->nfailures = exporter_failures_read(exporter_client_host_failures(client_host),
                                               status->failures, &status->failures_total);
    exporter_rules_evaluate(status, windows);
    find_facts(status);
    sort_findings(status);
    return true;
}

void exporter_status_clear(struct exporter_status *status)
{
    base_arena_free(&status->arena);
    *status = (struct exporter_status){0};
}
