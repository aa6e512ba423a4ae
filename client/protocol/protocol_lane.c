/* SPDX-License-Identifier: Apache-2.0 */
/* What the protocols share on a lane: the transport for requests of ours, and the pollers that wait
   for an answer of ours. On the lane's thread. */
#include "client/protocol/protocol.h"
#include "client/protocol/pull/inbox.h"
#include "client/transport/transport.h"

enum handoff_code handoff_protocol_lane_open(struct handoff_protocol_lane *lane,
                                             struct base_loop *loop, struct base_quota *quota,
                                             struct handoff_error *error)
{
    TAILQ_INIT(&lane->pollers);
    return handoff_transport_new(&lane->transport, &loop->poller, &loop->timers, loop->clock, quota,
                                 error);
}

void handoff_protocol_lane_close(struct handoff_protocol_lane *lane)
{
    handoff_transport_free(&lane->transport);
}

void handoff_protocol_lane_settle(struct handoff_protocol_lane *lane)
{
    handoff_transport_settle(lane->transport);
}

bool handoff_protocol_lane_has_pollers(const struct handoff_protocol_lane *lane)
{
    return !TAILQ_EMPTY(&lane->pollers);
}

void handoff_protocol_lane_dismiss_pollers(struct handoff_protocol_lane *lane)
{
    struct handoff_poller_request *next;
    for (struct handoff_poller_request *request = TAILQ_FIRST(&lane->pollers); request;
         request = next) {
        next = TAILQ_NEXT(request, open);
        handoff_inbox_withdraw(request);
    }
}
