/* SPDX-License-Identifier: Apache-2.0 */
/* observations.h - POST /v1/observations: handoffs that agents made by themselves. */
#ifndef EXPORTER_ROUTES_OBSERVATIONS_H
#define EXPORTER_ROUTES_OBSERVATIONS_H

#include "exporter/http/router.h"

/* The context is the hosting. */
exporter_handler exporter_route_observe;

#endif
