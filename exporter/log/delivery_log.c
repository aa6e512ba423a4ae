/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of delivery as log lines, see delivery_log.h.
 *
 * A handoff that goes well writes none: there may be thousands in a second, and metrics and store
 * know them. One that ends badly writes one line; when an agent is down and all of them do, the
 * log's limit for each event keeps the rest out and counts them. The line has what its last attempt
 * came to: the status of the answer (0: there was none), and why it failed.
 *
 * Any thread.
 */
#include "exporter/log/delivery_log.h"

#include "exporter/log/log.h"

static void log_move(const struct handoff_who *who, const struct handoff_moved *moved)
{
    if (moved->to == HANDOFF_STATE_PARKED)
        log_warn("handoff_parked", LOG_STR("handoff", who->id),
                 LOG_STR("source", who->source_agent), LOG_STR("target", who->target_agent),
                 LOG_STR("reason", handoff_reason_name(moved->reason)),
                 LOG_UINT("attempts", moved->attempts), LOG_INT("status", moved->status),
                 LOG_STR("error", moved->said));
    else if (moved->to == HANDOFF_STATE_EXPIRED)
        log_warn("handoff_expired", LOG_STR("handoff", who->id),
                 LOG_STR("source", who->source_agent), LOG_STR("target", who->target_agent),
                 LOG_UINT("attempts", moved->attempts), LOG_INT("status", moved->status),
                 LOG_STR("error", moved->said));
    else if (moved->to == HANDOFF_STATE_ACKNOWLEDGED && moved->attempted && *moved->said)
        log_warn("next_refused", LOG_STR("handoff", who->id), LOG_STR("task", who->task_id),
                 LOG_STR("source", who->source_agent), LOG_STR("target", who->target_agent),
                 LOG_STR("error", moved->said),
                 LOG_STR("advice", "no agent has the task now; see next_refused of the task"));
    else if (moved->attempted && moved->result != HANDOFF_RESULT_ACK)
        log_debug("attempt_failed", LOG_STR("handoff", who->id),
                  LOG_STR("target", moved->attempt_target), LOG_UINT("attempt", moved->attempts),
                  LOG_STR("result", handoff_result_name(moved->result)),
                  LOG_STR("error", moved->said));
}

static void log_circuit(const struct handoff_who *who,
                        const struct handoff_circuit_changed *changed)
{
    if (changed->opened)
        log_warn("circuit_opened", LOG_STR("target", who->target_agent),
                 LOG_UINT("failures", changed->consecutive_failures));
    else if (changed->closed)
        log_info("circuit_closed", LOG_STR("target", who->target_agent));
}

/* Who looks for a fault at the agent that is named reads here that there is none. */
static void log_shortage(const struct handoff_who *who, const struct handoff_ran_short *shortage)
{
    static const char *const advice[HANDOFF_SHORTAGE_COUNT] = {
        [HANDOFF_SHORTAGE_DESCRIPTORS] = "raise the service's LimitNOFILE (ulimit -n)",
        [HANDOFF_SHORTAGE_MEMORY] = "give the service or the machine more memory",
        [HANDOFF_SHORTAGE_THREADS] = "raise the service's TasksMax or LimitNPROC (ulimit -u)",
        [HANDOFF_SHORTAGE_PORTS] = "widen net.ipv4.ip_local_port_range",
        [HANDOFF_SHORTAGE_DISK] = "free space on the store's disk, or give the store a larger one",
    };
    log_warn("out_of_resources", LOG_STR("resource", handoff_shortage_name(shortage->resource)),
             LOG_STR("hindered", shortage->hindered), LOG_STR("handoff", who->id),
             LOG_STR("target", who->target_agent), LOG_STR("advice", advice[shortage->resource]));
}

/* Once when writes begin to fail, and once when they no longer do. */
static void log_commit(enum handoff_code code, const struct handoff_committed *committed)
{
    if (!committed->turned)
        return;
    if (code == HANDOFF_OK)
        log_info("store_recovered");
    else
        log_error("store_failing", LOG_STR("code", handoff_code_name(code)),
                  LOG_STR("error", handoff_code_meaning(code)),
                  LOG_STR("advice", "nothing is accepted until a write succeeds; free space, or "
                                    "see to the disk"));
}

static void log_decision(const struct handoff_who *who, const struct handoff_decided *decided)
{
    log_info("handoff_decided", LOG_STR("handoff", who->id), LOG_STR("task", who->task_id),
             LOG_STR("action", handoff_action_name(decided->action)),
             LOG_STR("who", decided->author), LOG_STR("by", decided->by),
             LOG_STR("reason", decided->reason));
}

static void log_recovery(const struct handoff_who *who, const struct handoff_recovered *recovered)
{
    const int64_t missing = (int64_t)recovered->of[HANDOFF_RECOVERY_MISSING];
    if (missing > 0)
        log_warn("context_gaps", LOG_STR("handoff", who->id), LOG_STR("target", who->target_agent),
                 LOG_INT("memories", missing));
}

static void log_spine_request(const struct handoff_spine_asked *asked)
{
    if (asked->failed)
        log_warn("spine_failed", LOG_STR("operation", handoff_operation_name(asked->operation)),
                 LOG_STR("error", asked->why));
}

void exporter_delivery_log(const struct handoff_event *event)
{
    const struct handoff_who *who = &event->who;
    if (event->kind == HANDOFF_EVENT_MOVED)
        log_move(who, &event->of.moved);
    else if (event->kind == HANDOFF_EVENT_CIRCUIT)
        log_circuit(who, &event->of.circuit);
    else if (event->kind == HANDOFF_EVENT_SHORTAGE)
        log_shortage(who, &event->of.shortage);
    else if (event->kind == HANDOFF_EVENT_COMMITTED)
        log_commit(event->code, &event->of.committed);
    else if (event->kind == HANDOFF_EVENT_STORE_UPGRADING)
        log_info("store_upgrading", LOG_INT("from", event->of.upgrading.from),
                 LOG_INT("to", event->of.upgrading.to),
                 LOG_INT("bytes", event->of.upgrading.bytes));
    else if (event->kind == HANDOFF_EVENT_DECIDED)
        log_decision(who, &event->of.decided);
    else if (event->kind == HANDOFF_EVENT_SPINE)
        log_spine_request(&event->of.spine);
    else if (event->kind == HANDOFF_EVENT_RECOVERY)
        log_recovery(who, &event->of.recovery);
    else if (event->kind == HANDOFF_EVENT_STORE_DISPLACED)
        log_error("store_displaced", LOG_STR("path", event->of.displaced.path),
                  LOG_STR("advice", HANDOFF_STORE_DISPLACED_ADVICE));
    else if (event->kind == HANDOFF_EVENT_ASSEMBLED && event->code == HANDOFF_ERR_HOP_LIMIT)
        log_warn("hop_limit_reached", LOG_STR("task", who->task_id),
                 LOG_STR("source", who->source_agent), LOG_STR("target", who->target_agent),
                 LOG_INT("hops", event->of.assembled.hop_count));
    else if (event->kind == HANDOFF_EVENT_ASSEMBLED && event->of.assembled.ping_pong)
        log_info("ping_pong", LOG_STR("task", who->task_id), LOG_STR("source", who->source_agent),
                 LOG_STR("target", who->target_agent),
                 LOG_INT("hops", event->of.assembled.hop_count));
}
