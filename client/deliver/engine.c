/* SPDX-License-Identifier: Apache-2.0 */
/* What all lanes share: struct handoff_engine (delivery.h). Threads: see engine.h. */
#include "client/deliver/engine.h"

#include "client/agents/circuit.h"
#include "client/deliver/delivery.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { ENGINE_MAGIC = 0x656e676eu };

enum handoff_code handoff_engine_new(struct handoff_engine **engine,
                                     const struct handoff_engine_options *options,
                                     struct handoff_error *error)
{
    *engine = NULL;
    struct handoff_engine *made = base_calloc(1, sizeof *made);
    if (!made || !handoff_live_init(&made->live) || !handoff_turns_init(&made->turns)) {
        if (made)
            handoff_live_free(&made->live);
        base_free(made);
        return handoff_error_no_memory(error);
    }
    made->magic = ENGINE_MAGIC;
    made->options = *options;
    made->connections.most = options->connections_max;
    *engine = made;
    return HANDOFF_OK;
}

void handoff_engine_free(struct handoff_engine **engine)
{
    struct handoff_engine *dying = *engine;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, ENGINE_MAGIC);
    *engine = NULL;
    handoff_live_free(&dying->live);
    handoff_turns_free(&dying->turns);
    dying->magic = 0;
    base_free(dying);
}

void handoff_engine_limit(struct handoff_engine *engine, unsigned all, unsigned per_agent)
{
    atomic_store(&engine->max_in_flight, all);
    atomic_store(&engine->max_in_flight_per_agent, per_agent);
}

void handoff_engine_drain(struct handoff_engine *engine)
{
    atomic_store(&engine->draining, true);
}

void handoff_engine_wind_down(struct handoff_engine *engine)
{
    handoff_engine_drain(engine);
    atomic_store(&engine->winding_down, true);
}

bool handoff_engine_is_draining(const struct handoff_engine *engine)
{
    return atomic_load(&engine->draining);
}

struct handoff_live *handoff_engine_live(struct handoff_engine *engine)
{
    return &engine->live;
}

unsigned handoff_engine_in_flight(const struct handoff_engine *engine)
{
    return atomic_load_explicit(&engine->in_flight, memory_order_relaxed);
}

unsigned handoff_engine_attempting(const struct handoff_engine *engine)
{
    return atomic_load_explicit(&engine->attempting, memory_order_relaxed);
}

static void observe_reset(const struct handoff_engine *engine, const struct handoff_agent *agent,
                          const struct handoff_breaker *after)
{
    const struct handoff_event event = {
        .kind = HANDOFF_EVENT_CIRCUIT,
        .who.target_agent = agent->name,
        .of.circuit = {.circuit = after->circuit, .closed = after->closed}};
    if (engine->options.observe)
        engine->options.observe(engine->options.observer, &event);
}

enum handoff_code handoff_engine_reset(struct handoff_engine *engine, struct handoff_lane *lane,
                                       const char *name, handoff_circuit_saved *saved,
                                       void *context, struct handoff_error *error)
{
    struct handoff_breaker after;
    struct handoff_agent *agent = handoff_agents_find(engine->options.agents, base_span_text(name));
    if (!agent)
        return handoff_agents_refuse_unknown(engine->options.agents, base_span_text(name), "name",
                                             error);
    if (handoff_agent_learn(agent, HANDOFF_BREAKER_RESET, handoff_lane_now_ms(lane), &after))
        observe_reset(engine, agent, &after);
    /* save even if it was closed already: that may not be on disk yet */
    return handoff_circuit_save(lane, agent, saved, context) ? HANDOFF_OK
                                                             : handoff_error_no_memory(error);
}
