/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending a handoff, on the loop's thread.
 *
 * A send is one struct from the call to its answer: it assembles, hands the envelope to delivery as
 * a submission, and then only waits. What it needed for assembling is released before it waits,
 * because thousands may wait for slow receivers. One with a key first looks on a reader thread for
 * the handoff that was accepted under it.
 */
#include <stdio.h>
#include <string.h>

#include "client/calls/call.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/client.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum { SENDING_MAGIC = 0x73656e64, KEY_LOOKUP_MAGIC = 0x6b65796c };

struct sending {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    bool respond_async;
    char key[HANDOFF_IDEMPOTENCY_KEY_MAX + 1]; /* "": none */
    char source[HANDOFF_NAME_MAX + 1];
    uint8_t request_digest[BASE_SHA256_BYTES];
    struct handoff_waiter waiter;
    struct handoff_assembly *assembly; /* NULL once the envelope was handed over */
};

/* Whether there is a handoff under the key. Asked before the sending, or after the store has taken
   another one in that moment; then `conflict` has what it said. */
struct key_lookup {
    unsigned magic;
    struct handoff_store_read read;
    struct sending *sending;
    struct handoff_error conflict;

    /* the reader's, then the loop's */
    struct base_arena arena; /* of the status */
    struct handoff_status status;
    struct handoff_error error; /* not_found: there is none */
};

static struct sending *sending_of(struct handoff_waiter *waiter)
{
    struct sending *sending = BASE_CONTAINER_OF(waiter, struct sending, waiter);
    BASE_CHECK_MAGIC(sending, SENDING_MAGIC);
    return sending;
}

static void end_sending(struct sending *sending)
{
    sending->loop->pending--;
    if (sending->assembly)
        handoff_client_end_assembly(&sending->assembly);
    sending->magic = 0;
    base_free(sending);
}

static void fail_sending(struct sending *sending, const struct handoff_error *error)
{
    handoff_answered *answered = sending->answered;
    void *context = sending->context;
    struct handoff_error copy = *error; /* it may lie in the assembly */
    end_sending(sending);
    handoff_give_error(answered, context, &copy);
}

static void sender_accepted(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct sending *sending = sending_of(waiter);
    if (!sending->respond_async)
        return;
    handoff_waiter_withdraw(waiter);
    handoff_answer_with_status(sending->answered, sending->context, status, true);
    end_sending(sending);
}

static bool look_for_key(struct sending *sending, const struct handoff_error *conflict);

static void sender_settled(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct sending *sending = sending_of(waiter);
    /* two requests with one key at the same time: the store took the other */
    if (status->error.code == HANDOFF_ERR_CONFLICT && sending->key[0] &&
        look_for_key(sending, &status->error))
        return;
    handoff_answer_with_status(sending->answered, sending->context, status, true);
    end_sending(sending);
}

static int64_t deadline_of(const struct handoff_assembly *assembly)
{
    int64_t wall_ms = 0;
    if (!base_json_time(yyjson_obj_get(assembly->constraints, "deadline"), &wall_ms))
        return 0;
    return wall_ms != 0 ? wall_ms : 1; /* 0 stands for none, and 1970 is as long ago either way */
}

static void tell_assembled(struct sending *sending)
{
    struct handoff_event event;
    handoff_client_describe(sending->assembly, &event);
    handoff_client_tell(sending->loop->client, &event);
}

static enum handoff_code hand_over(struct sending *sending, struct handoff_error *error)
{
    const struct handoff_assembly *assembly = sending->assembly;
    struct handoff_submission submission = {
        .id = assembly->id,
        .envelope = base_buffer_span(&assembly->out),
        .cut_at = HANDOFF_DIGEST_AT,
        .cut_size = HANDOFF_DIGEST_SIZE,
        .excerpt = assembly->excerpt,
        .inheritance = assembly->inheritance,
        .task_id = assembly->task_id,
        .source = assembly->request.source_agent,
        .target = assembly->request.target_agent,
        .pattern = (enum handoff_pattern)assembly->request.pattern,
        .created_ms = assembly->created_ms,
        .deadline_ms = deadline_of(assembly),
        .tokens = assembly->plan.count,
        .traceparent = assembly->traceparent,
        .tracestate = assembly->tracestate,
        .idempotency_key = base_span_text(sending->key[0] ? sending->key : NULL),
    };
    memcpy(submission.digest, assembly->digest, sizeof submission.digest);
    memcpy(submission.request_digest, sending->request_digest, sizeof submission.request_digest);
    return handoff_engine_deliver(sending->loop->lane, &submission, &sending->waiter, error);
}

static void sender_assembled(struct handoff_assembly *assembly)
{
    struct sending *sending = assembly->context;
    struct handoff_error error;
    BASE_CHECK_MAGIC(sending, SENDING_MAGIC);
    handoff_client_tell_spine(sending->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &assembly->resolve.call, assembly->spine_ns);
    if (assembly->error.code == HANDOFF_OK) {
        handoff_client_keep_tokens(sending->loop, assembly);
        if (hand_over(sending, &error) != HANDOFF_OK)
            assembly->error = error;
    }
    tell_assembled(sending); /* of what was turned away, too: then it was not stored */
    if (assembly->error.code != HANDOFF_OK)
        fail_sending(sending, &assembly->error);
    else
        handoff_client_end_assembly(&sending->assembly);
}

/* The sender's name, as far as the request says it: keys of different senders are different keys.
 */
static struct base_span find_source(const struct handoff_ask *ask, yyjson_doc **doc)
{
    *doc = NULL;
    if (ask->caller)
        return base_span_text(ask->caller);
    *doc = yyjson_read(ask->body, ask->size, 0);
    yyjson_val *source = *doc ? yyjson_obj_get(yyjson_doc_get_root(*doc), "source_agent") : NULL;
    return source ? base_span(yyjson_get_str(source), yyjson_get_len(source)) : base_span(NULL, 0);
}

static struct key_lookup *key_lookup_of(struct handoff_store_read *read)
{
    struct key_lookup *lookup = BASE_CONTAINER_OF(read, struct key_lookup, read);
    BASE_CHECK_MAGIC(lookup, KEY_LOOKUP_MAGIC);
    return lookup;
}

static enum handoff_code find_key(struct key_lookup *lookup, struct base_uuid *id)
{
    const struct sending *sending = lookup->sending;
    uint8_t digest[BASE_SHA256_BYTES];
    enum handoff_code code =
        handoff_store_find_key(sending->loop->client->store, base_span_text(sending->source),
                               base_span_text(sending->key), id, digest, &lookup->error);
    if (code != HANDOFF_OK || memcmp(digest, sending->request_digest, sizeof digest) == 0)
        return code;
    return handoff_error_set(&lookup->error, HANDOFF_ERR_IDEMPOTENCY_CONFLICT,
                             "this key was used for a different request; use a new key",
                             "Idempotency-Key", sending->key);
}

/* On a reader thread, which has the sending until key_was_read. */
static void run_key_lookup(struct handoff_store_read *read)
{
    struct key_lookup *lookup = key_lookup_of(read);
    struct base_uuid id;
    if (find_key(lookup, &id) == HANDOFF_OK &&
        handoff_read_status(lookup->sending->loop->client, &id, &lookup->arena, &lookup->status,
                            &lookup->error) == HANDOFF_ERR_NOT_FOUND)
        lookup->error.code = HANDOFF_ERR_INTERNAL; /* a key goes with its handoff */
}

static void go_on_without_key(struct sending *sending, const struct handoff_error *conflict)
{
    if (conflict->code != HANDOFF_OK)
        fail_sending(sending, conflict);
    else if (handoff_assembly_run(sending->assembly))
        sender_assembled(sending->assembly);
}

static void key_was_read(struct handoff_store_read *read)
{
    struct key_lookup *lookup = key_lookup_of(read);
    struct sending *sending = lookup->sending;
    if (lookup->error.code == HANDOFF_ERR_NOT_FOUND) {
        go_on_without_key(sending, &lookup->conflict);
    } else if (lookup->error.code == HANDOFF_OK) {
        handoff_answer_with_status(sending->answered, sending->context, &lookup->status, false);
        end_sending(sending);
    } else {
        fail_sending(sending, &lookup->error);
    }
    base_arena_free(&lookup->arena);
    lookup->magic = 0;
    base_free(lookup);
}

/* False: out of memory. */
static bool look_for_key(struct sending *sending, const struct handoff_error *conflict)
{
    struct key_lookup *lookup = base_calloc(1, sizeof *lookup);
    if (!lookup)
        return false;
    lookup->magic = KEY_LOOKUP_MAGIC;
    lookup->read.mailbox = sending->loop->lane->mailbox;
    lookup->read.run = run_key_lookup;
    lookup->read.done = key_was_read;
    lookup->sending = sending;
    if (conflict)
        lookup->conflict = *conflict;
    handoff_error_clear(&lookup->error);
    base_arena_init(&lookup->arena, 0);
    handoff_store_submit_read(sending->loop->client->store, &lookup->read);
    return true;
}

/* The key, and whose it is. False: it is answered. */
static bool take_key(struct sending *sending, const struct handoff_ask *ask)
{
    yyjson_doc *doc;
    struct handoff_error error;
    size_t size = strlen(ask->idempotency_key);
    if (size == 0 || size > HANDOFF_IDEMPOTENCY_KEY_MAX) {
        handoff_error_set(&error, HANDOFF_ERR_INVALID, "Idempotency-Key has the wrong length",
                          "Idempotency-Key", ask->idempotency_key);
        handoff_error_allow(&error, "1 to %d bytes", HANDOFF_IDEMPOTENCY_KEY_MAX);
        fail_sending(sending, &error);
        return false;
    }
    memcpy(sending->key, ask->idempotency_key, size + 1);
    base_sha256(ask->body, ask->size, sending->request_digest);
    struct base_span source = find_source(ask, &doc);
    snprintf(sending->source, sizeof sending->source, "%.*s", (int)source.size,
             source.data ? source.data : "");
    yyjson_doc_free(doc);
    return true;
}

static void send_with_key(struct sending *sending, const struct handoff_ask *ask)
{
    struct handoff_error error;
    if (!take_key(sending, ask))
        return;
    if (handoff_assembly_keep_texts(sending->assembly) && look_for_key(sending, NULL))
        return;
    handoff_error_no_memory(&error);
    fail_sending(sending, &error);
}

void handoff_send(struct handoff_loop *loop, const struct handoff_ask *ask,
                  handoff_answered *answered, void *context)
{
    struct sending *sending = base_malloc(sizeof *sending);
    struct handoff_assembly *assembly = sending ? handoff_client_begin_assembly(loop, ask) : NULL;
    if (!assembly) {
        base_free(sending);
        handoff_give_no_memory(answered, context);
        return;
    }
    *sending = (struct sending){.magic = SENDING_MAGIC,
                                .loop = loop,
                                .answered = answered,
                                .context = context,
                                .respond_async = ask->respond_async,
                                .waiter = {.accepted = sender_accepted, .settled = sender_settled},
                                .assembly = assembly};
    loop->pending++;
    assembly->context = sending;
    assembly->finished = sender_assembled;
    if (ask->idempotency_key)
        send_with_key(sending, ask);
    else if (handoff_assembly_run(assembly))
        sender_assembled(assembly);
}
