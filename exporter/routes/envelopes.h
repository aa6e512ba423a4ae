/* SPDX-License-Identifier: Apache-2.0 */
/* envelopes.h - envelopes over the agent API. Context: struct exporter_hosting. */
#ifndef EXPORTER_ROUTES_ENVELOPES_H
#define EXPORTER_ROUTES_ENVELOPES_H

#include "exporter/http/http.h"

/* POST /v1/envelopes: assembles and stores, delivers nothing. */
void exporter_route_assemble(struct exporter_request *request, void *context);

/* GET /v1/handoffs/{id}/envelope */
void exporter_route_envelope(struct exporter_request *request, void *context);

#endif
