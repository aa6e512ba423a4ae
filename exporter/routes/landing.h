/* SPDX-License-Identifier: Apache-2.0 */
/* landing.h - the status page at "/". Context: struct exporter_landing. */
#ifndef EXPORTER_ROUTES_LANDING_H
#define EXPORTER_ROUTES_LANDING_H

#include "exporter/http/http.h"
#include "exporter/status/status_page.h"

struct exporter_lifecycle;
struct exporter_client_host;

struct exporter_landing {
    const char *telemetry_path;
    struct exporter_lifecycle *lifecycle;
    struct exporter_client_host *client_host;
    char policy[EXPORTER_PAGE_POLICY_SIZE];
};

/* The page; ?format=json the same for programs. */
void exporter_route_landing(struct exporter_request *request, void *context);

#endif
