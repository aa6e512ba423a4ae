/* SPDX-License-Identifier: Apache-2.0 */
#include "client/deliver/parked.h"

#include "client/base/check.h"
#include "client/base/error.h"
#include "client/deliver/delivery.h"

static enum handoff_code check_parked(const struct handoff_lane *lane,
                                      const struct handoff_stored *stored,
                                      enum handoff_decision decision, struct handoff_error *error)
{
    const struct handoff_clock *clock = lane->engine->options.clock;
    enum handoff_state state;
    if (!handoff_state_from_number(stored->standing.state, &state))
        return handoff_error_set(error, HANDOFF_ERR_STORE_NEWER,
                                 "a newer version of this program wrote a state that this one does "
                                 "not know",
                                 "state", NULL);
    if (state != HANDOFF_STATE_PARKED)
        return handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                                 "only a parked handoff can be replayed or discarded", "state",
                                 handoff_state_name(state));
    if (decision == HANDOFF_DECISION_REPLAY && stored->deadline_ms &&
        stored->deadline_ms <= handoff_wall_ms(clock))
        return handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                                 "its deadline has passed; discard it, or send a new handoff with "
                                 "previous_id and a later deadline",
                                 "constraints.deadline", NULL);
    return HANDOFF_OK;
}

/* Whom it is for: the agent it was parked for, or the one that was named. */
static enum handoff_code find_agent(struct handoff_agents *agents,
                                    const struct handoff_stored *stored,
                                    enum handoff_decision decision, struct handoff_span target,
                                    struct handoff_agent **agent, struct handoff_error *error)
{
    struct handoff_span name = target.data ? target : stored->standing.target;
    *agent = decision == HANDOFF_DECISION_REPLAY ? handoff_agents_find(agents, name)
                                                 : handoff_agents_remember(agents, name);
    if (*agent)
        return HANDOFF_OK;
    if (decision != HANDOFF_DECISION_REPLAY)
        return handoff_error_no_memory(error);
    handoff_error_set(error, HANDOFF_ERR_UNKNOWN_AGENT,
                      "the configuration has no agent of this name", "target_agent", NULL);
    handoff_error_seen(error, "%.*s", (int)(name.size < 128 ? name.size : 128), name.data);
    return HANDOFF_ERR_UNKNOWN_AGENT;
}

static enum handoff_code enter(struct handoff_delivery *delivery, struct handoff_agent *agent,
                               enum handoff_decision decision, struct handoff_error *error)
{
    struct handoff_engine *engine = delivery->lane->engine;
    bool live = decision == HANDOFF_DECISION_REPLAY;
    if (live && !handoff_delivery_count(engine, agent, true))
        return handoff_error_set(error, HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
                                 "as many handoffs are under way as may be; try again when some "
                                 "have ended",
                                 "target_agent", agent->name);
    if (handoff_delivery_enter(delivery, HANDOFF_STATE_PARKED, agent))
        return HANDOFF_OK;
    if (live)
        handoff_delivery_uncount(engine, agent);
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT, "somebody else has just decided about it",
                             "id", delivery->id_text);
}

static void carry_out(struct handoff_delivery *delivery, enum handoff_decision decision,
                      const char *reason)
{
    switch (decision) {
    case HANDOFF_DECISION_REPLAY:
        handoff_delivery_replay(delivery);
        break;
    case HANDOFF_DECISION_DISCARD:
        handoff_delivery_discard(delivery, reason);
        break;
    case HANDOFF_DECISION_ACKNOWLEDGE:
        handoff_delivery_settle_late(delivery);
        break;
    }
}

static enum handoff_code decide(struct handoff_lane *lane, const struct handoff_stored *stored,
                                enum handoff_decision decision, struct handoff_span target,
                                struct handoff_span reason, struct handoff_waiter *waiter,
                                struct handoff_error *error)
{
    struct handoff_agent *agent;
    struct handoff_delivery *delivery;
    enum handoff_code code = check_parked(lane, stored, decision, error);
    if (code == HANDOFF_OK)
        code = find_agent(lane->engine->options.agents, stored, decision, target, &agent, error);
    if (code == HANDOFF_OK)
        code = handoff_delivery_load(lane, stored, &delivery, error);
    if (code != HANDOFF_OK)
        return code;
    const char *words = handoff_arena_printf(&delivery->arena, "%.*s", (int)reason.size,
                                             reason.data ? reason.data : "");
    code = words ? enter(delivery, agent, decision, error) : handoff_error_no_memory(error);
    if (code != HANDOFF_OK) {
        handoff_delivery_free(delivery);
        return code;
    }
    delivery->waiter = waiter;
    if (waiter)
        waiter->delivery = delivery;
    carry_out(delivery, decision, words);
    return HANDOFF_OK;
}

enum handoff_code handoff_engine_decide(struct handoff_lane *lane, const struct handoff_uuid *id,
                                        enum handoff_decision decision, struct handoff_span target,
                                        struct handoff_span reason, struct handoff_waiter *waiter,
                                        struct handoff_error *error)
{
    struct handoff_arena arena;
    struct handoff_stored stored;
    HANDOFF_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    handoff_arena_init(&arena, 0);
    enum handoff_code code =
        handoff_store_get_handoff(lane->engine->options.store, id, &arena, &stored, error);
    if (code == HANDOFF_OK)
        code = decide(lane, &stored, decision, target, reason, waiter, error);
    handoff_arena_free(&arena);
    return code;
}
