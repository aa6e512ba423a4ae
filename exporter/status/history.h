/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - numbers as they were, for sliding windows: every 15 s for a quarter of an hour, every
 * two minutes for an hour.
 *
 * Several histories share their times. A history that begins later was 0 before, as a counter is.
 * Owned by one thread.
 */
#ifndef EXPORTER_STATUS_HISTORY_H
#define EXPORTER_STATUS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXPORTER_HISTORY_STEP_MS = 15 * 1000,
    EXPORTER_HISTORY_FINE = 15 * 60 / 15 + 1,
    EXPORTER_HISTORY_COARSE_STEPS = 8, /* one of so many is kept for an hour */
    EXPORTER_HISTORY_COARSE = 60 / 2 + 1,
};

/* When the histories were recorded. */
struct exporter_history_times {
    int64_t now_ms; /* monotonic, as all of them */
    uint64_t count; /* recorded so far */
    int64_t fine_ms[EXPORTER_HISTORY_FINE];
    int64_t coarse_ms[EXPORTER_HISTORY_COARSE];
};

/* Counters wrap at 32 bits; what they grew by in an hour does not. */
struct exporter_history {
    size_t width;
    uint32_t *now; /* `width` numbers; then those of each time */
};

/* All 0. false: out of memory. */
bool exporter_history_init(struct exporter_history *history, size_t width);
void exporter_history_free(struct exporter_history *history);

/* Remembers what is now: each history, and then the times. */
void exporter_history_record(struct exporter_history *history,
                             const struct exporter_history_times *times);
void exporter_history_recorded(struct exporter_history_times *times);

/* What a counter grew by, the most that a gauge was, and its mean, in the last seconds. */
double exporter_history_increase(const struct exporter_history *history,
                                 const struct exporter_history_times *times, size_t number,
                                 int seconds);
uint32_t exporter_history_max(const struct exporter_history *history,
                              const struct exporter_history_times *times, size_t number,
                              int seconds);
double exporter_history_mean(const struct exporter_history *history,
                             const struct exporter_history_times *times, size_t number,
                             int seconds);

#endif
