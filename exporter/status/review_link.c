/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The review page is served by the listener of the agent API, the status page by the web listener.
 * Which name and port lead from one to the other, only the configuration knows for sure (api.url).
 * Without it: the address that the API is bound to, or where that is every address of the machine,
 * the name by which the reader came here. An API on loopback is linked to only for a reader who
 * came by a loopback name; anybody else's browser would look on its own machine.
 *
 * Pure.
 */
#include "exporter/status/review_link.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* "name:port" and "[::1]:port" without the port. */
static size_t host_name_length(const char *host)
{
    if (host[0] == '[') {
        const char *end = strchr(host, ']');
        return end != NULL ? (size_t)(end - host) + 1 : 0;
    }
    return strcspn(host, ":");
}

/* A client may send anything as its Host. */
static bool is_name(const char *host, size_t length)
{
    static const char of_address[] = "0123456789abcdefABCDEF:.[]";
    static const char of_name[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._";
    return length > 0 && strspn(host, host[0] == '[' ? of_address : of_name) >= length;
}

static bool host_ends_with(const char *host, size_t length, const char *end)
{
    const size_t size = strlen(end);
    return length >= size && strncasecmp(host + length - size, end, size) == 0;
}

static bool is_loopback_name(const char *host, size_t length)
{
    return (length == 9 && host_ends_with(host, length, "localhost")) ||
           host_ends_with(host, length, ".localhost") ||
           (length == 5 && memcmp(host, "[::1]", 5) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= length);
}

static bool is_any_address(const char *address, size_t length)
{
    return (length == 7 && memcmp(address, "0.0.0.0", 7) == 0) ||
           (length == 4 && memcmp(address, "[::]", 4) == 0);
}

static bool link_by_address(char *link, const struct exporter_lifecycle_state *daemon,
                            const char *host)
{
    const char *address = daemon->api_address;
    const size_t bound = host_name_length(address),
                 named = host != NULL ? host_name_length(host) : 0;
    if (strncmp(address, "unix:", 5) == 0 || named > 255 || !is_name(host, named))
        return false;
    if (daemon->api_is_local && !is_loopback_name(host, named))
        return false;
    const bool any = is_any_address(address, bound);
    snprintf(link, EXPORTER_REVIEW_LINK_SIZE, "http://%.*s%s/review", (int)(any ? named : bound),
             any ? host : address, address + bound);
    return true;
}

bool exporter_review_link(char link[EXPORTER_REVIEW_LINK_SIZE],
                          const struct exporter_lifecycle_state *daemon, const char *host)
{
    link[0] = '\0';
    if (daemon->api_url == NULL)
        return link_by_address(link, daemon, host);
    size_t length = strlen(daemon->api_url);
    while (length > 0 && daemon->api_url[length - 1] == '/')
        length--;
    snprintf(link, EXPORTER_REVIEW_LINK_SIZE, "%.*s/review", (int)length, daemon->api_url);
    return true;
}
