/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_priority.h - which TLS versions, cipher suites and curves, from the names that Go gave them
 * to the priority string that GnuTLS takes.
 */
#ifndef EXPORTER_HTTP_TLS_PRIORITY_H
#define EXPORTER_HTTP_TLS_PRIORITY_H

#include <stdbool.h>

#include "exporter/config/web_settings.h"
#include "exporter/error.h"

/* Choices of the configuration; the n-th name is bit n. Suites with CBC, RSA key exchange or 3DES
 * are not offered, as in Go's own list of secure ones. */
#define EXPORTER_TLS_SUITES                                                                        \
    "TLS_AES_128_GCM_SHA256|TLS_AES_256_GCM_SHA384|TLS_CHACHA20_POLY1305_SHA256|"                  \
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256|TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384|"             \
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256|TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256|"         \
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384|TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
#define EXPORTER_TLS_CURVES "CurveP256|CurveP384|CurveP521|X25519"

enum { EXPORTER_TLS_PRIORITY_MAX = 512 };

/* false where GnuTLS cannot do what was asked for; the error names the key and what would do. */
bool exporter_tls_priority(const struct exporter_web_tls *tls,
                           char priority[EXPORTER_TLS_PRIORITY_MAX], struct exporter_error *error);

#endif
