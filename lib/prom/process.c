/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector of the process, with the names that every client library of Prometheus uses. Its
 * function runs at each scrape, on the thread that scrapes.
 */
#include "lib/prom/process.h"

#include <stdlib.h>
#include <string.h>

#include "lib/prom/internal.h"
#include "lib/prom/process_reading.h"

/* The bytes of the network are not shown: they are those of all its processes. */
static const struct {
    const char *name, *unit, *help;
    enum metric_type type;
} process_rows[PROM_PROCESS_VALUES] = {
    [PROM_PROCESS_CPU_SECONDS] = {"process_cpu_seconds_total", "seconds",
                                  "User and system CPU time of the process.", METRIC_COUNTER},
    [PROM_PROCESS_START_SECONDS] = {"process_start_time_seconds", "seconds",
                                    "When the process was started, since 1970.", METRIC_GAUGE},
    [PROM_PROCESS_VIRTUAL_BYTES] = {"process_virtual_memory_bytes", "bytes",
                                    "Size of the address space.", METRIC_GAUGE},
    [PROM_PROCESS_VIRTUAL_MOST_BYTES] = {"process_virtual_memory_max_bytes", "bytes",
                                         "Limit of the address space.", METRIC_GAUGE},
    [PROM_PROCESS_RESIDENT_BYTES] = {"process_resident_memory_bytes", "bytes", "Resident memory.",
                                     METRIC_GAUGE},
    [PROM_PROCESS_OPEN_FDS] = {"process_open_fds", "", "Open file descriptors.", METRIC_GAUGE},
    [PROM_PROCESS_MOST_FDS] = {"process_max_fds", "", "Limit of open file descriptors.",
                               METRIC_GAUGE},
    [PROM_PROCESS_THREADS] = {"process_threads", "", "Threads of the process.", METRIC_GAUGE},
};

struct prom_process {
    char *limits_path; /* NULL: the kernel's */
    char *stat_path;
    prom_metric_t *metrics[PROM_PROCESS_VALUES];
};

void prom_process_free(struct prom_process **process)
{
    if (!*process)
        return;
    free((*process)->limits_path);
    free((*process)->stat_path);
    free(*process);
    *process = NULL;
}

static bool copy_path(char **to, const char *path)
{
    *to = path ? strdup(path) : NULL;
    return !path || *to;
}

static prom_map_t *collect_process(prom_collector_t *self)
{
    const struct prom_process *process = self->process;
    prom_process_set(process->metrics, process->limits_path, process->stat_path);
    return NULL;
}

static bool add_process_rows(prom_collector_t *collector)
{
    for (size_t row = 0; row < PROM_PROCESS_VALUES; row++) {
        if (!process_rows[row].name)
            continue;
        struct metric_desc desc = {.name = process_rows[row].name,
                                   .unit = process_rows[row].unit,
                                   .help = process_rows[row].help,
                                   .type = process_rows[row].type};
        prom_metric_t *metric = prom_metric_make(&desc, 0, NULL);
        if (!metric)
            return false;
        if (prom_collector_add_metric(collector, metric) != 0) {
            prom_metric_destroy(metric);
            return false;
        }
        collector->process->metrics[row] = metric;
    }
    return true;
}

prom_collector_t *prom_collector_process_new(const char *limits_path, const char *stat_path)
{
    prom_collector_t *collector = prom_collector_new("process");
    if (!collector)
        return NULL;
    collector->process = calloc(1, sizeof *collector->process);
    if (collector->process && copy_path(&collector->process->limits_path, limits_path) &&
        copy_path(&collector->process->stat_path, stat_path) && add_process_rows(collector) &&
        prom_collector_set_collect_fn(collector, collect_process) == 0)
        return collector;
    prom_fail("out of memory (process)");
    prom_collector_destroy(collector);
    return NULL;
}
