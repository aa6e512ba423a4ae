/* SPDX-License-Identifier: Apache-2.0 */
/* The web configuration file: what it means, and one bad file for each rule, with its message. */
#include <gnutls/gnutls.h>
#include <string.h>

#include "exporter/access/basic_auth.h"
#include "exporter/config/web_settings.h"
#include "exporter/http/tls_priority.h"
#include "tests/support/unit.h"

#define HASH  "$2y$10$abcdefghijklmnopqrstuuJPlPUTg/36J9kgsnIhoVjJ.WAiQMmyO"
#define PAIR  "  cert: c\n  key: k\n"
#define TLS   "tls_server_config:\n" PAIR
#define ECDSA "TLS_ECDHE_ECDSA_WITH_"
#define RSA   "TLS_ECDHE_RSA_WITH_"

static struct exporter_web_settings *load(const char *text, struct exporter_error *error)
{
    return exporter_web_settings_load_memory("web.yml", text, strlen(text), error);
}

static struct exporter_web_settings *load_good(const char *text)
{
    struct exporter_error error;
    struct exporter_web_settings *settings = load(text, &error);
    if (settings == NULL)
        fail_msg("refused: %s", error.text);
    return settings;
}

static void test_a_whole_file(void **state)
{
    (void)state;
    struct exporter_web_settings *settings =
        load_good("tls_server_config:\n"
                  "  cert: |\n    first\n    second\n"
                  "  key: \"k\"\n"
                  "  client_ca: ca\n"
                  "  client_auth_type: RequireAndVerifyClientCert\n"
                  "  client_allowed_sans: [a.example, 10.0.0.1]\n"
                  "  min_version: \"TLS13\"\n"
                  "  max_version: TLS13\n"
                  "  curve_preferences: [X25519, CurveP256]\n"
                  "  prefer_server_cipher_suites: true\n"
                  "http_server_config:\n"
                  "  http2: false\n"
                  "  headers:\n"
                  "    Content-Security-Policy: \"default-src 'self'\"\n"
                  "    X-Frame-Options: sameorigin\n"
                  "    X-Content-Type-Options: nosniff\n"
                  "    X-XSS-Protection: \"1\"\n"
                  "    Strict-Transport-Security: max-age=1\n"
                  "basic_auth_users:\n"
                  "  alice: " HASH "\n"
                  "  bob: $2b$05$abcdefghijklmnopqrstuuJPlPUTg/36J9kgsnIhoVjJ.WAiQMmyO\n"
                  "rate_limit:\n  interval: 1s\n  burst: 20\n");
    assert_true(settings->tls.given);
    assert_string_equal(settings->tls.cert.text, "first\nsecond\n");
    assert_string_equal(settings->tls.key.text, "k");
    assert_null(settings->tls.cert.file);
    assert_int_equal(settings->tls.client_auth, EXPORTER_CLIENT_VERIFY);
    assert_int_equal(settings->tls.nclient_allowed_sans, 2);
    assert_string_equal(settings->tls.client_allowed_sans[1], "10.0.0.1");
    assert_int_equal(settings->tls.min_version, EXPORTER_TLS13);
    assert_int_equal(settings->tls.curves, 1u << 3 | 1u << 0);
    assert_true(settings->tls.prefer_server_cipher_suites);
    assert_int_equal(settings->nheaders, 5);
    assert_string_equal(settings->headers[1].name, "X-Frame-Options");
    assert_string_equal(settings->headers[1].value, "sameorigin");
    assert_int_equal(settings->nusers, 2);
    assert_string_equal(settings->users[0].name, "alice");
    assert_string_equal(settings->users[0].hash, HASH);
    assert_int_equal(settings->bcrypt_cost, 10);
    assert_int_equal(settings->rate_limit.interval_ms, 1000);
    assert_int_equal(settings->rate_limit.burst, 20);
    exporter_web_settings_free(&settings);
    assert_null(settings);
}

static void test_files_that_ask_for_nothing(void **state)
{
    static const char *const empty[] = {
        "",
        "# nothing\n",
        "{}",
        "tls_server_config:\nhttp_server_config:\nbasic_auth_users:\nrate_limit:\n",
        "tls_server_config: {}\nhttp_server_config: {headers: }\nbasic_auth_users: {}\n",
        "rate_limit: {interval: 0s}\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        struct exporter_web_settings *settings = load_good(empty[i]);
        assert_false(settings->tls.given);
        assert_int_equal(settings->nheaders, 0);
        assert_int_equal(settings->nusers, 0);
        assert_int_equal(settings->rate_limit.interval_ms, 0);
        exporter_web_settings_free(&settings);
    }
}

static const struct {
    const char *text;
    const char *error;
} bad_files[] = {
    /* form */
    {"tls_server_config: [", NULL},
    {"- a\n", "web.yml:1:1: saw a list, allowed: keys with values"},
    {"tls_server_config: 1\n",
     "web.yml:1:20: tls_server_config: saw \"1\", allowed: keys with values"},
    {TLS "tls_server_config:\n" PAIR,
     "web.yml:4:1: tls_server_config: given twice, first on line 1"},
    {"? [a]\n: 1\n", "web.yml:1:3: saw a list, allowed: a name before each colon"},
    /* unknown keys */
    {"tls_config:\n" PAIR, "web.yml:1:1: tls_config: unknown key; the file has the format of "
                           "Prometheus' exporter-toolkit"},
    {"basic_auth_user: {}\n",
     "web.yml:1:1: basic_auth_user: unknown key, did you mean basic_auth_users?"},
    {"tls_server_config:\n  certfile: x\n",
     "web.yml:2:3: tls_server_config.certfile: unknown key, did you mean cert_file?"},
    {"http_server_config:\n  headers:\n    X-Frame-Option: deny\n",
     "web.yml:3:5: http_server_config.headers.X-Frame-Option: unknown key, did you mean "
     "X-Frame-Options?"},
    {"http_server_config:\n  headers:\n    Set-Cookie: a\n",
     "web.yml:3:5: http_server_config.headers.Set-Cookie: unknown key; the file has the format of "
     "Prometheus' exporter-toolkit"},
    /* TLS */
    {"tls_server_config:\n  cert_file: nowhere.pem\n",
     "web.yml:2:14: tls_server_config.cert_file: saw \"nowhere.pem\" (No such file or directory), "
     "allowed: the path of a readable file"},
    {"tls_server_config:\n  cert: c\n",
     "web.yml:2:3: tls_server_config: a certificate (cert_file or cert) and its key (key_file or "
     "key) are required"},
    {"tls_server_config:\n  min_version: TLS12\n",
     "web.yml:2:3: tls_server_config: a certificate (cert_file or cert) and its key (key_file or "
     "key) are required"},
    {TLS "  min_version: TLS11\n",
     "web.yml:4:16: tls_server_config.min_version: saw \"TLS11\", allowed: TLS12 or TLS13"},
    {TLS "  min_version: TLS13\n  max_version: TLS12\n",
     "web.yml:2:3: tls_server_config: min_version: TLS13 is above max_version"},
    {TLS "  client_auth_type: Sometimes\n",
     "web.yml:4:21: tls_server_config.client_auth_type: saw \"Sometimes\", allowed: NoClientCert, "
     "RequestClientCert, RequireAnyClientCert, VerifyClientCertIfGiven or "
     "RequireAndVerifyClientCert"},
    {TLS "  client_auth_type: RequireAndVerifyClientCert\n",
     "web.yml:2:3: tls_server_config: client_auth_type verifies certificates, so client_ca_file "
     "(or "
     "client_ca) is required"},
    {TLS "  client_ca: c\n",
     "web.yml:2:3: tls_server_config: client_ca_file has no effect without client_auth_type "
     "RequireAndVerifyClientCert or VerifyClientCertIfGiven"},
    {TLS "  client_allowed_sans: [a]\n",
     "web.yml:2:3: tls_server_config: client_allowed_sans has no effect without client_auth_type "
     "RequireAndVerifyClientCert or VerifyClientCertIfGiven"},
    {TLS "  client_allowed_sans: a\n",
     "web.yml:4:24: tls_server_config.client_allowed_sans: saw \"a\", allowed: a list of names"},
    {TLS "  client_allowed_sans: []\n",
     "web.yml:4:24: tls_server_config.client_allowed_sans: saw a list, allowed: a list of names"},
    {TLS "  client_allowed_sans: [[a]]\n",
     "web.yml:4:25: tls_server_config.client_allowed_sans: saw a list, allowed: text"},
    {TLS "  curve_preferences: [P256]\n", "web.yml:4:23: tls_server_config.curve_preferences: saw "
                                          "\"P256\", allowed: a list of CurveP256, "
                                          "CurveP384, CurveP521 or X25519"},
    {TLS "  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]\n",
     "web.yml:4:19: tls_server_config.cipher_suites: saw \"TLS_RSA_WITH_AES_128_CBC_SHA\", "
     "allowed: a "
     "list of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, " ECDSA
     "AES_128_GCM_SHA256, " ECDSA "AES_256_GCM_SHA384, " ECDSA "CHACHA20_POLY1305_SHA256, " RSA
     "AES_128_GCM_SHA256, " RSA "AES_256_GCM_SHA384 or " RSA "CHACHA20_POLY1305_SHA256"},
    {TLS "  cipher_suites: [" ECDSA "AES_128_GCM_SHA256, " RSA "AES_256_GCM_SHA384]\n",
     "web.yml:2:3: tls_server_config: cipher_suites: GnuTLS would allow " ECDSA
     "AES_256_GCM_SHA384 as well, because it selects ciphers and key exchanges separately; add it, "
     "or "
     "change the list"},
    {TLS "  cipher_suites: [TLS_AES_256_GCM_SHA384, " ECDSA "AES_128_GCM_SHA256]\n",
     "web.yml:2:3: tls_server_config: cipher_suites: GnuTLS would allow " ECDSA
     "AES_256_GCM_SHA384 as well, because it selects ciphers and key exchanges separately; add it, "
     "or "
     "change the list"},
    {TLS "  cipher_suites: [TLS_AES_256_GCM_SHA384]\n  max_version: TLS12\n",
     "web.yml:2:3: tls_server_config: cipher_suites: no suite for TLS 1.2, which max_version "
     "requires"},
    {TLS "  prefer_server_cipher_suites: maybe\n",
     "web.yml:4:32: tls_server_config.prefer_server_cipher_suites: saw \"maybe\", allowed: true or "
     "false"},
    /* headers */
    {"http_server_config: {headers: {X-Frame-Options: allow}}\n",
     "web.yml:1:49: http_server_config.headers.X-Frame-Options: saw \"allow\", allowed: deny or "
     "sameorigin"},
    {"http_server_config: {headers: {X-Content-Type-Options: sniff}}\n",
     "web.yml:1:56: http_server_config.headers.X-Content-Type-Options: saw \"sniff\", allowed: "
     "nosniff"},
    {"http_server_config: {headers: {X-XSS-Protection: \"1\\r\\nSet-Cookie: a\"}}\n",
     "web.yml:1:50: http_server_config.headers.X-XSS-Protection: saw \"1\\x0D\\x0ASet-Cookie: a\", "
     "allowed: text without control characters"},
    {"http_server_config: {headers: {X-XSS-Protection: [a]}}\n",
     "web.yml:1:50: http_server_config.headers.X-XSS-Protection: saw a list, allowed: text"},
    /* users; a hash never shows */
    {"basic_auth_users: {alice: secret}\n",
     "web.yml:1:27: basic_auth_users.alice: allowed: a bcrypt hash ($2y$...) of cost 4 to 15, as "
     "htpasswd -nBC 10 \"\" prints it"},
    {"basic_auth_users: {alice: $2y$16$abcdefghijklmnopqrstuuJPlPUTg/36J9kgsnIhoVjJ.WAiQMmyO}\n",
     "web.yml:1:27: basic_auth_users.alice: allowed: a bcrypt hash ($2y$...) of cost 4 to 15, as "
     "htpasswd -nBC 10 \"\" prints it"},
    {"basic_auth_users: {alice: "
     "$6$rounds=5000$abcdefghijklmnop$abcdefghijklmnopqrstuvwxyzabcdefghi}\n",
     "web.yml:1:27: basic_auth_users.alice: allowed: a bcrypt hash ($2y$...) of cost 4 to 15, as "
     "htpasswd -nBC 10 \"\" prints it"},
    {"basic_auth_users: {\"a:b\": " HASH "}\n",
     "web.yml:1:20: basic_auth_users.\"a:b\": allowed: a user name without a colon"},
    {"basic_auth_users: {alice: " HASH ", alice: " HASH "}\n",
     "web.yml:1:89: basic_auth_users.alice: given twice, first on line 1"},
    /* rate limit */
    {"rate_limit: {interval: 1s}\n", "web.yml:1:13: rate_limit: burst must be at least 1 if "
                                     "interval is set; otherwise every request would be rejected"},
    {"rate_limit: {interval: fast, burst: 1}\n", "web.yml:1:24: rate_limit.interval: saw \"fast\", "
                                                 "allowed: a duration from 0s to 1h such as 1s"},
    {"rate_limit: {interval: 1s, burst: -1}\n",
     "web.yml:1:35: rate_limit.burst: saw \"-1\", allowed: a whole number from 0 to 1000000"},
};

static void test_bad_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        struct exporter_error error = {""};
        struct exporter_web_settings *settings = load(bad_files[i].text, &error);
        if (settings != NULL)
            fail_msg("taken: %s", bad_files[i].text);
        if (bad_files[i].error == NULL)
            assert_non_null(strstr(error.text, ": not valid YAML: ")); /* the words are libyaml's */
        else
            assert_string_equal(error.text, bad_files[i].error);
    }
}

static void test_a_certificate_cannot_be_given_twice(void **state)
{
    (void)state;
    struct exporter_error error;
    /* any file that can be read will do: it is not looked into yet */
    assert_null(load(TLS "  cert_file: /proc/self/exe\n", &error));
    assert_string_equal(error.text,
                        "web.yml:2:3: tls_server_config: cert and cert_file are mutually exclusive "
                        "(likewise for key and client_ca); allowed: one of each pair");
}

/* ---- priorities ----------------------------------------------------------------------------- */

static const struct {
    const char *text;
    const char *priority;
} priorities[] = {
    {TLS, "NORMAL:-VERS-ALL:-KX-ALL:-CIPHER-ALL:-MAC-ALL:+AEAD:+VERS-TLS1.3:+VERS-TLS1.2:"
          "+ECDHE-ECDSA:+ECDHE-RSA:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305"},
    {TLS "  cipher_suites: [" RSA "AES_128_GCM_SHA256, " ECDSA "AES_128_GCM_SHA256]\n",
     "NORMAL:-VERS-ALL:-KX-ALL:-CIPHER-ALL:-MAC-ALL:+AEAD:+VERS-TLS1.3:+VERS-TLS1.2:"
     "+ECDHE-ECDSA:+ECDHE-RSA:+AES-128-GCM"},
    /* suites of TLS 1.3 alone leave TLS 1.2 without any */
    {TLS "  cipher_suites: [TLS_CHACHA20_POLY1305_SHA256]\n",
     "NORMAL:-VERS-ALL:-KX-ALL:-CIPHER-ALL:-MAC-ALL:+AEAD:+VERS-TLS1.3:+CHACHA20-POLY1305"},
    {TLS "  max_version: TLS12\n  curve_preferences: [CurveP521]\n"
         "  prefer_server_cipher_suites: true\n",
     "NORMAL:-VERS-ALL:-KX-ALL:-CIPHER-ALL:-MAC-ALL:+AEAD:+VERS-TLS1.2:+ECDHE-ECDSA:+ECDHE-RSA:"
     "+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:-GROUP-ALL:+GROUP-SECP521R1:"
     "%SERVER_PRECEDENCE"},
};

static void test_priorities_are_what_gnutls_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof priorities / sizeof *priorities; i++) {
        struct exporter_web_settings *settings = load_good(priorities[i].text);
        char text[EXPORTER_TLS_PRIORITY_MAX];
        struct exporter_error error;
        gnutls_priority_t priority;
        assert_true(exporter_tls_priority(&settings->tls, text, &error));
        assert_string_equal(text, priorities[i].priority);
        assert_int_equal(gnutls_priority_init(&priority, text, NULL), GNUTLS_E_SUCCESS);
        gnutls_priority_deinit(priority);
        exporter_web_settings_free(&settings);
    }
}

/* ---- the Authorization header --------------------------------------------------------------- */

static void test_authorization(void **state)
{
    static const struct {
        const char *header;
        const char *user; /* NULL: refused */
        const char *password;
    } cases[] = {
        {"Basic YWxpY2U6c2VjcmV0", "alice", "secret"},
        {"basic   YWxpY2U6c2VjcmV0", "alice", "secret"},
        {"Basic YWxpY2U6", "alice", ""},
        {"Basic OnNlY3JldA==", "", "secret"},
        {"Basic OnNlY3JldA", "", "secret"},
        {"Basic YTpiOmM=", "a", "b:c"},
        {"Basic YWxpY2U=", NULL, NULL}, /* no colon */
        {"Basic", NULL, NULL},
        {"Basic ", NULL, NULL},
        {"BasicYTpi", NULL, NULL},
        {"Bearer YTpi", NULL, NULL},
        {"Basic YTpi=x", NULL, NULL},
        {"Basic YT pi", NULL, NULL},
        {"Basic YTpi\x80", NULL, NULL},
        {"Basic YToAYg==", NULL, NULL}, /* a zero byte */
        {NULL, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[16];
        const char *user;
        const char *password;
        const bool parsed =
            exporter_basic_auth_parse(cases[i].header, buffer, sizeof buffer, &user, &password);
        if (parsed != (cases[i].user != NULL))
            fail_msg("case %zu: %s", i, cases[i].header);
        if (!parsed)
            continue;
        assert_string_equal(user, cases[i].user);
        assert_string_equal(password, cases[i].password);
    }
    char small[8];
    const char *user;
    const char *password;
    assert_true(exporter_basic_auth_parse("Basic YTpiY2RlZg==", small, 8, &user, &password));
    assert_false(exporter_basic_auth_parse("Basic YTpiY2RlZmc=", small, 8, &user, &password));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_file),
        cmocka_unit_test(test_files_that_ask_for_nothing),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_a_certificate_cannot_be_given_twice),
        cmocka_unit_test(test_priorities_are_what_gnutls_takes),
        cmocka_unit_test(test_authorization),
    };
    return RUN_TESTS(tests);
}
