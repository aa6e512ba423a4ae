/* SPDX-License-Identifier: Apache-2.0 */
/* route_observations.h - POST /v1/observations: handoffs that agents made by themselves. */
#ifndef EXPORTER_ROUTE_OBSERVATIONS_H
#define EXPORTER_ROUTE_OBSERVATIONS_H

#include "exporter/router.h"

/* The context is the hosting. */
exporter_handler exporter_route_observe;

#endif
