/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - an agent that pulls: an attempt is a lease of the handoff to a poller of its inbox. */
#ifndef HANDOFF_PROTOCOL_PULL_LEASE_H
#define HANDOFF_PROTOCOL_PULL_LEASE_H

#include "client/protocol/protocol.h"

struct handoff_poller_request;

extern const struct handoff_protocol handoff_protocol_pull;

/* Leases it to the poller, and tells the poller. false: the poller cannot have it any more, and was
   not told. On the delivery's lane. */
bool handoff_pull_lease(struct handoff_delivery *delivery, struct handoff_poller_request *request);

#endif
