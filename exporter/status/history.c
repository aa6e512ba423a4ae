/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two rings, see history.h: short windows read the fine one, long windows the coarse one, so that
 * an hour of an agent takes 14 KB.
 *
 * A window reads what was recorded within it and what is now, as Prometheus does: what a counter
 * grew by before the oldest of these is not in it.
 *
 * The thread that owns the history.
 */
#include "exporter/status/history.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"

enum { ALL_ROWS = 1 + EXPORTER_HISTORY_FINE + EXPORTER_HISTORY_COARSE };

bool exporter_history_init(struct exporter_history *history, size_t width)
{
    history->width = width;
    history->now = calloc(ALL_ROWS * width, sizeof *history->now);
    return history->now != NULL;
}

void exporter_history_free(struct exporter_history *history)
{
    free(history->now);
    *history = (struct exporter_history){0};
}

/* ---- recording ------------------------------------------------------------------------------ */

static bool is_coarse_turn(const struct exporter_history_times *times)
{
    return times->count % EXPORTER_HISTORY_COARSE_STEPS == 0;
}

static size_t fine_slot(uint64_t turn)
{
    return turn % EXPORTER_HISTORY_FINE;
}

static size_t coarse_slot(uint64_t turn)
{
    return turn / EXPORTER_HISTORY_COARSE_STEPS % EXPORTER_HISTORY_COARSE;
}

static uint32_t *fine_row(const struct exporter_history *history, size_t slot)
{
    return history->now + (1 + slot) * history->width;
}

static uint32_t *coarse_row(const struct exporter_history *history, size_t slot)
{
    return fine_row(history, EXPORTER_HISTORY_FINE + slot);
}

void exporter_history_record(struct exporter_history *history,
                             const struct exporter_history_times *times)
{
    const size_t size = history->width * sizeof *history->now;
    memcpy(fine_row(history, fine_slot(times->count)), history->now, size);
    if (is_coarse_turn(times))
        memcpy(coarse_row(history, coarse_slot(times->count)), history->now, size);
}

void exporter_history_recorded(struct exporter_history_times *times)
{
    times->fine_ms[fine_slot(times->count)] = times->now_ms;
    if (is_coarse_turn(times))
        times->coarse_ms[coarse_slot(times->count)] = times->now_ms;
    times->count++;
}

/* ---- windows -------------------------------------------------------------------------------- */

/* The rows of one window, from the newest that was recorded to the oldest. */
struct walk {
    const struct exporter_history *history;
    const struct exporter_history_times *times;
    bool fine;
    int64_t from_ms;
    uint64_t turn; /* of the row that was answered last; those before it are left */
};

static struct walk begin_walk(const struct exporter_history *history,
                              const struct exporter_history_times *times, int seconds)
{
    const int64_t fine_ms = (int64_t)(EXPORTER_HISTORY_FINE - 1) * EXPORTER_HISTORY_STEP_MS;
    const bool fine = (int64_t)seconds * 1000 <= fine_ms;
    const uint64_t step = fine ? 1 : EXPORTER_HISTORY_COARSE_STEPS;
    return (struct walk){.history = history,
                         .times = times,
                         .fine = fine,
                         .from_ms = times->now_ms - (int64_t)seconds * 1000,
                         .turn = (times->count + step - 1) / step * step};
}

/* NULL: there is none left in the window. */
static const uint32_t *next_row(struct walk *walk)
{
    const uint64_t step = walk->fine ? 1 : EXPORTER_HISTORY_COARSE_STEPS;
    const uint64_t rows = walk->fine ? EXPORTER_HISTORY_FINE : EXPORTER_HISTORY_COARSE;
    if (walk->turn < step || walk->turn - step + rows * step < walk->times->count)
        return NULL;
    const uint64_t turn = walk->turn - step;
    const size_t slot = walk->fine ? fine_slot(turn) : coarse_slot(turn);
    const int64_t at_ms = walk->fine ? walk->times->fine_ms[slot] : walk->times->coarse_ms[slot];
    if (at_ms < walk->from_ms)
        return NULL;
    walk->turn = turn;
    return walk->fine ? fine_row(walk->history, slot) : coarse_row(walk->history, slot);
}

/* Nothing was recorded before the window: it began with everything at 0. */
static bool reached_the_start(const struct walk *walk)
{
    return walk->turn == 0;
}

double exporter_history_increase(const struct exporter_history *history,
                                 const struct exporter_history_times *times, size_t number,
                                 int seconds)
{
    BASE_CHECK(number < history->width);
    struct walk walk = begin_walk(history, times, seconds);
    uint32_t before = history->now[number];
    for (const uint32_t *row = next_row(&walk); row != NULL; row = next_row(&walk))
        before = row[number];
    if (reached_the_start(&walk))
        before = 0;
    return (double)(history->now[number] - before);
}

uint32_t exporter_history_max(const struct exporter_history *history,
                              const struct exporter_history_times *times, size_t number,
                              int seconds)
{
    BASE_CHECK(number < history->width);
    struct walk walk = begin_walk(history, times, seconds);
    uint32_t most = history->now[number];
    for (const uint32_t *row = next_row(&walk); row != NULL; row = next_row(&walk))
        most = row[number] > most ? row[number] : most;
    return most;
}

double exporter_history_mean(const struct exporter_history *history,
                             const struct exporter_history_times *times, size_t number, int seconds)
{
    BASE_CHECK(number < history->width);
    struct walk walk = begin_walk(history, times, seconds);
    double sum = history->now[number];
    size_t rows = 1;
    for (const uint32_t *row = next_row(&walk); row != NULL; row = next_row(&walk), rows++)
        sum += row[number];
    return sum / (double)rows;
}
