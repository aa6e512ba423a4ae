/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom.h - metrics for Prometheus in C, by the interface of prometheus-client-c.
 *
 * Programs written for that library compile and link unchanged: -lprom, or pkg-config prom. The
 * code is another: it is the core of metric.h, which programs may use beside it. docs/prom.md says
 * how to begin, how to move, what differs and what it costs.
 *
 * Functions that return int return 0 if they did what they say. Any pointer to a metric, collector
 * or registry may be NULL: then they do nothing and return non-zero, but for _destroy, which
 * returns 0. Each header says who owns what.
 */
#ifndef PROM_H
#define PROM_H

#include "prom_alloc.h"
#include "prom_collector.h"
#include "prom_collector_registry.h"
#include "prom_counter.h"
#include "prom_error.h"
#include "prom_gauge.h"
#include "prom_histogram.h"
#include "prom_histogram_buckets.h"
#include "prom_linked_list.h"
#include "prom_map.h"
#include "prom_metric.h"
#include "prom_metric_sample.h"
#include "prom_metric_sample_histogram.h"
#include "prom_scrape.h"

#endif
