/* SPDX-License-Identifier: Apache-2.0 */
/* runbooks.h - the runbooks at "/runbooks". Context: struct exporter_landing. */
#ifndef EXPORTER_ROUTES_RUNBOOKS_H
#define EXPORTER_ROUTES_RUNBOOKS_H

#include "exporter/http/http.h"

/* The list of runbooks. */
void exporter_route_runbooks(struct exporter_request *request, void *context);
/* The one that the path names, with or without ".md", so that `runbookBaseUrl` can lead here. */
void exporter_route_runbook(struct exporter_request *request, void *context);

#endif
