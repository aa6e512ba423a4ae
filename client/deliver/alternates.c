/* SPDX-License-Identifier: Apache-2.0 */
/* What happens if an agent cannot be reached: its alternates are tried in order, then the handoff
   is parked. Also what the breakers learn from attempts. Runs on the lane of the delivery. */
#include "client/agents/circuit.h"
#include "client/deliver/delivery.h"
#include "client/deliver/obstacle.h"
#include "client/model/model.h"

/* ---- the breaker ---------------------------------------------------------------------------- */

void handoff_delivery_learn(struct handoff_delivery *delivery, enum handoff_breaker_event event)
{
    struct handoff_breaker after;
    if (!handoff_agent_learn(delivery->agent, event, handoff_lane_now_ms(delivery->lane), &after))
        return;
    handoff_delivery_observe_circuit(delivery, &after);
    (void)!handoff_circuit_save(delivery->lane, delivery->agent, NULL, NULL);
}

void handoff_delivery_report_probe(struct handoff_delivery *delivery,
                                   enum handoff_breaker_event event)
{
    if (delivery->probe)
        handoff_delivery_learn(delivery, event);
    delivery->probe = false;
}

/* ---- where to ------------------------------------------------------------------------------- */

/* Why the handoff cannot go to this agent; NONE if it can go there now. */
/* An operator who replays may send it anywhere; an alternate is chosen by nobody. */
static bool is_sender_for(const struct handoff_delivery *delivery, struct handoff_agent *agent)
{
    struct handoff_settings *settings = handoff_agent_settings(agent);
    const bool taken = !settings || handoff_agent_takes_from(&settings->options, delivery->source);
    handoff_settings_release(&settings);
    return taken;
}

static enum handoff_obstacle obstacle_to(const struct handoff_delivery *delivery,
                                         struct handoff_agent *agent)
{
    if (agent && agent == delivery->agent)
        return HANDOFF_OBSTACLE_TRIED;
    if (agent && !is_sender_for(delivery, agent))
        return HANDOFF_OBSTACLE_SENDER;
    return handoff_fit_obstacle(agent, delivery->envelope, delivery->tokens,
                                handoff_lane_now_ms(delivery->lane));
}

struct handoff_agent *handoff_delivery_next_alternate(struct handoff_delivery *delivery)
{
    struct handoff_agents *agents = delivery->lane->engine->options.agents;
    struct handoff_agent *asked = handoff_agents_find(agents, delivery->asked_target);
    struct handoff_settings *settings = asked ? handoff_agent_settings(asked) : NULL;
    struct handoff_agent *found = NULL;
    while (settings && !found && delivery->alternate < settings->options.nalternates) {
        const char *name = settings->options.alternates[delivery->alternate++];
        struct handoff_agent *agent = handoff_agents_find(agents, base_span_text(name));
        enum handoff_obstacle obstacle = obstacle_to(delivery, agent);
        if (obstacle != HANDOFF_OBSTACLE_NONE)
            handoff_delivery_pass_over(delivery, name, obstacle);
        else
            found = agent;
    }
    handoff_settings_release(&settings);
    return found;
}

void handoff_delivery_give_up(struct handoff_delivery *delivery, enum handoff_reason reason)
{
    handoff_settings_release(&delivery->settings);
    struct handoff_agent *alternate = handoff_delivery_next_alternate(delivery);
    if (!alternate) {
        delivery->reason = reason;
        handoff_delivery_move(delivery, HANDOFF_STATE_PARKED);
        return;
    }
    handoff_delivery_hand_to(delivery, alternate);
    if (delivery->state == HANDOFF_STATE_READY)
        handoff_delivery_write(delivery);
    else
        handoff_delivery_move(delivery, HANDOFF_STATE_READY);
}

void handoff_delivery_give_up_untried(struct handoff_delivery *delivery,
                                      enum handoff_obstacle obstacle)
{
    handoff_delivery_pass_over(delivery, delivery->agent->name, obstacle);
    handoff_delivery_give_up(delivery, handoff_obstacle_reason(obstacle));
}
