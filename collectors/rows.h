/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of metrics.def as an index, for the collectors among themselves. */
#ifndef COLLECTORS_ROWS_H
#define COLLECTORS_ROWS_H

#include "collectors/metric.h"

enum collectors_row {
#define METRIC(symbol, ...) COLLECTORS_##symbol,
#include "collectors/metrics.def"
    COLLECTORS_ROWS,
};

#define COLLECTORS_MAGIC 0x6d636f01u

struct collectors {
    unsigned magic;
    struct metric_registry *registry;
    struct metric_family *families[COLLECTORS_ROWS];
    struct metric_series *single[COLLECTORS_ROWS]; /* the series of a row without labels */
    bool start_known; /* process_start_time_seconds is set; under the lock of the hooks */
};

/* The hook that reads process_*. Sets what it can read and leaves the rest as it was. */
void collectors_process_read(void *arg);

#endif
