/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_*: what the kernel knows about the process, in seconds and bytes, read as libprom reads
 * it for any program. What cannot be read (no /proc, an old kernel) keeps its last value.
 *
 * One hook runs at a time, so the mirrored counters have one writer.
 *
 * On the thread that scrapes.
 */
#include <math.h>

#include "collectors/rows.h"
#include "lib/base/check.h"
#include "lib/prom/process_reading.h"

static void set_known(struct collectors *collectors, enum collectors_row row, double value)
{
    if (!isnan(value))
        prom_gauge_set(collectors->metrics[row], value, NULL);
}

static void set_known_counter(struct collectors *collectors, enum collectors_row row, double value)
{
    if (!isnan(value))
        prom_counter_set(collectors->metrics[row], value, NULL);
}

void collectors_process_read(void *arg)
{
    struct collectors *collectors = arg;
    struct prom_process_reading reading;
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    prom_process_read(NULL, NULL, &reading);
    set_known_counter(collectors, COLLECTORS_PROCESS_CPU, reading.cpu_seconds);
    set_known(collectors, COLLECTORS_PROCESS_START_TIME, reading.start_time_seconds);
    set_known(collectors, COLLECTORS_PROCESS_THREADS, reading.threads);
    set_known(collectors, COLLECTORS_PROCESS_VIRTUAL_MEMORY, reading.virtual_bytes);
    set_known(collectors, COLLECTORS_PROCESS_VIRTUAL_MEMORY_MAX, reading.virtual_most_bytes);
    set_known(collectors, COLLECTORS_PROCESS_RESIDENT_MEMORY, reading.resident_bytes);
    set_known(collectors, COLLECTORS_PROCESS_OPEN_FDS, reading.open_fds);
    set_known(collectors, COLLECTORS_PROCESS_MAX_FDS, reading.most_fds);
    set_known_counter(collectors, COLLECTORS_PROCESS_RECEIVED, reading.received_bytes);
    set_known_counter(collectors, COLLECTORS_PROCESS_SENT, reading.sent_bytes);
}
