/* SPDX-License-Identifier: Apache-2.0 */
/* memories.h - the embedded spine over the agent API. Context: struct exporter_hosting. */
#ifndef EXPORTER_ROUTES_MEMORIES_H
#define EXPORTER_ROUTES_MEMORIES_H

#include "exporter/http/http.h"

/* PUT, GET and DELETE /v1/memories/{id}: 201 or 200, 200, 204 */
void exporter_route_memory_put(struct exporter_request *request, void *context);
void exporter_route_memory_get(struct exporter_request *request, void *context);
void exporter_route_memory_delete(struct exporter_request *request, void *context);

/* PUT and DELETE /v1/memories/{id}/pin */
void exporter_route_memory_pin(struct exporter_request *request, void *context);
void exporter_route_memory_unpin(struct exporter_request *request, void *context);

/* GET /v1/memories?query=&recent=&pinned=&limit=&cursor= */
void exporter_route_memory_list(struct exporter_request *request, void *context);

#endif
