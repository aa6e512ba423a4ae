/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery_log.h - what an operator looks for in the log after a page: which handoff was parked and
 * why, which circuit opened, which task ran into the hop limit. Names and ids only; what was handed
 * over and what agents said about it stays out of the log.
 */
#ifndef EXPORTER_LOG_DELIVERY_LOG_H
#define EXPORTER_LOG_DELIVERY_LOG_H

#include "client/handoff.h"

/* Writes a line where the event is worth one. Any thread. */
void exporter_delivery_log(const struct handoff_event *event);

#endif
