/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persists the state of a breaker, see circuit.h. On the thread of the lane whose attempt changed
 * it; the store's writer thread writes it.
 */
#include "client/agents/circuit.h"

#include "client/deliver/delivery.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

struct circuit_write {
    struct handoff_store_circuit store; /* first */
    struct handoff_lane *lane;
    handoff_circuit_saved *saved; /* or NULL */
    void *context;
};

static void circuit_written(struct handoff_store_job *job)
{
    struct circuit_write *write = (void *)job;
    write->lane->awaited--;
    if (write->saved)
        write->saved(write->context, &job->error);
    base_free(write);
}

bool handoff_circuit_save(struct handoff_lane *lane, struct handoff_agent *agent,
                          handoff_circuit_saved *saved, void *context)
{
    const struct handoff_engine_options *options = &lane->engine->options;
    const struct handoff_breaker *breaker = &agent->breaker;
    struct circuit_write *write = base_calloc(1, sizeof *write);
    if (!write)
        return false;
    write->lane = lane;
    write->saved = saved;
    write->context = context;
    write->store.job.mailbox = lane->mailbox;
    write->store.job.done = circuit_written;
    write->store.circuit.agent = base_span(agent->name, agent->name_size);
    lane->awaited++;
    pthread_mutex_lock(&agent->lock); /* submitted under it, so in the order of what happened */
    write->store.circuit.consecutive_failures = breaker->consecutive_failures;
    if (breaker->circuit != HANDOFF_CIRCUIT_CLOSED)
        write->store.circuit.open_until_ms =
            base_wall_ms(options->clock) + breaker->open_until_ms - handoff_lane_now_ms(lane);
    handoff_store_put_circuit(options->store, &write->store);
    pthread_mutex_unlock(&agent->lock);
    return true;
}

static bool restore_one(struct handoff_engine *engine, const struct handoff_stored_circuit *stored)
{
    const struct base_clock *clock = engine->options.clock;
    struct handoff_agent *agent = handoff_agents_remember(engine->options.agents, stored->agent);
    if (!agent)
        return false;
    pthread_mutex_lock(&agent->lock);
    agent->breaker.consecutive_failures = stored->consecutive_failures;
    if (stored->open_until_ms) {
        agent->breaker.circuit = HANDOFF_CIRCUIT_OPEN;
        agent->breaker.open_until_ms =
            base_monotonic_ns(clock) / 1000000 + stored->open_until_ms - base_wall_ms(clock);
    }
    pthread_mutex_unlock(&agent->lock);
    return true;
}

static enum handoff_code restore_circuits(struct handoff_engine *engine,
                                          struct handoff_error *error)
{
    struct base_arena arena;
    struct handoff_stored_circuit *circuits;
    size_t count;
    base_arena_init(&arena, 0);
    enum handoff_code code =
        handoff_store_circuits(engine->options.store, &arena, &circuits, &count, error);
    for (size_t i = 0; code == HANDOFF_OK && i < count; i++)
        if (!restore_one(engine, &circuits[i]))
            code = handoff_error_no_memory(error);
    base_arena_free(&arena);
    return code;
}

struct restoring {
    struct handoff_agents *agents;
    bool no_memory;
};

static void restore_parked(void *arg, struct base_span target, int64_t settled_ms)
{
    struct restoring *restoring = arg;
    struct handoff_agent *agent = handoff_agents_remember(restoring->agents, target);
    if (agent)
        handoff_parked_note(agent, settled_ms);
    else
        restoring->no_memory = true;
}

enum handoff_code handoff_engine_restore(struct handoff_engine *engine, struct handoff_error *error)
{
    struct restoring restoring = {.agents = engine->options.agents};
    enum handoff_code code = restore_circuits(engine, error);
    if (code == HANDOFF_OK)
        code = handoff_store_visit_parked(engine->options.store, restore_parked, &restoring, error);
    return restoring.no_memory ? handoff_error_no_memory(error) : code;
}
