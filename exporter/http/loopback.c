/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of this machine alone. Pure. */
#include "exporter/http/loopback.h"

#include <netinet/in.h>
#include <sys/socket.h>

static bool is_v6_loopback(const struct in6_addr *address)
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        return address->s6_addr[12] == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(address);
}

bool exporter_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return is_v6_loopback(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               IN_LOOPBACKNET;
    return address->sa_family == AF_UNIX;
}
