/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_fault.h - whether a post failed because we ran out of something ourselves.
 *
 * An agent must not be blamed for that: such an attempt is not counted, and is made again. Any
 * thread.
 */
#ifndef HANDOFF_TRANSPORT_OWN_FAULT_H
#define HANDOFF_TRANSPORT_OWN_FAULT_H

#include <sys/socket.h>

#include "client/transport/fault.h"

/* DESCRIPTORS or MEMORY, or NONE where this errno of any system call says nothing of the kind. */
enum handoff_fault handoff_own_fault_of_errno(int error);

/* The same for a connect to this address, which may also have run out of PORTS. NULL: the address
 * is not known, and then that is not found out. */
enum handoff_fault handoff_own_fault_of_connect(int error, const struct sockaddr *to,
                                                socklen_t size);

/* The same at this moment, for libraries that do not tell why they could not open what they need
 * (a socket of the resolver, a file of certificates). */
enum handoff_fault handoff_own_fault_now(void);

#endif
