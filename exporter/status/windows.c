/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the collectors and the client into histories, see windows.h. An agent takes 14 KB, an
 * answer of the API half of one; both are kept until the end, since a counter never begins anew.
 *
 * Control thread.
 */
#include "exporter/status/windows.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/check.h"

/* ---- agents --------------------------------------------------------------------------------- */

/* Where the name is, or would be. */
static size_t agent_place(const struct exporter_windows *windows, const char *name)
{
    size_t low = 0;
    size_t high = windows->nagents;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(windows->agents[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct exporter_watched_agent *find_watched(const struct exporter_windows *windows,
                                                   const char *name)
{
    const size_t place = agent_place(windows, name);
    const bool found = place < windows->nagents && strcmp(windows->agents[place]->name, name) == 0;
    return found ? windows->agents[place] : NULL;
}

static struct exporter_watched_agent *new_watched(const char *name)
{
    struct exporter_watched_agent *agent = calloc(1, sizeof *agent);
    if (agent == NULL)
        return NULL;
    agent->name = strdup(name);
    if (agent->name != NULL && exporter_history_init(&agent->history, EXPORTER_WATCHED_OF_AGENT))
        return agent;
    free((char *)agent->name);
    free(agent);
    return NULL;
}

static void free_watched(struct exporter_watched_agent *agent)
{
    exporter_history_free(&agent->history);
    free((char *)agent->name);
    free(agent);
}

/* NULL: out of memory. */
static struct exporter_watched_agent *watch_agent(struct exporter_windows *windows,
                                                  const char *name)
{
    struct exporter_watched_agent *agent = new_watched(name);
    struct exporter_watched_agent **room =
        agent == NULL ? NULL : reallocarray(windows->agents, windows->nagents + 1, sizeof *room);
    if (room == NULL) {
        if (agent != NULL)
            free_watched(agent);
        return NULL;
    }
    windows->agents = room;
    const size_t place = agent_place(windows, name);
    memmove(room + place + 1, room + place, (windows->nagents - place) * sizeof *room);
    room[place] = agent;
    windows->nagents++;
    return agent;
}

static void look_at_counts(struct exporter_windows *windows, struct exporter_watched_agent *agent)
{
    uint64_t counts[COLLECTORS_COUNTED];
    collectors_read_agent(windows->collectors, agent->name, counts);
    for (size_t i = 0; i < COLLECTORS_COUNTED; i++)
        agent->history.now[i] = (uint32_t)counts[i];
}

static void look_at_agent(void *context, const struct handoff_agent_stats *stats)
{
    struct exporter_windows *windows = context;
    if (!stats->configured)
        return;
    struct exporter_watched_agent *agent = find_watched(windows, stats->name);
    if (agent == NULL)
        agent = watch_agent(windows, stats->name);
    if (agent == NULL)
        return;
    look_at_counts(windows, agent);
    agent->history.now[EXPORTER_WATCHED_FAILURES] = stats->consecutive_failures;
    agent->history.now[EXPORTER_WATCHED_REFUSALS] = stats->consecutive_refusals;
    agent->history.now[EXPORTER_WATCHED_NOT_CLOSED] = stats->circuit != HANDOFF_CIRCUIT_CLOSED;
    agent->history.now[EXPORTER_WATCHED_OPEN] = stats->circuit == HANDOFF_CIRCUIT_OPEN;
}

/* Those that are not configured share their counts. */
static void look_at_others(struct exporter_windows *windows)
{
    const char *name = handoff_reserved_name(HANDOFF_RESERVED_OTHER);
    struct exporter_watched_agent *others = find_watched(windows, name);
    if (others == NULL)
        others = watch_agent(windows, name);
    if (others != NULL)
        look_at_counts(windows, others);
}

const struct exporter_history *exporter_windows_agent(const struct exporter_windows *windows,
                                                      const char *name)
{
    const struct exporter_watched_agent *agent = find_watched(windows, name);
    return agent != NULL ? &agent->history : NULL;
}

double exporter_windows_sum(const struct exporter_windows *windows, size_t number, int seconds)
{
    double sum = 0;
    for (size_t i = 0; i < windows->nagents; i++)
        sum += exporter_history_increase(&windows->agents[i]->history, &windows->times, number,
                                         seconds);
    return sum;
}

/* ---- answers of the API ---------------------------------------------------------------------- */

static struct exporter_watched_answers *watch_answers(struct exporter_windows *windows, size_t call,
                                                      enum handoff_code code)
{
    struct exporter_watched_answers *room =
        reallocarray(windows->answers, windows->nanswers + 1, sizeof *room);
    if (room == NULL)
        return NULL;
    windows->answers = room;
    struct exporter_watched_answers *answers = &room[windows->nanswers];
    *answers = (struct exporter_watched_answers){.call = call, .code = code};
    if (!exporter_history_init(&answers->history, 1))
        return NULL;
    windows->nanswers++;
    return answers;
}

static void look_at_answer(struct exporter_windows *windows, size_t call, enum handoff_code code)
{
    const uint64_t count = collectors_read_answers(windows->collectors, call, code);
    if (count == 0)
        return;
    size_t i = 0;
    while (i < windows->nanswers &&
           (windows->answers[i].call != call || windows->answers[i].code != code))
        i++;
    struct exporter_watched_answers *answers =
        i < windows->nanswers ? &windows->answers[i] : watch_answers(windows, call, code);
    if (answers != NULL)
        answers->history.now[0] = (uint32_t)count;
}

static void look_at_answers(struct exporter_windows *windows)
{
    size_t count;
    collectors_calls(windows->collectors, &count);
    for (size_t call = 0; call <= count; call++) { /* the last: those beyond the series limit */
        for (int code = 0; code < HANDOFF_CODE_COUNT; code++)
            look_at_answer(windows, call, (enum handoff_code)code);
    }
}

/* ---- the sidecar ----------------------------------------------------------------------------- */

static void look_at_own(struct exporter_windows *windows)
{
    struct handoff_stats stats;
    uint32_t *now = windows->own.now;
    handoff_client_stats(windows->client, &stats);
    now[EXPORTER_WATCHED_SPINE_DOWN] = !stats.spine_up;
    now[EXPORTER_WATCHED_CHAINS_BY_SIZE] = (uint32_t)stats.retention.chains_removed_by_size;
    now[EXPORTER_WATCHED_COMMITS_FAILED] =
        (uint32_t)collectors_read_commit_failures(windows->collectors);
    now[EXPORTER_WATCHED_SERIES_DROPPED] =
        (uint32_t)metric_series_dropped(collectors_registry(windows->collectors));
    now[EXPORTER_WATCHED_PING_PONGS] = (uint32_t)collectors_read_ping_pongs(windows->collectors);
    for (int i = HANDOFF_SHORTAGE_NONE + 1; i < HANDOFF_SHORTAGE_COUNT; i++)
        now[EXPORTER_WATCHED_SHORTAGE + i] =
            (uint32_t)collectors_read_shortages(windows->collectors, (enum handoff_shortage)i);
}

/* ---- all of it ------------------------------------------------------------------------------- */

void exporter_windows_look(struct exporter_windows *windows, int64_t now_ms)
{
    windows->times.now_ms = now_ms;
    handoff_client_visit_agents(windows->client, look_at_agent, windows);
    look_at_others(windows);
    look_at_answers(windows);
    look_at_own(windows);
}

void exporter_windows_record(struct exporter_windows *windows, int64_t now_ms)
{
    exporter_windows_look(windows, now_ms);
    for (size_t i = 0; i < windows->nagents; i++)
        exporter_history_record(&windows->agents[i]->history, &windows->times);
    for (size_t i = 0; i < windows->nanswers; i++)
        exporter_history_record(&windows->answers[i].history, &windows->times);
    exporter_history_record(&windows->own, &windows->times);
    exporter_history_recorded(&windows->times);
}

struct exporter_windows *exporter_windows_new(struct collectors *collectors,
                                              struct handoff_client *client)
{
    struct timespec now;
    struct exporter_windows *windows = calloc(1, sizeof *windows);
    if (windows == NULL || !exporter_history_init(&windows->own, EXPORTER_WATCHED_OWN)) {
        free(windows);
        return NULL;
    }
    windows->collectors = collectors;
    windows->client = client;
    clock_gettime(CLOCK_REALTIME, &now);
    windows->since_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return windows;
}

void exporter_windows_free(struct exporter_windows **freeing)
{
    struct exporter_windows *windows = *freeing;
    if (windows == NULL)
        return;
    *freeing = NULL;
    for (size_t i = 0; i < windows->nagents; i++)
        free_watched(windows->agents[i]);
    for (size_t i = 0; i < windows->nanswers; i++)
        exporter_history_free(&windows->answers[i].history);
    exporter_history_free(&windows->own);
    free(windows->agents);
    free(windows->answers);
    free(windows);
}
