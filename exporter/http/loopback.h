/* SPDX-License-Identifier: Apache-2.0 */
/* loopback.h - whether an address is reached from this machine alone. */
#ifndef EXPORTER_HTTP_LOOPBACK_H
#define EXPORTER_HTTP_LOOPBACK_H

#include <stdbool.h>

struct sockaddr;

/* Of either family, IPv4 within IPv6 included; unix sockets are local too. */
bool exporter_is_loopback(const struct sockaddr *address);

#endif
