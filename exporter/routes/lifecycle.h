/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle.h - /-/healthy, /-/ready and /-/reload. Context: struct exporter_lifecycle. */
#ifndef EXPORTER_ROUTES_LIFECYCLE_H
#define EXPORTER_ROUTES_LIFECYCLE_H

#include "exporter/http/http.h"

/* 200 as long as the process can answer at all. */
void exporter_route_healthy(struct exporter_request *request, void *context);
/* 200 while new work is taken, 503 from the first signal to stop. */
void exporter_route_ready(struct exporter_request *request, void *context);
/* 200 when the new configuration is in use, 500 with the reason when the old one stays. */
void exporter_route_reload(struct exporter_request *request, void *context);

#endif
