/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h - the driver that posts over plain HTTP/1.1: kept connections, and exchanges of a request
 * for an answer. Declines other URLs.
 */
#ifndef HANDOFF_TRANSPORT_PLAIN_H
#define HANDOFF_TRANSPORT_PLAIN_H

#include "client/transport/transport.h"

extern const struct handoff_transport_driver handoff_plain_driver;

#endif
