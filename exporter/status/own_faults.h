/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_faults.h - what the sidecar lacked itself in the last minutes: for the status page, by the
 * same windows and counts as the alerts HandoffStoreFailing and HandoffExporterOutOfResources.
 */
#ifndef EXPORTER_STATUS_OWN_FAULTS_H
#define EXPORTER_STATUS_OWN_FAULTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/handoff.h"

enum {
    EXPORTER_OWN_FAULTS_WINDOW_MS = 5 * 60 * 1000, /* alerts/config.libsonnet: both windows */
    EXPORTER_OWN_FAULTS_SHORTAGES = 3,             /* outOfResources.shortages */
};

struct exporter_own_faults {
    pthread_mutex_t lock;
    /* under the lock, on the monotonic clock; 0: never */
    int64_t commit_failed_ms;                                                /* the last time */
    int64_t short_ms[HANDOFF_SHORTAGE_COUNT][EXPORTER_OWN_FAULTS_SHORTAGES]; /* the last times */
};

struct exporter_own_faults_found {
    bool commits_fail;
    bool is_short[HANDOFF_SHORTAGE_COUNT];
};

void exporter_own_faults_init(struct exporter_own_faults *faults);
void exporter_own_faults_free(struct exporter_own_faults *faults);
/* Any thread, both. */
void exporter_own_faults_note(struct exporter_own_faults *faults, const struct handoff_event *event,
                              int64_t now_ms);
struct exporter_own_faults_found exporter_own_faults_find(struct exporter_own_faults *faults,
                                                          int64_t now_ms);

#endif
