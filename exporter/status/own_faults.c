/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers when, and no more: the log has the details. Of each resource the last three times are
 * enough to know whether there were three in the window.
 *
 * Any thread: a lock protects the times, and is taken only for an event that is a fault.
 */
#include "exporter/status/own_faults.h"

#include <string.h>

void exporter_own_faults_init(struct exporter_own_faults *faults)
{
    memset(faults, 0, sizeof *faults);
    pthread_mutex_init(&faults->lock, NULL);
}

void exporter_own_faults_free(struct exporter_own_faults *faults)
{
    pthread_mutex_destroy(&faults->lock);
}

static void note_time(struct exporter_own_faults *faults, const struct handoff_event *event,
                      int64_t now_ms)
{
    if (event->kind == HANDOFF_EVENT_COMMITTED) {
        faults->commit_failed_ms = now_ms;
        return;
    }
    int64_t *times = faults->short_ms[event->of.shortage.resource];
    memmove(times + 1, times, (EXPORTER_OWN_FAULTS_SHORTAGES - 1) * sizeof times[0]);
    times[0] = now_ms;
}

void exporter_own_faults_note(struct exporter_own_faults *faults, const struct handoff_event *event,
                              int64_t now_ms)
{
    const bool failed = event->kind == HANDOFF_EVENT_COMMITTED && event->code != HANDOFF_OK;
    if (!failed && event->kind != HANDOFF_EVENT_SHORTAGE)
        return;
    pthread_mutex_lock(&faults->lock);
    note_time(faults, event, now_ms);
    pthread_mutex_unlock(&faults->lock);
}

static bool is_recent(int64_t at_ms, int64_t now_ms)
{
    return at_ms != 0 && now_ms - at_ms < EXPORTER_OWN_FAULTS_WINDOW_MS;
}

struct exporter_own_faults_found exporter_own_faults_find(struct exporter_own_faults *faults,
                                                          int64_t now_ms)
{
    struct exporter_own_faults_found found = {0};
    pthread_mutex_lock(&faults->lock);
    found.commits_fail = is_recent(faults->commit_failed_ms, now_ms);
    for (int i = 0; i < HANDOFF_SHORTAGE_COUNT; i++)
        found.is_short[i] =
            is_recent(faults->short_ms[i][EXPORTER_OWN_FAULTS_SHORTAGES - 1], now_ms);
    pthread_mutex_unlock(&faults->lock);
    return found;
}
