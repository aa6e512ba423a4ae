/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web_config.h - the current web configuration: TLS, users, headers and the rate limit of the web
 * listener, taken anew when its files change.
 *
 * Threads: opened on the control thread before the web loop starts; from then on the web loop's.
 */
#ifndef EXPORTER_CONFIG_WEB_CONFIG_H
#define EXPORTER_CONFIG_WEB_CONFIG_H

#include <gnutls/gnutls.h>
#include <stdbool.h>

#include "exporter/access/basic_auth.h"
#include "exporter/config/web_settings.h"
#include "exporter/error.h"
#include "exporter/http/tls.h"

struct exporter_web_config;

/* NULL with `error` filled. The path is lent. */
struct exporter_web_config *exporter_web_config_open(const char *path,
                                                     struct exporter_error *error);
/* Ends the thread that checks passwords; what it was doing is settled on the loops that asked. */
void exporter_web_config_stop(struct exporter_web_config *web_config);
void exporter_web_config_free(struct exporter_web_config **web_config);

/* Whether the listener speaks TLS: decided once, when it starts. */
bool exporter_web_config_has_tls(const struct exporter_web_config *web_config);

/* Looks for changed files, at most once a second. A file that cannot be used changes nothing: the
 * log tells, and the previous one stays. */
void exporter_web_config_refresh(struct exporter_web_config *web_config);

/* In force until the next refresh. */
const struct exporter_web_settings *
exporter_web_config_settings(const struct exporter_web_config *web_config);
/* NULL without TLS. */
struct exporter_tls *exporter_web_config_tls(const struct exporter_web_config *web_config);
struct exporter_basic_auth *
exporter_web_config_basic_auth(const struct exporter_web_config *web_config);

/* Takes one request's worth of the rate limit; false: too many. */
bool exporter_web_config_admit(struct exporter_web_config *web_config);

#endif
