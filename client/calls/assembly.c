/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every call that assembles an envelope shares: setting an assembly up on a loop, describing
 * it as an event, and passing the token counts that it learnt to the spine, in a separate job that
 * no caller waits for.
 *
 * On the loop's thread.
 */
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "client/model/warnings.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { KEEPING_MAGIC = 0x6b656570 };

/* ---- beginning and ending ------------------------------------------------------------------ */

/* An assembly is in its own arena, with everything that it makes. Arenas are reused: their blocks
 * are among the largest that a handoff needs, and the C library would search, split and join for
 * each of them again. */
enum {
    ARENA_FIRST = 64 * 1024 - 64,  /* what a request of 8 KiB takes, and below what malloc maps */
    ARENA_LARGE = 2 * 1024 * 1024, /* a worker frees it: returning 25 MiB takes the kernel 3 ms */
    ARENA_KEPT = 256 * 1024,       /* a larger arena is freed: the most that a loop keeps idle */
};

static struct base_arena take_arena(struct handoff_loop *loop)
{
    struct base_arena arena;
    if (loop->nspare > 0)
        return loop->spare[--loop->nspare];
    base_arena_init(&arena, ARENA_FIRST);
    return arena;
}

static void give_back_arena(struct handoff_loop *loop, struct base_arena *arena)
{
    if (arena->held > ARENA_LARGE) {
        base_workers_free_arena(loop->client->workers, arena);
        return;
    }
    base_arena_reset(arena);
    if (loop->nspare < HANDOFF_SPARE_ARENAS && arena->held <= ARENA_KEPT)
        loop->spare[loop->nspare++] = *arena;
    else
        base_arena_free(arena);
}

enum handoff_code handoff_client_check_sender(const struct handoff_settings *settings,
                                              struct base_span source, struct handoff_error *error)
{
    const struct handoff_agent_options *options = settings ? &settings->options : NULL;
    if (!options || handoff_agent_takes_from(options, source))
        return HANDOFF_OK;
    char names[sizeof error->allowed] = "";
    for (size_t i = 0; i < options->nfrom; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 options->from[i]);
    handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                      "the target takes handoffs only from certain agents (agents.NAME.from)",
                      "source_agent", source.data);
    handoff_error_allow(error, "%s", names);
    return HANDOFF_ERR_FORBIDDEN;
}

static enum handoff_code look_up_target(struct handoff_assembly *assembly)
{
    struct handoff_client *client = assembly->loop->client;
    struct handoff_request *request = &assembly->request;
    enum handoff_code code = HANDOFF_OK;
    if (handoff_request_wants_next(request))
        code = handoff_pipelines_next(&client->pipelines, request->pipeline, request->source_agent,
                                      &assembly->arena, &request->target_agent, &assembly->error);
    if (code != HANDOFF_OK)
        return code;
    struct handoff_agent *agent = handoff_agents_find(client->agents, request->target_agent);
    struct handoff_settings *settings = agent ? handoff_agent_settings(agent) : NULL;
    assembly->token_budget = settings && settings->options.token_budget
                                 ? settings->options.token_budget
                                 : atomic_load(&client->default_token_budget);
    assembly->dual = settings && settings->options.emit == HANDOFF_EMIT_DUAL;
    assembly->usual_strategy = settings ? settings->options.strategy : HANDOFF_STRATEGY_PRIORITY;
    code = handoff_client_check_sender(settings, request->source_agent, &assembly->error);
    handoff_settings_release(&settings);
    return code;
}

struct handoff_assembly *handoff_client_begin_assembly(struct handoff_loop *loop,
                                                       const struct handoff_ask *ask)
{
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    struct base_arena arena = take_arena(loop);
    struct handoff_assembly *assembly = base_arena_alloc(&arena, sizeof *assembly);
    if (!assembly) {
        give_back_arena(loop, &arena);
        return NULL;
    }
    *assembly = (struct handoff_assembly){.arena = arena,
                                          .with = &loop->client->assembler,
                                          .loop = loop,
                                          .base = loop->lane->loop,
                                          .mailbox = loop->lane->mailbox,
                                          .body = base_span(ask->body, ask->size),
                                          .caller = base_span_text(ask->caller),
                                          .sender = base_span_text(ask->sender),
                                          .bound = ask->scopes,
                                          .given_traceparent = base_span_text(ask->traceparent),
                                          .given_tracestate = base_span_text(ask->tracestate),
                                          .lenient = ask->lenient,
                                          .secrets.policy = handoff_client_secrets(loop->client),
                                          .hop_max = atomic_load(&loop->client->hops_max),
                                          .any_task = ask->any_task,
                                          .forbids_new_chain =
                                              atomic_load(&loop->client->forbids_new_chain),
                                          .target = look_up_target};
    TAILQ_INSERT_TAIL(&loop->assemblies, assembly, entry);
    return assembly;
}

void handoff_client_end_assembly(struct handoff_assembly **assembly)
{
    struct handoff_loop *loop = (*assembly)->loop;
    handoff_client_tell_secrets(loop->client, &(*assembly)->secrets);
    TAILQ_REMOVE(&loop->assemblies, *assembly, entry);
    struct base_arena arena = handoff_assembly_end(*assembly);
    *assembly = NULL;
    give_back_arena(loop, &arena);
}

bool handoff_client_may_assemble_again(const struct handoff_assembly *assembly)
{
    enum { TIMES = 5 };
    return assembly->kept && assembly->overtaken < TIMES && handoff_continues_by_task(assembly);
}

/* Its texts and findings become those of the new one. */
static struct handoff_assembly *begin_anew(struct handoff_assembly *old)
{
    const struct handoff_ask ask = {.body = old->body.data,
                                    .size = old->body.size,
                                    .caller = old->caller.data,
                                    .sender = old->sender.data,
                                    .scopes = old->bound,
                                    .any_task = old->any_task,
                                    .traceparent = old->given_traceparent.data,
                                    .tracestate = old->given_tracestate.data,
                                    .lenient = old->lenient};
    struct handoff_assembly *assembly = handoff_client_begin_assembly(old->loop, &ask);
    if (assembly && !handoff_assembly_keep_texts(assembly))
        handoff_client_end_assembly(&assembly);
    if (!assembly)
        return NULL;
    assembly->context = old->context;
    assembly->finished = old->finished;
    assembly->warnings = old->warnings;
    assembly->parks_at_limit = old->parks_at_limit;
    assembly->overtaken = old->overtaken + 1;
    handoff_warnings_free(assembly->warnings);
    *assembly->warnings = (struct handoff_warnings){0};
    old->secrets = (struct handoff_secrets){0};
    return assembly;
}

bool handoff_client_assemble_again(struct handoff_assembly **assembly,
                                   const struct handoff_error *refusal)
{
    const bool overtaken =
        (refusal->code == HANDOFF_ERR_CONFLICT || refusal->code == HANDOFF_ERR_NOT_FOUND) &&
        strcmp(refusal->field, "previous_id") == 0;
    if (!overtaken || !handoff_client_may_assemble_again(*assembly))
        return false;
    struct handoff_assembly *again = begin_anew(*assembly);
    if (!again)
        return false;
    handoff_client_end_assembly(assembly);
    *assembly = again;
    return true;
}

void handoff_client_cancel_assemblies(struct handoff_loop *loop)
{
    struct handoff_assembly *next;
    for (struct handoff_assembly *assembly = TAILQ_FIRST(&loop->assemblies); assembly;
         assembly = next) {
        next = TAILQ_NEXT(assembly, entry);
        handoff_assembly_cancel(assembly, HANDOFF_ERR_SHUTTING_DOWN);
    }
}

/* ---- describing ---------------------------------------------------------------------------- */

static struct handoff_assembled assembled_of(const struct handoff_assembly *assembly, bool encoded)
{
    struct handoff_assembled assembled = {.resolve_ns = assembly->stage_ns[HANDOFF_STAGE_RESOLVE],
                                          .trim_ns = assembly->stage_ns[HANDOFF_STAGE_TRIM],
                                          .encode_ns = assembly->stage_ns[HANDOFF_STAGE_ENCODE],
                                          .budget = assembly->budget,
                                          .hop_count = assembly->hop_count,
                                          .cycle = assembly->request.doc &&
                                                   handoff_assembly_is_cycle(assembly),
                                          .ping_pong = handoff_assembly_is_ping_pong(assembly)};
    if (!encoded)
        return assembled;
    assembled.tokens = assembly->plan.count;
    assembled.memories = assembly->memories;
    assembled.items = assembly->items;
    return assembled;
}

void handoff_client_describe(const struct handoff_assembly *assembly, struct handoff_event *event)
{
    const struct handoff_request *request = &assembly->request;
    bool encoded = assembly->stage == HANDOFF_STAGES && assembly->error.code == HANDOFF_OK;
    *event = (struct handoff_event){.kind = HANDOFF_EVENT_ASSEMBLED,
                                    .code = assembly->error.code,
                                    .who = {.id = encoded ? assembly->id_text : NULL,
                                            .task_id = assembly->task_id.data,
                                            .source_agent = request->source_agent.data,
                                            .target_agent = request->target_agent.data,
                                            .pattern = (enum handoff_pattern)request->pattern},
                                    .of.assembled = assembled_of(assembly, encoded)};
    handoff_copy_trace_id(event->who.trace_id, handoff_trace_id(assembly->traceparent));
}

/* ---- token counts that were learnt --------------------------------------------------------- */

struct keeping {
    unsigned magic;
    struct handoff_loop *loop;
    struct base_arena arena;
    struct handoff_spine_keep_tokens keep;
};

static void free_keeping(struct keeping *keeping)
{
    base_arena_free(&keeping->arena);
    keeping->magic = 0;
    base_free(keeping);
}

static void kept(struct handoff_spine_call *call)
{
    struct keeping *keeping = BASE_CONTAINER_OF(call, struct keeping, keep.call);
    BASE_CHECK_MAGIC(keeping, KEEPING_MAGIC);
    keeping->loop->pending--;
    free_keeping(keeping);
}

static size_t count_learned(const struct handoff_assembly *assembly)
{
    size_t count = 0;
    for (size_t i = 0; i < assembly->nslots; i++) {
        for (int form = 0; form < HANDOFF_FORMS; form++)
            count += assembly->slots[i].learned[form];
    }
    return count;
}

/* The ids are copied, since the assembly ends before the spine has written them. */
static bool fill_counts(struct keeping *keeping, const struct handoff_assembly *assembly,
                        size_t count)
{
    static const enum handoff_memory_rendering renderings[HANDOFF_FORMS] = {
        [HANDOFF_FORM_FULL] = HANDOFF_RENDERING_FULL,
        [HANDOFF_FORM_SUMMARY] = HANDOFF_RENDERING_SUMMARY,
        [HANDOFF_FORM_REFERENCE] = HANDOFF_RENDERING_ID}; /* an id alone is never learned */
    struct handoff_token_count *counts = base_arena_calloc(&keeping->arena, count, sizeof(*counts));
    for (size_t i = 0, n = 0; counts && i < assembly->nslots; i++) {
        const struct handoff_slot *slot = &assembly->slots[i];
        for (int form = 0; form < HANDOFF_FORMS; form++) {
            if (!slot->learned[form])
                continue;
            struct base_span id = slot->show.id;
            id.data = base_arena_copy(&keeping->arena, id.data, id.size);
            if (!id.data)
                return false;
            counts[n++] = (struct handoff_token_count){.id = id,
                                                       .version = slot->version,
                                                       .rendering = renderings[form],
                                                       .tokens = slot->known[form]};
        }
    }
    keeping->keep.counts = counts;
    keeping->keep.count = count;
    return counts != NULL;
}

void handoff_client_keep_tokens(struct handoff_loop *loop, const struct handoff_assembly *assembly)
{
    size_t count = count_learned(assembly);
    if (count == 0)
        return;
    struct keeping *keeping = base_calloc(1, sizeof(*keeping));
    if (!keeping)
        return; /* the tokens are counted again the next time */
    keeping->magic = KEEPING_MAGIC;
    keeping->loop = loop;
    keeping->keep.call.mailbox = loop->lane->mailbox;
    keeping->keep.call.done = kept;
    keeping->keep.encoding = base_span_text(handoff_tokenizer_encoding(loop->client->tokenizer));
    if (!fill_counts(keeping, assembly, count) ||
        handoff_spine_keep_tokens(loop->client->spine, &keeping->keep) == HANDOFF_SPINE_DONE)
        free_keeping(keeping);
    else
        loop->pending++;
}
