/* SPDX-License-Identifier: Apache-2.0 */
/* route_landing.h - the page at "/". Context: struct exporter_landing. */
#ifndef EXPORTER_ROUTE_LANDING_H
#define EXPORTER_ROUTE_LANDING_H

#include "exporter/http.h"

struct exporter_landing {
    const char *telemetry_path;
};

void exporter_route_landing(struct exporter_request *request, void *context);

#endif
