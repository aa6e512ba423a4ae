/* SPDX-License-Identifier: Apache-2.0 */
/* The table of protocols, a row for each, and which of them an agent speaks. Any thread. */
#include "client/protocol/handoff/push.h"
#include "client/protocol/protocol.h"
#include "client/protocol/pull/lease.h"
#include "lib/base/check.h"

static const struct handoff_protocol *const protocols[] = {
    &handoff_protocol_push, /* an agent that has a URL */
    &handoff_protocol_pull, /* any other */
};

const struct handoff_protocol *handoff_protocol_of(const struct handoff_agent_options *options)
{
    const size_t count = sizeof protocols / sizeof protocols[0];
    size_t i = 0;
    while (i < count && !protocols[i]->is_spoken(options))
        i++;
    BASE_CHECK(i < count); /* the last row takes every agent */
    return protocols[i];
}
