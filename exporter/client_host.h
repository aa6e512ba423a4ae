/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_host.h - the handoff client as the daemon hosts it: opened from options and configuration,
 * one of its loops on each loop of the API, its events told to the collectors and to what remembers
 * the last failures.
 */
#ifndef EXPORTER_CLIENT_HOST_H
#define EXPORTER_CLIENT_HOST_H

#include <stdbool.h>

#include "client/handoff.h"
#include "collectors/collectors.h"
#include "exporter/config/config.h"
#include "exporter/error.h"
#include "exporter/http/listeners.h"
#include "exporter/options.h"
#include "exporter/status/failures.h"
#include "lib/base/loop.h"

struct exporter_client_host;

/* The functions below on the control thread, except where it says otherwise. */

/* Opens the store, the spine and the tokenizer; deliveries may have so many connections at once.
 * NULL with `error` filled. The collectors are lent. */
struct exporter_client_host *exporter_client_host_open(const struct exporter_options *options,
                                                       const struct exporter_config *config,
                                                       unsigned connections_max,
                                                       struct collectors *collectors,
                                                       struct exporter_error *error);

/* Puts a loop of the client on every loop of the listeners, which do not run yet. */
bool exporter_client_host_attach(struct exporter_client_host *client_host,
                                 struct exporter_listeners *listeners,
                                 struct exporter_error *error);

/* Takes up what was under way when the last process ended. After attach, before the listeners
 * starts.
 */
bool exporter_client_host_resume(struct exporter_client_host *client_host,
                                 struct exporter_error *error);

/* Applies the agents and limits of a configuration, or leaves all as it was. */
bool exporter_client_host_configure(struct exporter_client_host *client_host,
                                    const struct exporter_config *config,
                                    struct exporter_error *error);

/* The listeners' threads have ended: waits for what they asked, and takes the client's loops off.
 */
void exporter_client_host_detach(struct exporter_client_host *client_host);
void exporter_client_host_close(struct exporter_client_host **closing);

/* Any thread. */
struct handoff_client *exporter_client_host_client(struct exporter_client_host *client_host);
struct exporter_failures *exporter_client_host_failures(struct exporter_client_host *client_host);
/* The daemon ran out of something itself: counted and logged as where the client did. NONE is not.
 */
void exporter_client_host_ran_short(struct exporter_client_host *client_host,
                                    enum handoff_shortage resource, const char *hindered);
/* The client's loop that runs on this one; never NULL for a loop of the listeners. On its thread.
 */
struct handoff_loop *exporter_client_host_loop(struct exporter_client_host *client_host,
                                               const struct base_loop *loop);

#endif
