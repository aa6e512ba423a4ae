/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - the scrape. Context: struct exporter_metrics_page. */
#ifndef EXPORTER_ROUTES_METRICS_H
#define EXPORTER_ROUTES_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "collectors/collectors.h"
#include "exporter/http/http.h"
#include "exporter/http/slots.h"

struct exporter_metrics_page {
    struct collectors *collectors; /* lent */
    /* written by a reload, read by the web loop */
    atomic_uint scrapes_max; /* at once */
    atomic_bool created;     /* OpenMetrics: X_created lines */
    /* the web loop's own */
    struct exporter_slots slots;
};

void exporter_route_metrics(struct exporter_request *request, void *context);

#endif
