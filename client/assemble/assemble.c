/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of stages, the time each takes, and where they run.
 *
 * Stages run on the assembly's loop as long as there is little to do. From the moment when the
 * texts are so long that a stage could keep the loop for more than 2 ms (a long body, a long
 * parent, long memories), the rest is computed on a worker (workers.h). A stage that waits for
 * something does not ask by itself, since the answer comes by mail and could overtake the worker:
 * it names the question, and the loop asks. So between two questions the assembly belongs to one
 * thread.
 */
#include "client/assemble/assemble.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

/* The host lends its texts for one call only, and the spine may answer after it. */
static bool copy_lent_text(struct handoff_assembly *assembly, struct base_span *text)
{
    if (text->data)
        text->data = base_arena_copy(&assembly->arena, text->data, text->size);
    return text->data || text->size == 0;
}

static bool copy_bound(struct handoff_assembly *assembly)
{
    if (assembly->bound)
        assembly->bound = base_arena_strdup(&assembly->arena, assembly->bound);
    else
        return true;
    return assembly->bound;
}

static bool copy_lent_names(struct handoff_assembly *assembly)
{
    return copy_lent_text(assembly, &assembly->caller) && copy_bound(assembly) &&
           copy_lent_text(assembly, &assembly->sender) &&
           copy_lent_text(assembly, &assembly->given_traceparent) &&
           copy_lent_text(assembly, &assembly->given_tracestate);
}

bool handoff_assembly_keep_texts(struct handoff_assembly *assembly)
{
    if (!assembly->kept)
        assembly->kept = copy_lent_text(assembly, &assembly->body) && copy_lent_names(assembly);
    return assembly->kept;
}

struct base_span handoff_assembly_sender(const struct handoff_assembly *assembly)
{
    return assembly->caller.data ? assembly->caller : assembly->sender;
}

/* It is passed on with the envelope; without it, the trace goes on as well. */
static void search_tracestate(struct handoff_assembly *assembly)
{
    struct handoff_error unused;
    if (handoff_secrets_in_id(&assembly->secrets, "tracestate", HANDOFF_SECRET_PLACE_REQUEST,
                              assembly->given_tracestate, &unused) != HANDOFF_OK)
        assembly->given_tracestate = (struct base_span){0};
}

static enum handoff_code read_request(struct handoff_assembly *assembly)
{
    assembly->secrets.arena = &assembly->arena;
    search_tracestate(assembly);
    enum handoff_code code = handoff_request_read(
        &assembly->arena, assembly->body, handoff_assembly_sender(assembly), &assembly->secrets,
        assembly->warnings, assembly->lenient, &assembly->request, &assembly->error);
    if (code == HANDOFF_OK && assembly->warnings)
        handoff_secrets_warn(&assembly->secrets, assembly->warnings);
    if (code == HANDOFF_ERR_FORBIDDEN && !assembly->caller.data)
        assembly->error.message = HANDOFF_ONE_SENDER;
    return code;
}

static enum handoff_progress stage_validate(struct handoff_assembly *assembly)
{
    if (!assembly->kept && !copy_lent_names(assembly)) {
        handoff_error_no_memory(&assembly->error);
        return HANDOFF_PROGRESS_FAILED;
    }
    if (read_request(assembly) != HANDOFF_OK)
        return HANDOFF_PROGRESS_FAILED;
    if (assembly->target(assembly) != HANDOFF_OK)
        return HANDOFF_PROGRESS_FAILED;
    if (assembly->request.strategy < 0)
        assembly->request.strategy = (int)assembly->usual_strategy;
    return HANDOFF_PROGRESS_NEXT;
}

static const struct stage {
    const char *name;
    enum handoff_progress (*run)(struct handoff_assembly *);
} stages[HANDOFF_STAGES] = {
    [HANDOFF_STAGE_VALIDATE] = {"validate", stage_validate},
    [HANDOFF_STAGE_INHERIT] = {"inherit", handoff_stage_inherit},
    [HANDOFF_STAGE_RESOLVE] = {"resolve", handoff_stage_resolve},
    [HANDOFF_STAGE_TRIM] = {"trim", handoff_stage_trim},
    [HANDOFF_STAGE_ENCODE] = {"encode", handoff_stage_encode},
};

const char *handoff_stage_name(enum handoff_stage stage)
{
    return stages[stage].name;
}

/* ---- running -------------------------------------------------------------------------------- */

enum {
    /* A word that nothing cuts takes 0.1 us a byte (tests/bench/bench_tokens.c): 1.7 ms. */
    UNCOUNTED_ON_LOOP = 16 * 1024,
    /* Parsing, copying and hashing take up to 10 ns a byte. */
    SIZE_ON_LOOP = 64 * 1024,
    WORKER_TIMEOUT_MS = 30 * 1000, /* as long as a sender's usual patience */
};

/* Memories that were found are sorted out before they are counted. */
static bool is_for_worker(const struct handoff_assembly *assembly)
{
    const size_t uncounted = assembly->resolved ? 0 : assembly->uncounted;
    return assembly->base && assembly->with->workers &&
           (uncounted > UNCOUNTED_ON_LOOP || assembly->size > SIZE_ON_LOOP);
}

/* Of an assembly that asks for nothing, and is handed to a worker instead. */
static bool ask_for_nothing(struct handoff_assembly *assembly)
{
    (void)assembly;
    return false;
}

/* Runs stages until all are done or one waits, or the next is one for a worker; anywhere. */
static void compute(struct handoff_assembly *assembly, bool on_loop)
{
    const struct base_clock *clock = assembly->with->clock;
    if (!assembly->stage_began_ns)
        assembly->stage_began_ns = base_monotonic_ns(clock);
    while (assembly->stage < HANDOFF_STAGES) {
        if (on_loop && is_for_worker(assembly)) {
            assembly->ask = ask_for_nothing;
            return;
        }
        enum handoff_progress progress = stages[assembly->stage].run(assembly);
        if (progress == HANDOFF_PROGRESS_ASK)
            return;
        BASE_CHECK((progress == HANDOFF_PROGRESS_FAILED) == (assembly->error.code != HANDOFF_OK));
        int64_t now = base_monotonic_ns(clock);
        assembly->stage_ns[assembly->stage] += now - assembly->stage_began_ns;
        assembly->stage_began_ns = now;
        assembly->stage =
            progress == HANDOFF_PROGRESS_RERANK ? HANDOFF_STAGE_RESOLVE : assembly->stage + 1;
        if (progress == HANDOFF_PROGRESS_FAILED || base_op_is_unwanted(&assembly->work.op))
            break;
    }
    assembly->over = true;
}

enum handoff_code handoff_refuse_long_request(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
                             "too many large requests are waiting to be processed; try again later",
                             NULL, NULL);
}

static enum handoff_code fail_unwanted(struct handoff_assembly *assembly)
{
    if (assembly->cancelled)
        return handoff_error_set(&assembly->error, assembly->cancelled,
                                 handoff_code_meaning(assembly->cancelled), NULL, NULL);
    return handoff_refuse_long_request(&assembly->error);
}

/* ---- on a worker ---------------------------------------------------------------------------- */

static struct handoff_assembly *assembly_of_work(struct base_work *work)
{
    return BASE_CONTAINER_OF(work, struct handoff_assembly, work);
}

/* NULL: out of memory, or there is nothing to copy; then delivery copies it. */
static char *copy_for_delivery(const struct base_buffer *text)
{
    char *copy = text->size > 0 ? base_malloc(text->size + 1) : NULL;
    if (copy)
        memcpy(copy, text->data, text->size + 1); /* with its NUL */
    return copy;
}

static void compute_on_worker(struct base_work *work)
{
    struct handoff_assembly *assembly = assembly_of_work(work);
    compute(assembly, false);
    if (!assembly->over || assembly->error.code != HANDOFF_OK)
        return;
    assembly->own_envelope = copy_for_delivery(&assembly->out);
    assembly->own_contribution = copy_for_delivery(&assembly->contribution);
}

static bool ask_and_go_on(struct handoff_assembly *assembly);

/* The loop has it again. */
static void worker_is_done(struct base_op *op)
{
    struct handoff_assembly *assembly =
        assembly_of_work(BASE_CONTAINER_OF(op, struct base_work, op));
    if (base_op_is_unwanted(op) && assembly->error.code == HANDOFF_OK)
        fail_unwanted(assembly);
    if (assembly->error.code != HANDOFF_OK || ask_and_go_on(assembly))
        assembly->finished(assembly);
}

/* False: it cannot be handed over, and has failed. */
static bool hand_to_worker(struct handoff_assembly *assembly)
{
    if (!handoff_assembly_keep_texts(assembly)) {
        handoff_error_no_memory(&assembly->error);
        return false;
    }
    assembly->work.bytes = assembly->size;
    if (base_workers_submit(assembly->with->workers, &assembly->work, assembly->base,
                            WORKER_TIMEOUT_MS, compute_on_worker, worker_is_done))
        return true;
    return handoff_refuse_long_request(&assembly->error) == HANDOFF_OK;
}

/* ---- on the loop ---------------------------------------------------------------------------- */

/* True: it is over. */
static bool run_on(struct handoff_assembly *assembly)
{
    if (assembly->cancelled)
        return fail_unwanted(assembly) != HANDOFF_OK;
    if (is_for_worker(assembly))
        return !hand_to_worker(assembly);
    compute(assembly, true);
    return ask_and_go_on(assembly);
}

/* The same, where it may have to ask first. */
static bool ask_and_go_on(struct handoff_assembly *assembly)
{
    if (assembly->over)
        return true;
    return !assembly->ask(assembly) && run_on(assembly);
}

bool handoff_assembly_run(struct handoff_assembly *assembly)
{
    assembly->size = assembly->uncounted = assembly->body.size;
    return run_on(assembly);
}

static void free_own_copies(struct handoff_assembly *assembly)
{
    base_free(assembly->own_envelope);
    base_free(assembly->own_contribution);
    assembly->own_envelope = assembly->own_contribution = NULL;
}

bool handoff_assembly_run_again(struct handoff_assembly *assembly, uint64_t token_budget)
{
    BASE_CHECK(assembly->over && assembly->stage >= HANDOFF_STAGE_TRIM);
    free_own_copies(assembly);
    handoff_error_clear(&assembly->error);
    memset(assembly->stage_ns, 0, sizeof assembly->stage_ns);
    assembly->out = assembly->contribution = assembly->passed_on = (struct base_buffer){0};
    assembly->excerpt = (struct handoff_excerpt){0};
    assembly->items = (struct handoff_item_counts){0};
    assembly->token_budget = token_budget;
    assembly->stage = HANDOFF_STAGE_TRIM;
    assembly->stage_began_ns = 0;
    assembly->over = false;
    return run_on(assembly);
}

void handoff_assembly_go_on(struct handoff_assembly *assembly)
{
    if (run_on(assembly))
        assembly->finished(assembly);
}

void handoff_assembly_cancel(struct handoff_assembly *assembly, enum handoff_code why)
{
    assembly->cancelled = why;
    base_op_cancel(&assembly->work.op);
}

bool handoff_assembly_is_cycle_to(const struct handoff_assembly *assembly, struct base_span target)
{
    for (size_t i = 0; i < assembly->npath; i++) {
        if (base_span_equal(assembly->path[i], target))
            return true;
    }
    return base_span_equal(assembly->request.source_agent, target);
}

bool handoff_assembly_is_cycle(const struct handoff_assembly *assembly)
{
    return handoff_assembly_is_cycle_to(assembly, assembly->request.target_agent);
}

bool handoff_assembly_is_ping_pong(const struct handoff_assembly *assembly)
{
    return assembly->ledger.fruitless >= HANDOFF_PING_PONG_HOPS;
}

bool handoff_assembly_is_ping_pong_with(const struct handoff_assembly *assembly,
                                        struct base_span target)
{
    return handoff_assembly_is_ping_pong(assembly) && assembly->npath > 0 &&
           base_span_equal(assembly->path[assembly->npath - 1], target);
}

struct base_arena handoff_assembly_end(struct handoff_assembly *assembly)
{
    free_own_copies(assembly);
    struct base_arena arena = assembly->arena;
    handoff_request_free(&assembly->request);
    return arena;
}

void handoff_assembly_free(struct handoff_assembly *assembly)
{
    struct base_arena arena = handoff_assembly_end(assembly);
    *assembly = (struct handoff_assembly){0};
    base_arena_free(&arena);
}
