/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes as a host asks for them: assembled and stored, or read in one form or another.
 *
 * One struct carries an assembly from the call to the answer. It is freed when the answer was
 * given; what the assembly learnt about token counts goes to the spine in a separate job, for
 * which no one waits.
 *
 * On the loop's thread.
 */
#include <string.h>

#include "client/assemble/visibility.h"
#include "client/calls/read.h"
#include "client/client.h"
#include "client/envelope/brief.h"
#include "client/envelope/legacy.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { ASSEMBLING_MAGIC = 0x61736d62, KEEPING_MAGIC = 0x6b656570 };

/* ---- setting up ---------------------------------------------------------------------------- */

struct assembling {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    int64_t persist_began_ns;
    struct handoff_assembly *assembly;
    struct handoff_store_put_envelope put;
};

/* An assembly lies in its own arena, with everything that it makes. The arena goes from one to the
 * next, for its blocks are among the largest of all that a handoff needs: the C library would look
 * for a place, split and join each of them again. */
enum {
    ARENA_FIRST = 64 * 1024 - 64, /* what a request of 8 KiB takes, and below what malloc maps */
    ARENA_KEPT = 256 * 1024,      /* a larger one is given back: so much a loop may hold idle */
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
    base_arena_reset(arena);
    if (loop->nspare < HANDOFF_SPARE_ARENAS && arena->held <= ARENA_KEPT)
        loop->spare[loop->nspare++] = *arena;
    else
        base_arena_free(arena);
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
    handoff_settings_release(&settings);
    return HANDOFF_OK;
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
                                          .mailbox = loop->lane->mailbox,
                                          .body = base_span(ask->body, ask->size),
                                          .caller = base_span_text(ask->caller),
                                          .given_traceparent = base_span_text(ask->traceparent),
                                          .given_tracestate = base_span_text(ask->tracestate),
                                          .hop_max = atomic_load(&loop->client->hops_max),
                                          .target = look_up_target};
    return assembly;
}

void handoff_client_end_assembly(struct handoff_assembly **assembly)
{
    struct handoff_loop *loop = (*assembly)->loop;
    struct base_arena arena = handoff_assembly_end(*assembly);
    *assembly = NULL;
    give_back_arena(loop, &arena);
}

/* ---- telling ------------------------------------------------------------------------------- */

static struct handoff_assembled assembled_of(const struct handoff_assembly *assembly, bool encoded)
{
    struct handoff_assembled assembled = {.resolve_ns = assembly->stage_ns[HANDOFF_STAGE_RESOLVE],
                                          .trim_ns = assembly->stage_ns[HANDOFF_STAGE_TRIM],
                                          .encode_ns = assembly->stage_ns[HANDOFF_STAGE_ENCODE],
                                          .budget = assembly->budget,
                                          .hop_count = assembly->hop_count,
                                          .cycle = assembly->request.doc &&
                                                   handoff_assembly_is_cycle(assembly)};
    if (!encoded)
        return assembled;
    assembled.tokens = assembly->plan.count;
    assembled.memories =
        (struct handoff_memory_counts){.requested = assembly->nslots + assembly->nmissing,
                                       .included = assembly->included,
                                       .missing = assembly->nmissing,
                                       .trimmed = assembly->nslots - assembly->included};
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
        [HANDOFF_FORM_REFERENCE] = HANDOFF_RENDERING_ID};
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
        return; /* they are counted again the next time */
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

/* ---- assembling ---------------------------------------------------------------------------- */

static void answer_assembling(struct assembling *assembling, const struct handoff_error *error)
{
    struct handoff_assembly *assembly = assembling->assembly;
    struct handoff_result text = {.error = *error};
    struct handoff_event event;
    handoff_client_describe(assembly, &event);
    event.code = error->code;
    if (assembling->persist_began_ns)
        event.of.assembled.persist_ns =
            base_monotonic_ns(assembly->with->clock) - assembling->persist_began_ns;
    handoff_client_tell(assembling->loop->client, &event);
    if (error->code == HANDOFF_OK) {
        text.body = assembly->out.data;
        text.size = assembly->out.size;
        text.created = true;
        handoff_client_keep_tokens(assembling->loop, assembly);
    }
    assembling->loop->pending--;
    assembling->answered(assembling->context, &text);
    handoff_client_end_assembly(&assembling->assembly);
    assembling->magic = 0;
    base_free(assembling);
}

static void persisted(struct handoff_store_job *job)
{
    struct assembling *assembling = BASE_CONTAINER_OF(job, struct assembling, put.job);
    BASE_CHECK_MAGIC(assembling, ASSEMBLING_MAGIC);
    answer_assembling(assembling, &job->error);
}

/* Nothing will be delivered, so the envelope is finished from the start. */
static void persist(struct assembling *assembling)
{
    struct handoff_assembly *assembly = assembling->assembly;
    assembling->put = (struct handoff_store_put_envelope){
        .job = {.mailbox = assembling->loop->lane->mailbox, .done = persisted},
        .id = assembly->id,
        .task_id = assembly->task_id,
        .body = base_buffer_span(&assembly->out),
        .cut_at = HANDOFF_DIGEST_AT,
        .cut_size = HANDOFF_DIGEST_SIZE,
        .created_ms = assembly->created_ms,
        .inheritance = handoff_inheritance_copy(&assembly->inheritance,
                                                base_buffer_span(&assembly->out), &assembly->arena),
        .finished = true};
    memcpy(assembling->put.digest, assembly->digest, sizeof(assembly->digest));
    assembling->persist_began_ns = base_monotonic_ns(assembly->with->clock);
    handoff_store_put_envelope(assembling->loop->client->store, &assembling->put);
}

static void assembled(struct handoff_assembly *assembly)
{
    struct assembling *assembling = assembly->context;
    BASE_CHECK_MAGIC(assembling, ASSEMBLING_MAGIC);
    handoff_client_tell_spine(assembling->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &assembly->resolve.call, assembly->spine_ns);
    if (assembly->error.code == HANDOFF_OK)
        persist(assembling);
    else
        answer_assembling(assembling, &assembly->error);
}

void handoff_envelope_assemble(struct handoff_loop *loop, const struct handoff_ask *ask,
                               handoff_answered *answered, void *context)
{
    struct assembling *assembling = base_calloc(1, sizeof(*assembling));
    struct handoff_assembly *assembly =
        assembling ? handoff_client_begin_assembly(loop, ask) : NULL;
    if (!assembly) {
        base_free(assembling);
        struct handoff_result refusal = {0};
        handoff_error_no_memory(&refusal.error);
        answered(context, &refusal);
        return;
    }
    assembling->magic = ASSEMBLING_MAGIC;
    assembling->loop = loop;
    assembling->answered = answered;
    assembling->context = context;
    assembling->assembly = assembly;
    assembly->context = assembling;
    assembly->finished = assembled;
    loop->pending++;
    if (handoff_assembly_run(assembly))
        assembled(assembly);
}

/* ---- reading ------------------------------------------------------------------------------- */

static enum handoff_code render(const struct handoff_envelope *envelope,
                                enum handoff_rendering rendering, struct handoff_text *text,
                                struct handoff_error *error)
{
    struct base_buffer out = {0};
    if (rendering == HANDOFF_RENDER_MARKDOWN)
        handoff_brief_write(&out, envelope);
    else
        handoff_legacy_write(&out, envelope);
    return handoff_client_give(&out, text, error);
}

static enum handoff_code give_copy(struct base_span body, struct handoff_text *text,
                                   struct handoff_error *error)
{
    struct base_buffer out = {0};
    base_buffer_append(&out, body.data, body.size);
    return handoff_client_give(&out, text, error);
}

enum handoff_code handoff_envelope_render(const char *envelope, size_t size,
                                          enum handoff_rendering rendering,
                                          struct handoff_text *text, struct handoff_error *error)
{
    struct base_span body = base_span(envelope, size);
    struct handoff_envelope parsed;
    *text = (struct handoff_text){0};
    if (rendering == HANDOFF_RENDER_STORED)
        return give_copy(body, text, error);
    enum handoff_code code = handoff_envelope_read(body, &parsed, error);
    if (code != HANDOFF_OK)
        return code;
    code = render(&parsed, rendering, text, error);
    handoff_envelope_free(&parsed);
    return code;
}

static enum handoff_code check_sight(struct handoff_client *client, const struct base_uuid *id,
                                     struct base_span body, const char *caller,
                                     struct handoff_error *error)
{
    struct handoff_envelope parsed;
    if (!caller)
        return HANDOFF_OK;
    enum handoff_code code = handoff_envelope_read(body, &parsed, error);
    if (code != HANDOFF_OK)
        return code;
    code = handoff_visibility_check(client->store, id, &parsed, base_span_text(caller), error);
    handoff_envelope_free(&parsed);
    return code;
}

/* The same where retention removed the body: by what is left of it, or by its handoff. */
static enum handoff_code check_sight_of_removed(struct handoff_client *client,
                                                const struct base_uuid *id,
                                                const struct handoff_stored_envelope *stored,
                                                const char *caller, struct base_arena *arena,
                                                struct handoff_error *error)
{
    struct handoff_envelope left = {0};
    enum handoff_code code = HANDOFF_OK;
    size_t steps;
    if (!caller)
        return HANDOFF_OK;
    if (stored->inheritance.data)
        code = handoff_inheritance_read(stored->inheritance, id, stored->digest, arena, &left,
                                        &steps, error);
    if (code == HANDOFF_OK)
        code = handoff_visibility_check(client->store, id, &left, base_span_text(caller), error);
    handoff_envelope_free(&left);
    return code;
}

/* That it was removed, to those who might see it. */
static enum handoff_code tell_removed(struct handoff_client *client, const struct base_uuid *id,
                                      const struct handoff_stored_envelope *stored,
                                      const char *caller, struct base_arena *arena,
                                      struct handoff_error *error)
{
    struct handoff_error unseen;
    enum handoff_code code = check_sight_of_removed(client, id, stored, caller, arena, &unseen);
    if (code == HANDOFF_OK)
        return HANDOFF_ERR_ENVELOPE_REMOVED;
    if (error)
        *error = unseen;
    return code;
}

enum handoff_code handoff_read_envelope(struct handoff_client *client, const char *id,
                                        const char *caller, enum handoff_rendering rendering,
                                        struct handoff_text *text, struct handoff_error *error)
{
    struct handoff_stored_envelope stored;
    struct base_arena arena;
    struct base_uuid uuid = {0};
    enum handoff_code code = HANDOFF_ERR_NOT_FOUND;
    BASE_CHECK_MAGIC(client, HANDOFF_CLIENT_MAGIC);
    *text = (struct handoff_text){0};
    base_arena_init(&arena, 0);
    if (base_uuid_parse(id, strlen(id), &uuid))
        code = handoff_store_get_envelope(client->store, &uuid, &arena, &stored, error);
    if (code == HANDOFF_OK)
        code = check_sight(client, &uuid, stored.body, caller, error);
    else if (code == HANDOFF_ERR_ENVELOPE_REMOVED)
        code = tell_removed(client, &uuid, &stored, caller, &arena, error);
    if (code == HANDOFF_OK)
        code = handoff_envelope_render(stored.body.data, stored.body.size, rendering, text, error);
    base_arena_free(&arena);
    if (code == HANDOFF_ERR_NOT_FOUND)
        handoff_error_set(error, code, "no handoff has this id", "id", id);
    return code;
}
