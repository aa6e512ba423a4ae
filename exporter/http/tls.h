/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h - certificate, key, trusted CAs and priorities as one object that sessions share.
 *
 * The object never changes. When files rotate, a new one takes its place for sessions to come, and
 * the old one lives as long as a session holds a reference. One thread: the web loop's.
 */
#ifndef EXPORTER_HTTP_TLS_H
#define EXPORTER_HTTP_TLS_H

#include <gnutls/gnutls.h>

#include "exporter/config/web_settings.h"
#include "exporter/error.h"

struct exporter_tls;

/* Reads the files. NULL with `error` filled; else the caller owns one reference. */
struct exporter_tls *exporter_tls_new(const struct exporter_web_tls *settings,
                                      struct exporter_error *error);
void exporter_tls_unref(struct exporter_tls **tls);

/* Gives a session that has not yet shaken hands these credentials, and answers the reference that
 * has to be given back when the session is over. NULL: out of memory. */
struct exporter_tls *exporter_tls_attach(struct exporter_tls *tls, gnutls_session_t session);

#endif
