/* SPDX-License-Identifier: Apache-2.0 */
/* process_*: what the kernel knows about the process, as libprom reads it for any program. On the
 * thread that scrapes; hooks run one at a time. */
#include "collectors/rows.h"
#include "lib/base/check.h"
#include "lib/prom/process_reading.h"

static const enum collectors_row rows_of_values[PROM_PROCESS_VALUES] = {
    [PROM_PROCESS_CPU_SECONDS] = COLLECTORS_PROCESS_CPU,
    [PROM_PROCESS_START_SECONDS] = COLLECTORS_PROCESS_START_TIME,
    [PROM_PROCESS_VIRTUAL_BYTES] = COLLECTORS_PROCESS_VIRTUAL_MEMORY,
    [PROM_PROCESS_VIRTUAL_MOST_BYTES] = COLLECTORS_PROCESS_VIRTUAL_MEMORY_MAX,
    [PROM_PROCESS_RESIDENT_BYTES] = COLLECTORS_PROCESS_RESIDENT_MEMORY,
    [PROM_PROCESS_OPEN_FDS] = COLLECTORS_PROCESS_OPEN_FDS,
    [PROM_PROCESS_MOST_FDS] = COLLECTORS_PROCESS_MAX_FDS,
    [PROM_PROCESS_THREADS] = COLLECTORS_PROCESS_THREADS,
    [PROM_PROCESS_RECEIVED_BYTES] = COLLECTORS_PROCESS_RECEIVED,
    [PROM_PROCESS_SENT_BYTES] = COLLECTORS_PROCESS_SENT,
};

void collectors_process_read(void *arg)
{
    const struct collectors *collectors = arg;
    prom_metric_t *metrics[PROM_PROCESS_VALUES];
    BASE_CHECK(collectors->magic == COLLECTORS_MAGIC);
    for (size_t i = 0; i < PROM_PROCESS_VALUES; i++)
        metrics[i] = collectors->metrics[rows_of_values[i]];
    prom_process_set(metrics, NULL, NULL);
}
