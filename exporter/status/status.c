/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the status, see status.h. */
#include "exporter/status/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    FINDINGS_MAX = 16,     /* sentences; what is named by agent stops well before */
    AGENTS_NAMED = 5,      /* in sentences; the table has all of them */
    FINDING_TEXT_MAX = 256 /* an agent's name and some words */
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

/* ---- what is not as it should be ------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void add_finding(struct exporter_status *status,
                                                              enum exporter_standing standing,
                                                              const char *format, ...)
{
    char text[FINDING_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (standing > status->standing)
        status->standing = standing;
    if (written < 0 || status->nfindings == FINDINGS_MAX)
        return;
    const char *kept = base_arena_copy(&status->arena, text, strlen(text));
    if (kept != NULL)
        status->findings[status->nfindings++] = (struct exporter_finding){standing, kept};
}

/* The sentence on one agent; false where there is nothing to say. */
static bool find_in_agent(struct exporter_status *status, const struct handoff_agent_stats *agent)
{
    if (circuit_rank(agent) == 2)
        add_finding(
            status, EXPORTER_STANDING_TROUBLE,
            "The circuit to %s is open after %u consecutive failure%s; nothing is sent to it until "
            "the cooldown ends.",
            agent->name, agent->consecutive_failures, agent->consecutive_failures == 1 ? "" : "s");
    else if (circuit_rank(agent) == 1)
        add_finding(status, EXPORTER_STANDING_TROUBLE,
                    "The circuit to %s is half open: the next handoff probes it.", agent->name);
    else if (agent->consecutive_failures > 0)
        add_finding(status, EXPORTER_STANDING_ATTENTION, "The last %shandoff%s to %s failed.",
                    agent->consecutive_failures > 1 ? "few " : "",
                    agent->consecutive_failures > 1 ? "s" : "", agent->name);
    return circuit_rank(agent) > 0 || agent->consecutive_failures > 0;
}

/* One sentence for those that are not named, by kind: a failure must not be read as a circuit. */
static void find_in_others(struct exporter_status *status, size_t at)
{
    size_t circuits = 0;
    size_t failed = 0;
    for (; at < status->nagents; at++) {
        const bool closed = circuit_rank(&status->agents[at]) == 0;
        circuits += !closed;
        failed += closed && status->agents[at].consecutive_failures > 0;
    }
    if (circuits > 0)
        add_finding(status, EXPORTER_STANDING_TROUBLE,
                    "The circuit%s to %zu more agent%s not closed, see below.",
                    circuits > 1 ? "s" : "", circuits, circuits > 1 ? "s are" : " is");
    if (failed > 0)
        add_finding(status, EXPORTER_STANDING_ATTENTION,
                    "The last handoff%s to %zu more agent%s failed, see below.",
                    failed > 1 ? "s" : "", failed, failed > 1 ? "s" : "");
}

/* They are sorted, so those with something to say come first. */
static void find_in_agents(struct exporter_status *status)
{
    size_t at = 0;
    while (at < status->nagents && at < AGENTS_NAMED && find_in_agent(status, &status->agents[at]))
        at++;
    find_in_others(status, at);
}

static void find_in_daemon(struct exporter_status *status)
{
    if (status->daemon.draining)
        add_finding(status, EXPORTER_STANDING_ATTENTION,
                    "The daemon is shutting down and accepts no new handoffs.");
    if (!status->client.spine_up)
        add_finding(
            status, EXPORTER_STANDING_TROUBLE,
            "The spine is not answering: envelopes are sent without the requested memories.");
    if (status->daemon.config_refused)
        add_finding(
            status, EXPORTER_STANDING_ATTENTION,
            "The last reload was rejected; the previous configuration stays in effect. The log "
            "says "
            "why.");
    if (!status->client.exact_tokens)
        add_finding(
            status, EXPORTER_STANDING_ATTENTION,
            "Tokens are estimated because no vocabulary is installed, so envelopes do not use "
            "their "
            "full budget.");
}

/* As the alert HandoffStoreFailing: a share, since small volumes are usual, and bytes, since large
 * ones are too. */
static bool disk_is_nearly_full(const struct handoff_stats *stats)
{
    enum { SHARE = 20 };
    return stats->disk_bytes > 0 && stats->disk_free_bytes < stats->disk_bytes / SHARE &&
           stats->disk_free_bytes < INT64_C(1000000000);
}

static void find_in_store(struct exporter_status *status)
{
    if (status->client.store_displaced != NULL)
        add_finding(status, EXPORTER_STANDING_TROUBLE,
                    "The store is not where it was (%.120s); nothing is stored or accepted until "
                    "the sidecar is restarted.",
                    status->client.store_displaced);
    if (status->own.commits_fail)
        add_finding(status, EXPORTER_STANDING_TROUBLE,
                    "Writing to the store failed in the last 5 minutes; the affected handoffs were "
                    "rejected. The disk may be full or failing.");
    if (disk_is_nearly_full(&status->client))
        add_finding(status, EXPORTER_STANDING_TROUBLE,
                    "The disk under the store is nearly full: %" PRId64 " MB are free.",
                    status->client.disk_free_bytes / 1000000);
}

static void find_shortages(struct exporter_status *status)
{
    for (int i = HANDOFF_SHORTAGE_NONE + 1; i < HANDOFF_SHORTAGE_COUNT; i++) {
        if (status->own.is_short[i])
            add_finding(status, EXPORTER_STANDING_ATTENTION,
                        "The sidecar ran out of %s in the last 5 minutes; deliveries and "
                        "connections are delayed, and no agent is at fault.",
                        handoff_shortage_name((enum handoff_shortage)i));
    }
}

static void find_parked(struct exporter_status *status)
{
    if (status->parked == 1)
        add_finding(status, EXPORTER_STANDING_ATTENTION,
                    "One handoff could not be delivered and is waiting for a decision.");
    else if (status->parked > 1)
        add_finding(status, EXPORTER_STANDING_ATTENTION,
                    "%" PRIu64 " handoffs could not be delivered and are waiting for a decision.",
                    status->parked);
}

/* The worst first; among equals as they were found. */
static void sort_findings(struct exporter_status *status)
{
    for (size_t i = 1; i < status->nfindings; i++) {
        const struct exporter_finding moving = status->findings[i];
        size_t at = i;
        for (; at > 0 && status->findings[at - 1].standing < moving.standing; at--)
            status->findings[at] = status->findings[at - 1];
        status->findings[at] = moving;
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

bool exporter_status_read(struct exporter_status *status,
                          const struct exporter_lifecycle *lifecycle,
                          struct exporter_client_host *client_host)
{
    struct handoff_client *client = exporter_client_host_client(client_host);
    struct timespec now;
    *status = (struct exporter_status){0};
    clock_gettime(CLOCK_REALTIME, &now);
    status->now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    exporter_lifecycle_look(lifecycle, &status->daemon);
    handoff_client_stats(client, &status->client);
    status->own = exporter_client_host_own_faults(client_host);
    status->findings = base_arena_calloc(&status->arena, FINDINGS_MAX, sizeof *status->findings);
    if (status->findings == NULL || !gather_agents(status, client)) {
        exporter_status_clear(status);
        return false;
    }
    status->nfailures = exporter_failures_read(exporter_client_host_failures(client_host),
                                               status->failures, &status->failures_total);
    find_in_agents(status);
    find_parked(status);
    find_in_store(status);
    find_shortages(status);
    find_in_daemon(status);
    sort_findings(status);
    return true;
}

void exporter_status_clear(struct exporter_status *status)
{
    base_arena_free(&status->arena);
    *status = (struct exporter_status){0};
}
