/* SPDX-License-Identifier: Apache-2.0 */
/* The table of protocols, a row for each, and which of them an agent speaks. Any thread. */
#include "client/protocol/protocol.h"
#include "client/protocol/pull/lease.h"
#include "client/protocol/push/push.h"
#include "lib/base/check.h"

static const struct handoff_protocol *const protocols[] = {
    &handoff_protocol_push, /* an agent that has a URL */
    &handoff_protocol_pull, /* any other */
};

const struct handoff_protocol *handoff_protocol_of(const struct handoff_agent_options *options)
{
    for (size_t i = 0; i < sizeof protocols / sizeof protocols[0]; i++)
        if (protocols[i]->is_spoken(options))
            return protocols[i];
    base_check_failed("the last row takes every agent", __FILE__, __LINE__);
}
