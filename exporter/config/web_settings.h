/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web_settings.h - what a web configuration file says: exporter-toolkit's format, so that one file
 * serves every exporter of a machine.
 *
 * Settings never change after they were loaded. web_config.h has the live side.
 */
#ifndef EXPORTER_CONFIG_WEB_SETTINGS_H
#define EXPORTER_CONFIG_WEB_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exporter/error.h"
#include "exporter/http/http.h"
#include "lib/base/arena.h"

enum exporter_client_auth {
    EXPORTER_CLIENT_NONE,            /* NoClientCert */
    EXPORTER_CLIENT_REQUEST,         /* RequestClientCert: ask, take any or none */
    EXPORTER_CLIENT_REQUIRE_ANY,     /* RequireAnyClientCert: some certificate, unchecked */
    EXPORTER_CLIENT_VERIFY_IF_GIVEN, /* VerifyClientCertIfGiven */
    EXPORTER_CLIENT_VERIFY,          /* RequireAndVerifyClientCert */
};

enum exporter_tls_version { EXPORTER_TLS12, EXPORTER_TLS13 };

/* Exactly one of text and file is set where the thing is given at all. */
struct exporter_pem {
    const char *text;
    const char *file;
};

struct exporter_web_tls {
    bool given;
    struct exporter_pem cert;
    struct exporter_pem key;
    struct exporter_pem client_ca;
    unsigned client_auth; /* enum exporter_client_auth */
    const char *const *client_allowed_sans;
    size_t nclient_allowed_sans;
    unsigned min_version; /* enum exporter_tls_version */
    unsigned max_version;
    unsigned cipher_suites; /* bits, in the order of exporter_tls_suites; 0: GnuTLS's own choice */
    unsigned curves;        /* likewise, exporter_tls_curves */
    bool prefer_server_cipher_suites;
};

enum { EXPORTER_WEB_HEADERS_MAX = 5 };

struct exporter_web_user {
    const char *name;
    const char *hash; /* bcrypt */
};

struct exporter_web_settings {
    struct base_arena arena; /* all strings and lists */
    struct exporter_web_tls tls;
    bool http2; /* read, and of no effect: HTTP/1.1 is spoken */
    struct exporter_header headers[EXPORTER_WEB_HEADERS_MAX];
    size_t nheaders;
    const struct exporter_web_user *users;
    size_t nusers;
    unsigned bcrypt_cost; /* the greatest of all users' */
    struct {
        uint64_t interval_ms; /* between two requests, once the burst is used; 0: no limit */
        uint32_t burst;
    } rate_limit;
};

/* NULL with `error` filled. Files that the settings name must be readable. */
struct exporter_web_settings *exporter_web_settings_load(const char *path,
                                                         struct exporter_error *error);
/* The same from memory; `name` is the file in errors, and gives the directory. */
struct exporter_web_settings *exporter_web_settings_load_memory(const char *name, const char *text,
                                                                size_t length,
                                                                struct exporter_error *error);
void exporter_web_settings_free(struct exporter_web_settings **settings);

#endif
