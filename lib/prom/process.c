/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector of the process, with the names that every client library of Prometheus uses. Its
 * function runs at each scrape, on the thread that scrapes.
 */
#include "lib/prom/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/metrics/family.h"
#include "lib/prom/internal.h"
#include "lib/prom/process_reading.h"
#include "lib/prom/prom_gauge.h"

enum process_row {
    PROCESS_CPU,
    PROCESS_START,
    PROCESS_VIRTUAL,
    PROCESS_VIRTUAL_MOST,
    PROCESS_RESIDENT,
    PROCESS_OPEN_FDS,
    PROCESS_MOST_FDS,
    PROCESS_THREADS,
    PROCESS_ROWS,
};

static const struct {
    const char *name, *unit, *help;
    enum metric_type type;
} process_rows[PROCESS_ROWS] = {
    [PROCESS_CPU] = {"process_cpu_seconds_total", "seconds",
                     "User and system CPU time of the process.", METRIC_COUNTER},
    [PROCESS_START] = {"process_start_time_seconds", "seconds",
                       "When the process was started, since 1970.", METRIC_GAUGE},
    [PROCESS_VIRTUAL] = {"process_virtual_memory_bytes", "bytes", "Size of the address space.",
                         METRIC_GAUGE},
    [PROCESS_VIRTUAL_MOST] = {"process_virtual_memory_max_bytes", "bytes",
                              "Limit of the address space.", METRIC_GAUGE},
    [PROCESS_RESIDENT] = {"process_resident_memory_bytes", "bytes", "Resident memory.",
                          METRIC_GAUGE},
    [PROCESS_OPEN_FDS] = {"process_open_fds", "", "Open file descriptors.", METRIC_GAUGE},
    [PROCESS_MOST_FDS] = {"process_max_fds", "", "Limit of open file descriptors.", METRIC_GAUGE},
    [PROCESS_THREADS] = {"process_threads", "", "Threads of the process.", METRIC_GAUGE},
};

struct prom_process {
    char *limits_path; /* NULL: the kernel's */
    char *stat_path;
    struct metric_series *series[PROCESS_ROWS];
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

/* What could not be read keeps its last value. */
static void set_row(const struct prom_process *process, enum process_row row, double value)
{
    if (isnan(value))
        return;
    if (process_rows[row].type == METRIC_COUNTER)
        metric_mirror(process->series[row], value);
    else
        metric_gauge_set(process->series[row], value);
}

static prom_map_t *collect_process(prom_collector_t *self)
{
    const struct prom_process *process = self->process;
    struct prom_process_reading reading;
    prom_process_read(process->limits_path, process->stat_path, &reading);
    set_row(process, PROCESS_CPU, reading.cpu_seconds);
    set_row(process, PROCESS_START, reading.start_time_seconds);
    set_row(process, PROCESS_VIRTUAL, reading.virtual_bytes);
    set_row(process, PROCESS_VIRTUAL_MOST, reading.virtual_most_bytes);
    set_row(process, PROCESS_RESIDENT, reading.resident_bytes);
    set_row(process, PROCESS_OPEN_FDS, reading.open_fds);
    set_row(process, PROCESS_MOST_FDS, reading.most_fds);
    set_row(process, PROCESS_THREADS, reading.threads);
    return NULL;
}

static bool add_process_rows(prom_collector_t *collector)
{
    for (size_t row = 0; row < PROCESS_ROWS; row++) {
        struct metric_desc desc = {.name = process_rows[row].name,
                                   .unit = process_rows[row].unit,
                                   .help = process_rows[row].help,
                                   .type = process_rows[row].type};
        prom_metric_t *metric = prom_metric_make(&desc, 0, NULL);
        if (!metric)
            return false;
        collector->process->series[row] = metric_resolve(metric->family, NULL);
        if (prom_collector_add_metric(collector, metric) != 0) {
            prom_metric_destroy(metric);
            return false;
        }
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
