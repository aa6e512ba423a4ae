/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-site requests. A page anywhere can make a browser POST to localhost; what gives it away is
 * Sec-Fetch-Site, which pages cannot forge, and Origin in browsers that are older than it.
 *
 * A page can also have its own name lead to 127.0.0.1, and is then of one origin with us (DNS
 * rebinding). It cannot keep its browser from sending that name as the Host.
 *
 * Pure.
 */
#include "exporter/access/request_origin.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

bool exporter_origin_is_foreign(const char *origin, const char *sec_fetch_site, const char *host)
{
    if (sec_fetch_site != NULL)
        return strcasecmp(sec_fetch_site, "same-origin") != 0 &&
               strcasecmp(sec_fetch_site, "none") != 0;
    if (origin == NULL)
        return false;
    const char *authority = strstr(origin, "://"); /* absent in "null", the opaque origin */
    return authority == NULL || host == NULL || strcasecmp(authority + 3, host) != 0;
}

/* Browsers write every spelling of an IPv4 address with four decimal numbers, and no name of the
 * DNS consists of digits. */
static bool is_address(const char *host, size_t length)
{
    return host[0] == '[' || strspn(host, "0123456789.") == length;
}

/* A name without a dot is in no public zone: localhost, or an alias that this machine gave itself.
 */
bool exporter_origin_names_this_machine(const char *host)
{
    static const char local[] = ".localhost";
    const size_t size = sizeof local - 1;
    if (host == NULL)
        return true;
    const size_t length = strcspn(host, ":");
    if (is_address(host, length) || memchr(host, '.', length) == NULL)
        return true;
    return length > size && strncasecmp(host + length - size, local, size) == 0;
}
