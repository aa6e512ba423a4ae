/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS of the web listener.
 *
 * libmicrohttpd keeps one set of credentials for the life of its daemon. So it is given none, and
 * each session gets ours when its connection begins, before the handshake: certificate, trust list,
 * priorities, and whether a client certificate is asked for. The client's certificate is checked
 * within the handshake, so a client that is refused never reaches HTTP.
 */
#include "exporter/http/tls.h"

#include <arpa/inet.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exporter/config/config_internal.h"
#include "exporter/http/tls_priority.h"
#include "lib/base/check.h"

enum { TLS_MAGIC = 0x7150c4ed };

struct exporter_tls {
    unsigned magic;
    unsigned references;
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    enum exporter_client_auth client_auth;
    char **sans; /* those of which a client certificate must have one */
    size_t nsans;
};

/* ---- the client's certificate --------------------------------------------------------------- */

/* A name of a certificate as text; "" where it is of a kind that cannot be compared. */
static void san_text(unsigned type, const unsigned char *data, size_t size, char *text, size_t room)
{
    text[0] = '\0';
    if (type == GNUTLS_SAN_IPADDRESS)
        inet_ntop(size == 4 ? AF_INET : AF_INET6, data, text, (socklen_t)room);
    else if (type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_RFC822NAME ||
             type == GNUTLS_SAN_URI) {
        if (size < room && memchr(data, '\0', size) == NULL) {
            memcpy(text, data, size);
            text[size] = '\0';
        }
    }
}

static bool is_allowed_san(const struct exporter_tls *tls, const char *text)
{
    for (size_t i = 0; i < tls->nsans; i++) {
        if (text[0] != '\0' && strcasecmp(text, tls->sans[i]) == 0)
            return true;
    }
    return false;
}

static bool has_allowed_san(const struct exporter_tls *tls, gnutls_x509_crt_t certificate)
{
    for (unsigned i = 0;; i++) {
        unsigned char data[512];
        char text[512];
        size_t size = sizeof data;
        unsigned type;
        int result =
            gnutls_x509_crt_get_subject_alt_name2(certificate, i, data, &size, &type, NULL);
        if (result == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return false;
        if (result == GNUTLS_E_SHORT_MEMORY_BUFFER)
            continue; /* longer than any name that could be allowed */
        if (result < 0)
            return false;
        san_text(type, data, size, text, sizeof text);
        if (is_allowed_san(tls, text))
            return true;
    }
}

static bool leaf_is_allowed(const struct exporter_tls *tls, const gnutls_datum_t *leaf)
{
    gnutls_x509_crt_t certificate;
    if (tls->nsans == 0)
        return true;
    if (gnutls_x509_crt_init(&certificate) < 0)
        return false;
    const bool allowed = gnutls_x509_crt_import(certificate, leaf, GNUTLS_X509_FMT_DER) >= 0 &&
                         has_allowed_san(tls, certificate);
    gnutls_x509_crt_deinit(certificate);
    return allowed;
}

/* Called within the handshake; anything but 0 ends it. */
static int verify_client(gnutls_session_t session)
{
    const struct exporter_tls *tls = gnutls_db_get_ptr(session);
    BASE_CHECK_MAGIC(tls, TLS_MAGIC);
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    if (tls->client_auth != EXPORTER_CLIENT_VERIFY_IF_GIVEN &&
        tls->client_auth != EXPORTER_CLIENT_VERIFY)
        return 0; /* whatever it is; where one is required, GnuTLS has seen to it */
    if (count == 0)
        return tls->client_auth == EXPORTER_CLIENT_VERIFY ? -1 : 0;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned status;
    if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) < 0 || status != 0)
        return -1;
    return leaf_is_allowed(tls, &chain[0]) ? 0 : -1;
}

struct exporter_tls *exporter_tls_attach(struct exporter_tls *tls, gnutls_session_t session)
{
    static const gnutls_certificate_request_t requests[] = {
        [EXPORTER_CLIENT_NONE] = GNUTLS_CERT_IGNORE,
        [EXPORTER_CLIENT_REQUEST] = GNUTLS_CERT_REQUEST,
        [EXPORTER_CLIENT_REQUIRE_ANY] = GNUTLS_CERT_REQUIRE,
        [EXPORTER_CLIENT_VERIFY_IF_GIVEN] = GNUTLS_CERT_REQUEST,
        [EXPORTER_CLIENT_VERIFY] = GNUTLS_CERT_REQUIRE,
    };
    BASE_CHECK_MAGIC(tls, TLS_MAGIC);
    if (gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials) < 0 ||
        gnutls_priority_set(session, tls->priority) < 0)
        return NULL;
    gnutls_certificate_server_set_request(session, requests[tls->client_auth]);
    /* The session's own pointer is libmicrohttpd's. This one belongs to the store of resumable
     * sessions, which is not used, and is how verify_client() finds us. */
    gnutls_db_set_ptr(session, tls);
    tls->references++;
    return tls;
}

/* ---- making --------------------------------------------------------------------------------- */

/* What a PEM setting holds; given back, and wiped, by free_pem(). */
static bool read_pem(const struct exporter_pem *pem, gnutls_datum_t *datum,
                     struct exporter_error *error)
{
    size_t length = pem->text != NULL ? strlen(pem->text) : 0;
    char *bytes = NULL;
    if (pem->text == NULL)
        bytes = exporter_config_slurp(pem->file, &length, error);
    else if ((bytes = strdup(pem->text)) == NULL)
        exporter_error_set(error, "out of memory");
    *datum = (gnutls_datum_t){(unsigned char *)bytes, (unsigned)length};
    return bytes != NULL;
}

static void free_pem(gnutls_datum_t *datum)
{
    if (datum->data != NULL)
        explicit_bzero(datum->data, datum->size);
    free(datum->data);
}

static const char *pem_name(const struct exporter_pem *pem, const char *inline_name)
{
    return pem->file != NULL ? pem->file : inline_name;
}

static bool set_certificate(struct exporter_tls *tls, const struct exporter_web_tls *settings,
                            struct exporter_error *error)
{
    gnutls_datum_t certificate = {NULL, 0};
    gnutls_datum_t key = {NULL, 0};
    int result = -1;
    if (read_pem(&settings->cert, &certificate, error) && read_pem(&settings->key, &key, error)) {
        result = gnutls_certificate_set_x509_key_mem(tls->credentials, &certificate, &key,
                                                     GNUTLS_X509_FMT_PEM);
        if (result < 0)
            exporter_error_set(error, "%s and %s are not a certificate and its key: %s",
                               pem_name(&settings->cert, "cert"), pem_name(&settings->key, "key"),
                               gnutls_strerror(result));
    }
    free_pem(&certificate);
    free_pem(&key);
    return result >= 0;
}

static bool set_trust(struct exporter_tls *tls, const struct exporter_web_tls *settings,
                      struct exporter_error *error)
{
    gnutls_datum_t ca;
    if (settings->client_ca.text == NULL && settings->client_ca.file == NULL)
        return true;
    if (!read_pem(&settings->client_ca, &ca, error))
        return false;
    int result = gnutls_certificate_set_x509_trust_mem(tls->credentials, &ca, GNUTLS_X509_FMT_PEM);
    free_pem(&ca);
    if (result <= 0)
        exporter_error_set(error, "%s contains no CA certificate: %s",
                           pem_name(&settings->client_ca, "client_ca"),
                           result < 0 ? gnutls_strerror(result) : "it is empty");
    return result > 0;
}

static bool set_priority(struct exporter_tls *tls, const struct exporter_web_tls *settings,
                         struct exporter_error *error)
{
    char priority[EXPORTER_TLS_PRIORITY_MAX];
    if (!exporter_tls_priority(settings, priority, error))
        return false;
    int result = gnutls_priority_init(&tls->priority, priority, NULL);
    if (result < 0)
        exporter_error_set(error,
                           "GnuTLS rejects the configured versions, cipher suites and curves: %s",
                           gnutls_strerror(result));
    return result >= 0;
}

static bool copy_sans(struct exporter_tls *tls, const struct exporter_web_tls *settings,
                      struct exporter_error *error)
{
    if (settings->nclient_allowed_sans == 0)
        return true;
    tls->sans = calloc(settings->nclient_allowed_sans, sizeof *tls->sans);
    while (tls->sans != NULL && tls->nsans < settings->nclient_allowed_sans) {
        char *copy = strdup(settings->client_allowed_sans[tls->nsans]);
        if (copy == NULL)
            break;
        tls->sans[tls->nsans++] = copy;
    }
    if (tls->nsans < settings->nclient_allowed_sans)
        exporter_error_set(error, "out of memory");
    return tls->nsans == settings->nclient_allowed_sans;
}

static void tls_free(struct exporter_tls *tls)
{
    if (tls->credentials != NULL)
        gnutls_certificate_free_credentials(tls->credentials);
    if (tls->priority != NULL)
        gnutls_priority_deinit(tls->priority);
    for (size_t i = 0; i < tls->nsans; i++)
        free(tls->sans[i]);
    free(tls->sans);
    tls->magic = 0;
    free(tls);
}

struct exporter_tls *exporter_tls_new(const struct exporter_web_tls *settings,
                                      struct exporter_error *error)
{
    struct exporter_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL || gnutls_certificate_allocate_credentials(&tls->credentials) < 0) {
        exporter_error_set(error, "out of memory");
        free(tls);
        return NULL;
    }
    tls->magic = TLS_MAGIC;
    tls->references = 1;
    tls->client_auth = settings->client_auth;
    if (!set_certificate(tls, settings, error) || !set_trust(tls, settings, error) ||
        !set_priority(tls, settings, error) || !copy_sans(tls, settings, error)) {
        tls_free(tls);
        return NULL;
    }
    gnutls_certificate_set_verify_function(tls->credentials, verify_client);
    return tls;
}

void exporter_tls_unref(struct exporter_tls **tls_pointer)
{
    struct exporter_tls *tls = *tls_pointer;
    if (tls == NULL)
        return;
    *tls_pointer = NULL;
    BASE_CHECK_MAGIC(tls, TLS_MAGIC);
    BASE_CHECK(tls->references > 0);
    if (--tls->references == 0)
        tls_free(tls);
}
