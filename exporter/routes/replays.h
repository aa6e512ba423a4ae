/* SPDX-License-Identifier: Apache-2.0 */
/* replays.h - many parked handoffs sent again. The context is the hosting. */
#ifndef EXPORTER_ROUTES_REPLAYS_H
#define EXPORTER_ROUTES_REPLAYS_H

#include "exporter/http/http.h"

void exporter_route_replay_many(struct exporter_request *request, void *context);
void exporter_route_replays(struct exporter_request *request, void *context);
void exporter_route_replay_run(struct exporter_request *request, void *context);
void exporter_route_replay_stop(struct exporter_request *request, void *context);

#endif
