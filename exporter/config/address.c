/* SPDX-License-Identifier: Apache-2.0 */
/* Parses "host:port", "[v6]:port" and "unix:PATH". Pure. */
#include "exporter/config/address.h"

#include <string.h>

#include "lib/base/units.h"

static bool parse_unix(const char *path, struct exporter_address *address)
{
    size_t length = strlen(path);

    if (length == 0 || length > EXPORTER_UNIX_PATH_MAX) {
        return false;
    }
    address->is_unix = true;
    memcpy(address->path, path, length + 1);
    return true;
}

static bool parse_port(const char *text, struct exporter_address *address)
{
    uint64_t port;

    if (!base_number_parse(text, &port) || port > UINT16_MAX) {
        return false;
    }
    address->port = (uint16_t)port;
    return true;
}

/* Letters of host names, IPv4 and IPv6 addresses and of an IPv6 zone ("fe80::1%eth0"). A colon
 * only stands within brackets, otherwise "1:2:3" would not tell its port. */
static bool is_host(const char *host, size_t length, bool bracketed)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    for (size_t i = 0; i < length; i++) {
        if (memchr(letters, host[i], sizeof(letters) - 1) == NULL &&
            !(bracketed && (host[i] == ':' || host[i] == '%'))) {
            return false;
        }
    }
    return length <= EXPORTER_HOST_MAX && !(bracketed && length == 0);
}

static bool parse_tcp(const char *text, struct exporter_address *address)
{
    const char *colon = strrchr(text, ':');

    if (colon == NULL) {
        return false;
    }
    size_t length = (size_t)(colon - text);
    bool bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    if (bracketed) {
        text++;
        length -= 2;
    }
    if (!is_host(text, length, bracketed) || !parse_port(colon + 1, address)) {
        return false;
    }
    memcpy(address->host, text, length);
    return true;
}

bool exporter_address_parse(const char *text, struct exporter_address *address)
{
    static const char prefix[] = "unix:";
    bool ok;

    memset(address, 0, sizeof(*address));
    if (strncmp(text, prefix, sizeof(prefix) - 1) == 0) {
        ok = parse_unix(text + sizeof(prefix) - 1, address);
    } else {
        ok = parse_tcp(text, address);
    }
    if (!ok) {
        memset(address, 0, sizeof(*address));
    }
    return ok;
}
