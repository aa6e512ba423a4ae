/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EADDRNOTAVAIL of a connect has two meanings: every local port to this address is taken, or no
 * address of this machine can reach it at all (IPv6 is off, say). The latter is a fault in the
 * agent's configuration and would never pass. A datagram socket tells them apart: to connect one
 * sends nothing, chooses an address in the same way, and takes its port from another space.
 */
#include "client/transport/own_fault.h"

#include <errno.h>
#include <unistd.h>

enum handoff_fault handoff_own_fault_of_errno(int error)
{
    switch (handoff_shortage_of_errno(error)) {
    case HANDOFF_SHORTAGE_DESCRIPTORS:
        return HANDOFF_FAULT_DESCRIPTORS;
    case HANDOFF_SHORTAGE_MEMORY:
        return HANDOFF_FAULT_MEMORY;
    default:
        return HANDOFF_FAULT_NONE;
    }
}

static bool has_local_address(const struct sockaddr *to, socklen_t size)
{
    int probe = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return false;
    bool found = connect(probe, to, size) == 0;
    close(probe);
    return found;
}

enum handoff_fault handoff_own_fault_of_connect(int error, const struct sockaddr *to,
                                                socklen_t size)
{
    if (error == EADDRNOTAVAIL && to && has_local_address(to, size))
        return HANDOFF_FAULT_PORTS;
    return handoff_own_fault_of_errno(error);
}

enum handoff_fault handoff_own_fault_now(void)
{
    int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return handoff_own_fault_of_errno(errno);
    close(probe);
    return HANDOFF_FAULT_NONE;
}
