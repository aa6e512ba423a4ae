/* SPDX-License-Identifier: Apache-2.0 */
/* route_envelopes.h - envelopes over the agent API. Context: struct exporter_hosting. */
#ifndef EXPORTER_ROUTE_ENVELOPES_H
#define EXPORTER_ROUTE_ENVELOPES_H

#include "exporter/http.h"

/* POST /v1/envelopes: assembles and stores, delivers nothing. */
void exporter_route_assemble(struct exporter_request *request, void *context);

/* GET /v1/handoffs/{id}/envelope */
void exporter_route_envelope(struct exporter_request *request, void *context);

#endif
