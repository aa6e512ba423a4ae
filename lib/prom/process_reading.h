/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_reading.h - what the kernel knows about this process, in seconds, bytes and counts, as
 * metrics: those of prom_collector_process_new, and the sidecar's. The thread that scrapes.
 */
#ifndef PROM_PROCESS_READING_H
#define PROM_PROCESS_READING_H

#include "prom_metric.h"

enum prom_process_value {
    PROM_PROCESS_CPU_SECONDS,   /* a counter */
    PROM_PROCESS_START_SECONDS, /* since 1970 */
    PROM_PROCESS_VIRTUAL_BYTES,
    PROM_PROCESS_VIRTUAL_MOST_BYTES, /* unlimited: 2^64 - 1, as other exporters show it */
    PROM_PROCESS_RESIDENT_BYTES,
    PROM_PROCESS_OPEN_FDS,
    PROM_PROCESS_MOST_FDS,
    PROM_PROCESS_THREADS,
    PROM_PROCESS_RECEIVED_BYTES, /* by the network namespace; a counter */
    PROM_PROCESS_SENT_BYTES,     /* a counter */
    PROM_PROCESS_VALUES,
};

/* Reads the values and sets their metrics, which have no labels; NULL: not wanted. What cannot be
 * read (no /proc, an old kernel) keeps its last value. Nothing is allocated. One thread at a time.
 *
 * `limits_path`, `stat_path`: in place of what the kernel says about this process in /proc/self;
 * NULL: that. The CPU time then has a resolution of nanoseconds, and that of a file one of ticks.
 */
void prom_process_set(prom_metric_t *const metrics[PROM_PROCESS_VALUES], const char *limits_path,
                      const char *stat_path);

#endif
