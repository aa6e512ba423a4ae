/* SPDX-License-Identifier: Apache-2.0 */
/* What happens, turned into the events that a host observes. */
#include <string.h>

#include "client/client.h"
#include "lib/base/check.h"

void handoff_client_tell(const struct handoff_client *client, const struct handoff_event *event)
{
    if (client->observe)
        client->observe(client->observer, event);
}

void handoff_client_tell_spine(struct handoff_client *client, const char *operation,
                               const struct handoff_spine_call *call, int64_t duration_ns)
{
    const enum handoff_spine_health health = handoff_spine_health(call);
    const struct handoff_event event = {.kind = HANDOFF_EVENT_SPINE,
                                        .code = call->error.code,
                                        .operation = operation,
                                        .spine_failed = health == HANDOFF_SPINE_FAILED,
                                        .duration_ns = duration_ns};
    if (health == HANDOFF_SPINE_UNTRIED)
        return;
    atomic_store(&client->spine_up, health == HANDOFF_SPINE_ANSWERED);
    handoff_client_tell(client, &event);
}

/* On the store's writer thread. */
void handoff_client_tell_commit(void *observer, const struct handoff_store_commit *commit)
{
    const struct handoff_client *client = observer;
    const struct handoff_event event = {.kind = HANDOFF_EVENT_COMMITTED,
                                        .code = commit->failed ? HANDOFF_ERR_STORE_IO : HANDOFF_OK,
                                        .duration_ns = commit->duration_ns,
                                        .jobs = commit->jobs};
    handoff_client_tell(client, &event);
}

/* ---- deliveries ------------------------------------------------------------------------------ */

static const enum handoff_event_kind kinds[] = {
    [HANDOFF_HAPPENED_MOVE] = HANDOFF_EVENT_MOVED,
    [HANDOFF_HAPPENED_REFUSED] = HANDOFF_EVENT_REJECTED,
    [HANDOFF_HAPPENED_CIRCUIT] = HANDOFF_EVENT_CIRCUIT,
};

static void describe_move(struct handoff_event *event, const struct handoff_delivery_event *told)
{
    event->from = told->from ? handoff_state_name(told->from) : NULL;
    event->to = handoff_state_name(told->to);
    event->resumed = told->resumed;
    event->elapsed_ns = told->elapsed_us * 1000;
    event->attempts = told->attempts;
    event->replays = told->replays;
    event->said = told->said;
    if (!told->has_attempt)
        return;
    event->result = handoff_result_name(told->result);
    event->attempt_target = told->attempt_target;
    event->attempt_ns = told->attempt_us * 1000;
}

void handoff_client_tell_delivery(void *observer, const struct handoff_delivery_event *told)
{
    const struct handoff_client *client = observer;
    struct handoff_event event = {
        .kind = kinds[told->happened],
        .id = told->handoff_id,
        .source_agent = told->source.data,
        .target_agent = told->target,
        .pattern = handoff_pattern_name((enum handoff_pattern)told->pattern),
        .outcome = told->outcome ? handoff_outcome_name(told->outcome) : NULL,
        .reason = told->reason,
    };
    BASE_CHECK(told->trace_id.size < sizeof event.trace_id);
    if (told->trace_id.data)
        memcpy(event.trace_id, told->trace_id.data, told->trace_id.size);
    if (told->happened == HANDOFF_HAPPENED_MOVE)
        describe_move(&event, told);
    if (told->happened == HANDOFF_HAPPENED_CIRCUIT) {
        event.circuit = handoff_circuit_name(told->circuit);
        event.opened = told->opened;
        event.closed = told->closed;
        event.consecutive_failures = told->consecutive_failures;
    }
    handoff_client_tell(client, &event);
}
