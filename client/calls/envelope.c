/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes as a host asks for them: assembled and stored, or read in one form or another.
 *
 * One struct carries an assembly from the call to the answer, and is freed then.
 *
 * On the loop's thread.
 */
#include <string.h>

#include "client/assemble/visibility.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/calls/warn.h"
#include "client/client.h"
#include "client/envelope/brief.h"
#include "client/envelope/inheritance.h"
#include "client/envelope/legacy.h"
#include "client/store/handoffs.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { ASSEMBLING_MAGIC = 0x61736d62 };

/* ---- assembling ---------------------------------------------------------------------------- */

struct assembling {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    int64_t persist_began_ns;
    struct handoff_assembly *assembly;
    struct handoff_store_put_envelope put;
};

static void answer_assembling(struct assembling *assembling, const struct handoff_error *error)
{
    struct handoff_assembly *assembly = assembling->assembly;
    struct handoff_result text = {.error = *error};
    char source[HANDOFF_NAME_MAX + 1];
    struct handoff_event event;
    handoff_keep_source(source, assembly->request.source_agent);
    handoff_client_describe(assembly, &event);
    event.code = error->code;
    event.of.assembled.envelope_only = true;
    if (assembling->persist_began_ns)
        event.of.assembled.persist_ns =
            base_monotonic_ns(assembly->with->clock) - assembling->persist_began_ns;
    handoff_client_tell(assembling->loop->client, &event);
    if (error->code == HANDOFF_OK) {
        text.body = assembly->out.data;
        text.size = assembly->out.size;
        text.created = true;
        handoff_client_keep_tokens(assembling->loop, assembly);
    } else if (source[0]) {
        text.source = source;
    }
    assembling->loop->pending--;
    assembling->answered(assembling->context, &text);
    handoff_client_end_assembly(&assembling->assembly);
    assembling->magic = 0;
    base_free(assembling);
}

static void assembled(struct handoff_assembly *assembly);

/* Unless an edit was committed first: then it is assembled again. */
static void persisted(struct handoff_store_job *job)
{
    struct assembling *assembling = BASE_CONTAINER_OF(job, struct assembling, put.job);
    BASE_CHECK_MAGIC(assembling, ASSEMBLING_MAGIC);
    if (!handoff_client_assemble_again(&assembling->assembly, &job->error))
        answer_assembling(assembling, &job->error);
    else if (handoff_assembly_run(assembling->assembly))
        assembled(assembling->assembly);
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
        .contribution = base_buffer_span(&assembly->contribution),
        .parents = assembly->chain.parent_ids,
        .nparents = assembly->chain.nparents,
        .hop = assembly->hop_count,
        .source = assembly->request.source_agent,
        .target = assembly->request.target_agent,
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
    struct handoff_warnings *warnings = handoff_warn_in_answer(&answered, &context);
    struct assembling *assembling = warnings ? base_calloc(1, sizeof(*assembling)) : NULL;
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
    assembly->warnings = warnings;
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

/* The handoff that carries an envelope: a publication's has another id, and names no receiver. */
struct carrier {
    char id[BASE_UUID_TEXT];
    struct base_span receiver; /* absent: as the envelope says */
};

/* NULL: as the envelope says. */
static enum handoff_code render_for(struct base_span body, const struct carrier *carrier,
                                    enum handoff_rendering rendering, struct handoff_text *text,
                                    struct handoff_error *error)
{
    struct handoff_envelope parsed;
    *text = (struct handoff_text){0};
    if (rendering == HANDOFF_RENDER_STORED)
        return give_copy(body, text, error);
    enum handoff_code code = handoff_envelope_read(body, &parsed, error);
    if (code != HANDOFF_OK)
        return code;
    if (carrier)
        parsed.id = base_span_text(carrier->id);
    if (carrier && carrier->receiver.data && rendering == HANDOFF_RENDER_MARKDOWN)
        parsed.target_agent = carrier->receiver;
    code = render(&parsed, rendering, text, error);
    handoff_envelope_free(&parsed);
    return code;
}

enum handoff_code handoff_envelope_render(const char *envelope, size_t size,
                                          enum handoff_rendering rendering,
                                          struct handoff_text *text, struct handoff_error *error)
{
    return render_for(base_span(envelope, size), NULL, rendering, text, error);
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

/* The same check if retention removed the body: by what is left of the envelope, or by its
   handoff. */
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

/* Reports the removal, but only to a caller that was allowed to see the envelope. */
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

/* Only a brief names the receiver. */
static enum handoff_code find_carrier(struct handoff_client *client, const struct base_uuid *id,
                                      enum handoff_rendering rendering, struct base_arena *arena,
                                      struct carrier *carrier, struct handoff_error *error)
{
    struct handoff_stored stored;
    base_uuid_format(id, carrier->id);
    carrier->receiver = base_span(NULL, 0);
    if (rendering != HANDOFF_RENDER_MARKDOWN)
        return HANDOFF_OK;
    const enum handoff_code code =
        handoff_store_get_handoff(client->store, id, arena, &stored, error);
    if (code == HANDOFF_OK && stored.of_publication)
        carrier->receiver = stored.asked_target;
    return code == HANDOFF_ERR_NOT_FOUND ? handoff_error_clear(error) : code;
}

enum handoff_code handoff_read_envelope(struct handoff_client *client, const char *id,
                                        const char *caller, enum handoff_rendering rendering,
                                        struct handoff_text *text, struct handoff_error *error)
{
    struct handoff_stored_envelope stored;
    struct carrier carrier;
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
        code = find_carrier(client, &uuid, rendering, &arena, &carrier, error);
    if (code == HANDOFF_OK)
        code = render_for(stored.body, &carrier, rendering, text, error);
    base_arena_free(&arena);
    if (code == HANDOFF_ERR_NOT_FOUND)
        handoff_error_set(error, code, "no handoff has this id", "id", id);
    return code;
}
