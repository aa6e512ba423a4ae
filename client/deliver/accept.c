/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new handoff: who gets it, whether there is room, and its way into the store. Nothing is stored
 * of one that is refused.
 */
#include <string.h>

#include "client/base/check.h"
#include "client/base/error.h"
#include "client/deliver/delivery.h"

/* ---- durable -------------------------------------------------------------------------------- */

static bool copy_parcel(struct handoff_delivery *delivery, const struct handoff_parcel *parcel)
{
    struct handoff_store_accept *accept = &delivery->write.accept;
    delivery->pattern = parcel->pattern;
    delivery->created_ms = parcel->created_ms;
    delivery->deadline_ms = parcel->deadline_ms;
    delivery->tokens = parcel->tokens;
    delivery->context_at = parcel->context_at;
    delivery->context_size = parcel->context_size;
    accept->put.id = parcel->id;
    accept->put.cut_at = parcel->cut_at;
    accept->put.cut_size = parcel->cut_size;
    accept->put.created_ms = parcel->created_ms;
    memcpy(accept->put.digest, parcel->digest, sizeof accept->put.digest);
    memcpy(accept->request_digest, parcel->request_digest, sizeof accept->request_digest);
    accept->pattern = parcel->pattern;
    accept->deadline_ms = parcel->deadline_ms;
    /* the envelope last: it gets a block of its own size, and nothing has to follow it */
    return handoff_delivery_keep(delivery, parcel->source, &delivery->source) &&
           handoff_delivery_keep(delivery, parcel->target, &delivery->asked_target) &&
           handoff_delivery_keep(delivery, parcel->task_id, &delivery->task_id) &&
           handoff_delivery_keep(delivery, parcel->idempotency_key, &accept->idempotency_key) &&
           handoff_delivery_keep_trace(delivery, parcel->traceparent, parcel->tracestate) &&
           handoff_delivery_keep(delivery, parcel->envelope, &delivery->envelope);
}

static void accepted(struct handoff_store_job *job)
{
    struct handoff_delivery *delivery =
        (void *)((char *)job - offsetof(struct handoff_delivery, write.accept.put.job));
    HANDOFF_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    delivery->lane->awaited--;
    delivery->writing = false;
    if (job->error.code != HANDOFF_OK) {
        struct handoff_error error = job->error;
        handoff_delivery_drop(delivery, &error);
        return;
    }
    delivery->seq = delivery->write.accept.seq;
    handoff_delivery_observe_start(delivery, false);
    if (delivery->waiter && delivery->waiter->accepted) {
        struct handoff_news news;
        handoff_delivery_news(delivery, &news);
        delivery->waiter->accepted(delivery->waiter, &news);
    }
    handoff_delivery_go_on(delivery);
}

static void submit_accept(struct handoff_delivery *delivery)
{
    struct handoff_store_accept *accept = &delivery->write.accept;
    accept->put.job.mailbox = &delivery->lane->mailbox;
    accept->put.job.batch = &delivery->lane->writes;
    accept->put.job.done = accepted;
    accept->put.body = delivery->envelope;
    accept->put.task_id = delivery->task_id;
    accept->source = delivery->source;
    accept->asked_target = delivery->asked_target;
    accept->standing.state = HANDOFF_STATE_READY;
    accept->standing.target = handoff_span(delivery->agent->name, delivery->agent->name_size);
    accept->standing.alternate = delivery->alternate;
    delivery->writing = true;
    delivery->lane->awaited++;
    handoff_store_accept(delivery->lane->engine->options.store, accept);
}

static enum handoff_code refuse_circuit(const struct handoff_lane *lane,
                                        const struct handoff_parcel *parcel,
                                        struct handoff_agent *agent, int64_t wait_ms,
                                        struct handoff_error *error)
{
    const struct handoff_engine_options *options = &lane->engine->options;
    struct handoff_delivery_event event = {.happened = HANDOFF_HAPPENED_REFUSED,
                                           .handoff_id = "",
                                           .source = parcel->source,
                                           .trace_id = handoff_trace_id(parcel->traceparent),
                                           .target = agent->name,
                                           .pattern = parcel->pattern,
                                           .outcome = HANDOFF_OUTCOME_CIRCUIT_OPEN,
                                           .reason = "circuit_open"};
    if (options->observe)
        options->observe(options->observer, &event);
    handoff_error_set(error, HANDOFF_ERR_CIRCUIT_OPEN,
                      "the agent failed too often in a row, and nothing is sent to it until its "
                      "cooldown is over; try again then, or close the breaker by hand",
                      "target_agent", agent->name);
    if (error)
        error->needed = wait_ms;
    return HANDOFF_ERR_CIRCUIT_OPEN;
}

/* The one that was asked for, or the first alternate that can take it where its circuit is open.
 */
static enum handoff_code choose_agent(struct handoff_lane *lane,
                                      const struct handoff_parcel *parcel,
                                      struct handoff_agent **agent, uint32_t *alternate,
                                      struct handoff_error *error)
{
    struct handoff_agents *agents = lane->engine->options.agents;
    int64_t now_ms = handoff_lane_now_ms(lane), wait_ms;
    *alternate = 0;
    *agent = handoff_agents_find(agents, parcel->target);
    if (!*agent) {
        handoff_error_set(error, HANDOFF_ERR_UNKNOWN_AGENT,
                          "the configuration has no agent of this name", "target_agent", NULL);
        handoff_error_seen(error, "%.*s",
                           (int)(parcel->target.size < 128 ? parcel->target.size : 128),
                           parcel->target.data);
        return HANDOFF_ERR_UNKNOWN_AGENT;
    }
    if (!handoff_agent_is_open(*agent, now_ms, &wait_ms))
        return HANDOFF_OK;
    struct handoff_agent *asked = *agent;
    struct handoff_settings *settings = handoff_agent_settings(asked);
    for (*agent = NULL; settings && !*agent && *alternate < settings->options.nalternates;) {
        const char *name = settings->options.alternates[(*alternate)++];
        *agent = handoff_agents_find(agents, handoff_span_text(name));
        if (*agent && !handoff_agent_takes(*agent, parcel->tokens, now_ms))
            *agent = NULL;
    }
    handoff_settings_release(&settings);
    return *agent ? HANDOFF_OK : refuse_circuit(lane, parcel, asked, wait_ms, error);
}

static enum handoff_code refuse_full(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
                             "as many handoffs are under way as may be; try again when some have "
                             "ended (api.max_in_flight, api.max_in_flight_per_agent)",
                             "target_agent", NULL);
}

enum handoff_code handoff_engine_deliver(struct handoff_lane *lane,
                                         const struct handoff_parcel *parcel,
                                         struct handoff_waiter *waiter, struct handoff_error *error)
{
    HANDOFF_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    struct handoff_agent *agent;
    uint32_t alternate;
    if (lane->closing || atomic_load(&lane->engine->draining))
        return handoff_error_set(error, HANDOFF_ERR_SHUTTING_DOWN,
                                 "the process drains and takes nothing new; try another, or again",
                                 NULL, NULL);
    enum handoff_code code = choose_agent(lane, parcel, &agent, &alternate, error);
    if (code != HANDOFF_OK)
        return code;
    if (!handoff_delivery_count(lane->engine, agent, true))
        return refuse_full(error);
    struct handoff_delivery *delivery = handoff_delivery_new(lane, &parcel->id);
    bool memory = delivery && copy_parcel(delivery, parcel);
    if (!memory) {
        handoff_delivery_uncount(lane->engine, agent);
        if (delivery)
            handoff_delivery_free(delivery);
        return handoff_error_no_memory(error);
    }
    delivery->alternate = alternate;
    delivery->waiter = waiter;
    if (waiter)
        waiter->delivery = delivery;
    bool fresh = handoff_delivery_claim(delivery);
    HANDOFF_CHECK(fresh); /* ids are made once */
    handoff_delivery_enter(delivery, HANDOFF_STATE_READY, agent);
    submit_accept(delivery);
    return HANDOFF_OK;
}
