/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go names whole cipher suites, and leaves those of TLS 1.3 alone. GnuTLS has one list of key
 * exchanges and one of ciphers, for all versions, and allows every combination. So a list of suites
 * can be followed exactly only if it is such a set of combinations; any other is refused with the
 * suite that would be allowed without having been asked for. Nothing is widened in silence.
 *
 * Pure.
 */
#include "exporter/http/tls_priority.h"

#include <stdio.h>
#include <string.h>

enum { CIPHERS = 3, KEY_EXCHANGES = 2, CURVES = 4 };

static const char *const cipher_names[CIPHERS] = {"AES-128-GCM", "AES-256-GCM",
                                                  "CHACHA20-POLY1305"};
static const char *const key_exchange_names[KEY_EXCHANGES] = {"ECDHE-ECDSA", "ECDHE-RSA"};
static const char *const curve_names[CURVES] = {"GROUP-SECP256R1", "GROUP-SECP384R1",
                                                "GROUP-SECP521R1", "GROUP-X25519"};

/* The bits of EXPORTER_TLS_SUITES: three of TLS 1.3, then three for each key exchange. */
static unsigned ciphers_of(unsigned suites, unsigned row)
{
    return suites >> (row * CIPHERS) & ((1u << CIPHERS) - 1);
}

/* What GnuTLS will be told. */
struct choice {
    unsigned ciphers;
    unsigned key_exchanges;
    bool tls12;
    bool tls13;
};

static void suite_name(unsigned bit, char *name, size_t size)
{
    const char *at = EXPORTER_TLS_SUITES;
    for (; bit > 0; bit--)
        at = strchr(at, '|') + 1;
    snprintf(name, size, "%.*s", (int)strcspn(at, "|"), at);
}

static bool refuse_widening(unsigned row, unsigned missing, struct exporter_error *error)
{
    char name[64];
    unsigned bit = row * CIPHERS;
    while ((missing & 1) == 0) {
        missing >>= 1;
        bit++;
    }
    suite_name(bit, name, sizeof name);
    exporter_error_set(
        error,
        "cipher_suites: GnuTLS would allow %s as well, because it selects ciphers and "
        "key exchanges separately; add it, or change the list",
        name);
    return false;
}

/* Every key exchange in use must come with every cipher in use. */
static bool is_set_of_combinations(unsigned suites, const struct choice *choice,
                                   struct exporter_error *error)
{
    for (unsigned i = 0; i < KEY_EXCHANGES; i++) {
        const unsigned listed = ciphers_of(suites, 1 + i);
        if (choice->tls12 && (choice->key_exchanges >> i & 1) != 0 && listed != choice->ciphers)
            return refuse_widening(1 + i, choice->ciphers & ~listed, error);
    }
    const unsigned listed = ciphers_of(suites, 0);
    if (choice->tls13 && listed != 0 && listed != choice->ciphers)
        return refuse_widening(0, choice->ciphers & ~listed, error);
    return true;
}

static bool choose_suites(const struct exporter_web_tls *tls, struct choice *choice,
                          struct exporter_error *error)
{
    const unsigned ecdsa = ciphers_of(tls->cipher_suites, 1);
    const unsigned rsa = ciphers_of(tls->cipher_suites, 2);
    choice->tls12 = tls->min_version == EXPORTER_TLS12;
    choice->tls13 = tls->max_version == EXPORTER_TLS13;
    if (!choice->tls12 && !choice->tls13) {
        exporter_error_set(error, "min_version: TLS13 is above max_version");
        return false;
    }
    if (tls->cipher_suites == 0) {
        choice->ciphers = (1u << CIPHERS) - 1;
        choice->key_exchanges = (1u << KEY_EXCHANGES) - 1;
        return true;
    }
    choice->ciphers = ciphers_of(tls->cipher_suites, 0) | ecdsa | rsa;
    choice->key_exchanges = (ecdsa != 0 ? 1u : 0) | (rsa != 0 ? 2u : 0);
    if (choice->key_exchanges == 0)
        choice->tls12 = false; /* none of its suites was listed */
    if (!choice->tls12 && !choice->tls13) {
        exporter_error_set(error,
                           "cipher_suites: no suite for TLS 1.2, which max_version requires");
        return false;
    }
    return is_set_of_combinations(tls->cipher_suites, choice, error);
}

static void append_priority(char priority[EXPORTER_TLS_PRIORITY_MAX], const char *head,
                            const char *name)
{
    const size_t used = strlen(priority);
    snprintf(priority + used, EXPORTER_TLS_PRIORITY_MAX - used, "%s%s", head, name);
}

static void append_bits(char priority[EXPORTER_TLS_PRIORITY_MAX], unsigned bits,
                        const char *const *names, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if ((bits >> i & 1) != 0)
            append_priority(priority, ":+", names[i]);
    }
}

bool exporter_tls_priority(const struct exporter_web_tls *tls,
                           char priority[EXPORTER_TLS_PRIORITY_MAX], struct exporter_error *error)
{
    struct choice choice;
    if (!choose_suites(tls, &choice, error))
        return false;
    snprintf(priority, EXPORTER_TLS_PRIORITY_MAX, "%s",
             "NORMAL:-VERS-ALL:-KX-ALL:-CIPHER-ALL:-MAC-ALL:+AEAD");
    append_priority(priority, "", choice.tls13 ? ":+VERS-TLS1.3" : "");
    append_priority(priority, "", choice.tls12 ? ":+VERS-TLS1.2" : "");
    append_bits(priority, choice.key_exchanges, key_exchange_names, KEY_EXCHANGES);
    append_bits(priority, choice.ciphers, cipher_names, CIPHERS);
    if (tls->curves != 0) {
        append_priority(priority, ":-GROUP-ALL", "");
        append_bits(priority, tls->curves, curve_names, CURVES);
    }
    if (tls->prefer_server_cipher_suites)
        append_priority(priority, ":%SERVER_PRECEDENCE", "");
    return true;
}
