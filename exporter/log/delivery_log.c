/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of delivery as log lines, see delivery_log.h.
 *
 * A handoff that goes well writes none: there may be thousands in a second, and metrics and store
 * know them. One that ends badly writes one line; when an agent is down and all of them do, the
 * log's limit for each event keeps the rest out and counts them.
 */
#include "exporter/log/delivery_log.h"

#include <string.h>

#include "exporter/log/log.h"

static bool is(const char *text, const char *wanted)
{
    return text != NULL && strcmp(text, wanted) == 0;
}

static void log_move(const struct handoff_event *event)
{
    if (is(event->to, "parked"))
        log_warn("handoff_parked", LOG_STR("handoff", event->id),
                 LOG_STR("source", event->source_agent), LOG_STR("target", event->target_agent),
                 LOG_STR("reason", event->reason), LOG_UINT("attempts", event->attempts));
    else if (is(event->to, "expired"))
        log_warn("handoff_expired", LOG_STR("handoff", event->id),
                 LOG_STR("source", event->source_agent), LOG_STR("target", event->target_agent),
                 LOG_UINT("attempts", event->attempts));
    else if (event->result != NULL && !is(event->result, "ack"))
        log_debug("attempt_failed", LOG_STR("handoff", event->id),
                  LOG_STR("target", event->attempt_target), LOG_UINT("attempt", event->attempts),
                  LOG_STR("result", event->result));
}

static void log_circuit(const struct handoff_event *event)
{
    if (event->opened)
        log_warn("circuit_opened", LOG_STR("target", event->target_agent),
                 LOG_UINT("failures", event->consecutive_failures));
    else if (event->closed)
        log_info("circuit_closed", LOG_STR("target", event->target_agent));
}

void exporter_delivery_log(const struct handoff_event *event)
{
    if (event->kind == HANDOFF_EVENT_MOVED)
        log_move(event);
    else if (event->kind == HANDOFF_EVENT_CIRCUIT)
        log_circuit(event);
    else if (event->kind == HANDOFF_EVENT_ASSEMBLED && event->code == HANDOFF_ERR_HOP_LIMIT)
        log_warn("hop_limit_reached", LOG_STR("task", event->task_id),
                 LOG_STR("source", event->source_agent), LOG_STR("target", event->target_agent),
                 LOG_INT("hops", event->hop_count));
}
