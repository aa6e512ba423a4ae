/* SPDX-License-Identifier: Apache-2.0 */
/* handoffs.h - handoffs over HTTP: sent, looked at, answered for, decided about; and pulled.
 */
#ifndef EXPORTER_ROUTES_HANDOFFS_H
#define EXPORTER_ROUTES_HANDOFFS_H

#include "exporter/http/router.h"

/* The context of each is the hosting. */
exporter_handler exporter_route_send;
exporter_handler exporter_route_handoff;
exporter_handler exporter_route_attempts;
exporter_handler exporter_route_ack;
exporter_handler exporter_route_nack;
exporter_handler exporter_route_extend;
exporter_handler exporter_route_task;
exporter_handler exporter_route_complete;
exporter_handler exporter_route_parked;
exporter_handler exporter_route_replay;
exporter_handler exporter_route_discard;
exporter_handler exporter_route_agents;
exporter_handler exporter_route_reset;
exporter_handler exporter_route_inbox;

#endif
