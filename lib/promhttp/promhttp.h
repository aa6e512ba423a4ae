/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promhttp.h - serves a registry of prom.h over HTTP, with libmicrohttpd: -lpromhttp -lprom, or
 * pkg-config promhttp.
 *
 * GET and HEAD of /metrics answer in the format that the client asks for: text 0.0.4, OpenMetrics
 * 1.0, protobuf with native histograms, and OpenMetrics 2.0 (experimental) if it asks for
 * version=2.0.0; compressed if it accepts gzip. The answer is made while it is sent. At most 16
 * scrapes are served at once: a further one takes the place of the client that reads most slowly,
 * if that has taken more than 10 seconds, and otherwise gets 503. GET of / answers "OK". Everything
 * else is 404 or 405.
 */
#ifndef PROMHTTP_H
#define PROMHTTP_H

#include <microhttpd.h>
#include <string.h> /* programs rely on it */

#include "prom_collector_registry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which registry is served from now on, by all daemons; NULL: the default one, as at the start. At
 * any time and from any thread: answers that have begun end with the registry that they began with.
 * Once the registry that is served was destroyed, /metrics answers 503 until you choose another
 * one, or NULL. */
void promhttp_set_active_collector_registry(prom_collector_registry_t *active_registry);

/*
 * Starts a daemon that the caller stops with MHD_stop_daemon. The arguments are those of
 * MHD_start_daemon: `flags` must include a way to run (MHD_USE_INTERNAL_POLLING_THREAD, with or
 * without MHD_USE_THREAD_PER_CONNECTION, or none, and the program calls MHD_run). `apc` decides who
 * may connect; NULL: anyone. NULL: libmicrohttpd could not start, for example because the port is
 * taken.
 */
struct MHD_Daemon *promhttp_start_daemon(unsigned int flags, unsigned short port,
                                         MHD_AcceptPolicyCallback apc, void *apc_cls);

#ifdef __cplusplus
}
#endif

#endif
