/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a handoff, on the loop's thread.
 *
 * A send is one struct from the call to its answer: it assembles, hands the envelope to delivery as
 * a submission, and then only waits. What it needed for assembling is released before it waits,
 * because thousands may wait for slow receivers; of a request whose task chose what it continues,
 * once it is accepted, since an edit that is committed before it makes it choose again. A send with
 * a key first looks on a reader thread for the handoff that was accepted under that key; for this,
 * a long body is read and hashed on a worker. How long the sender waits is bounded by an operation
 * with a deadline; a repeat waits for the first one's handoff by a watch (client/deliver/watch.h).
 */
#include <stdio.h>
#include <string.h>

#include "client/calls/channels.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/calls/send.h"
#include "client/calls/submission.h"
#include "client/calls/warn.h"
#include "client/deliver/decide.h"
#include "lib/base/canonical.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum { KEY_LOOKUP_MAGIC = 0x6b65796c };

/* Finds the handoff under the key, if any. Runs before the send, or after the store has just
   accepted another handoff under the key; `conflict` then has the store's error. */
struct key_lookup {
    unsigned magic;
    struct handoff_store_read read;
    struct handoff_sending *sending;
    struct handoff_error conflict;

    /* the reader's, then the loop's */
    struct base_arena arena; /* of the status */
    struct base_uuid id;
    struct handoff_status status;    /* of the first handoff; its envelope absent: not read */
    bool found;                      /* the status is there, even with an error */
    struct handoff_error error;      /* not_found: the key is unused */
    struct handoff_text publication; /* which the key was used for; empty: it was none */
};

static struct handoff_sending *sending_of(struct handoff_waiter *waiter)
{
    struct handoff_sending *sending = BASE_CONTAINER_OF(waiter, struct handoff_sending, waiter);
    BASE_CHECK_MAGIC(sending, HANDOFF_SENDING_MAGIC);
    return sending;
}

static void end_sending(struct handoff_sending *sending)
{
    sending->loop->pending--;
    base_op_cancel(&sending->wait);
    if (sending->under_way)
        *sending->under_way = NULL;
    if (sending->assembly)
        handoff_client_end_assembly(&sending->assembly);
    handoff_stored_free(&sending->stored);
    base_free(sending->park_reason);
    sending->magic = 0;
    base_free(sending);
}

/* Whose request it is: a key was read with its sender, also where the rest is wrong. */
static struct base_span source_of_sending(const struct handoff_sending *sending)
{
    if (sending->source[0] || !sending->assembly)
        return base_span_text(sending->source);
    return sending->assembly->request.source_agent;
}

void handoff_sending_fail(struct handoff_sending *sending, const struct handoff_error *error)
{
    handoff_answered *answered = sending->answered;
    void *context = sending->context;
    struct handoff_error copy = *error; /* the error may be in the assembly */
    char source[HANDOFF_NAME_MAX + 1];
    handoff_keep_source(source, source_of_sending(sending));
    end_sending(sending);
    handoff_give_rejection(answered, context, &copy, source);
}

/* To be parked is no failure where that was asked for. */
static void answer_sending(struct handoff_sending *sending, const struct handoff_status *status,
                           bool created)
{
    struct handoff_status with_hop = *status;
    if (sending->hop > 0) {
        with_hop.hop = sending->hop;
        with_hop.hop_max = sending->hop_max;
    }
    if (sending->park_reason)
        handoff_answer_with_standing(sending->answered, sending->context, &with_hop, created);
    else
        handoff_answer_with_status(sending->answered, sending->context, &with_hop, created);
    end_sending(sending);
}

static void sender_accepted(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct handoff_sending *sending = sending_of(waiter);
    if (sending->assembly)
        handoff_client_end_assembly(&sending->assembly);
    sending->accepted = true;
    if (!sending->respond_async)
        return;
    handoff_waiter_withdraw(waiter);
    answer_sending(sending, status, true);
}

/* ---- for how long it waits ------------------------------------------------------------------- */

/* Answers with what was written last, which a commit made durable. */
static void answer_early(struct handoff_sending *sending)
{
    struct handoff_status status;
    handoff_waiter_status(&sending->waiter, &status);
    sender_accepted(&sending->waiter, &status);
}

/* What is not accepted yet is answered once it is. */
static void wait_is_over(struct base_op *op)
{
    struct handoff_sending *sending = BASE_CONTAINER_OF(op, struct handoff_sending, wait);
    BASE_CHECK_MAGIC(sending, HANDOFF_SENDING_MAGIC);
    if (atomic_load(&op->verdict) == BASE_OP_CANCELLED)
        return; /* it was answered */
    sending->respond_async = true;
    if (sending->watch.trips > 0)
        handoff_engine_recall(&sending->watch);
    else if (sending->accepted && sending->waiter.delivery)
        answer_early(sending);
}

static void bound_wait(struct handoff_sending *sending, int64_t wait_ms)
{
    static const struct base_op_kind wait_kind = {.name = "wait", .give_up = base_op_end};
    if (wait_ms > 0)
        base_op_begin(&sending->wait, &wait_kind, sending->loop->lane->loop, wait_ms, wait_is_over);
}

static bool look_for_key(struct handoff_sending *sending, const struct handoff_error *conflict);

/* Two concurrent requests with one key, or for one envelope: the store accepted the other. */
static bool finds_other(struct handoff_sending *sending, const struct handoff_error *conflict)
{
    if (conflict->code != HANDOFF_ERR_CONFLICT)
        return false;
    if (sending->stored)
        handoff_stored_read_again(sending);
    return sending->stored || (sending->key[0] && look_for_key(sending, conflict));
}

static void assemble_sending(struct handoff_sending *sending);

/* An edit was committed first. */
static bool was_overtaken(struct handoff_sending *sending, const struct handoff_error *refusal)
{
    if (!sending->assembly || !handoff_client_assemble_again(&sending->assembly, refusal))
        return false;
    assemble_sending(sending);
    return true;
}

static void sender_settled(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct handoff_sending *sending = sending_of(waiter);
    if (!was_overtaken(sending, &status->error) && !finds_other(sending, &status->error))
        answer_sending(sending, status, true);
}

static void tell_assembled(struct handoff_sending *sending)
{
    struct handoff_event event;
    handoff_client_describe(sending->assembly, &event);
    handoff_client_tell(sending->loop->client, &event);
}

void handoff_sending_park(const struct handoff_sending *sending,
                          struct handoff_submission *submission)
{
    if (!sending->park_reason)
        return;
    submission->parked_for = HANDOFF_REASON_OTHER;
    submission->park_reason = base_span_text(sending->park_reason);
}

static enum handoff_code hand_over(struct handoff_sending *sending, struct handoff_error *error)
{
    struct handoff_submission submission;
    handoff_submission_of(sending->assembly, &submission);
    sending->hop = sending->assembly->hop_count;
    sending->hop_max = sending->assembly->hop_max;
    submission.idempotency_key = base_span_text(sending->key[0] ? sending->key : NULL);
    handoff_sending_park(sending, &submission);
    submission.decision = sending->decision;
    memcpy(submission.request_digest, sending->request_digest, sizeof submission.request_digest);
    return sending->held
               ? handoff_engine_replace(sending->loop->lane, sending->held, &submission,
                                        &sending->waiter, error)
               : handoff_engine_deliver(sending->loop->lane, &submission, &sending->waiter, error);
}

static void sender_assembled(struct handoff_assembly *assembly)
{
    struct handoff_sending *sending = assembly->context;
    struct handoff_error error;
    BASE_CHECK_MAGIC(sending, HANDOFF_SENDING_MAGIC);
    handoff_client_tell_spine(sending->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &assembly->resolve.call, assembly->spine_ns);
    if (assembly->error.code == HANDOFF_OK) {
        handoff_client_keep_tokens(sending->loop, assembly);
        if (hand_over(sending, &error) != HANDOFF_OK)
            assembly->error = error;
    }
    tell_assembled(sending); /* also if it was rejected: then nothing was stored */
    if (assembly->error.code != HANDOFF_OK)
        handoff_sending_fail(sending, &assembly->error);
    else if (!handoff_client_may_assemble_again(assembly)) /* else once it is accepted */
        handoff_client_end_assembly(&sending->assembly);
}

static struct key_lookup *key_lookup_of(struct handoff_store_read *read)
{
    struct key_lookup *lookup = BASE_CONTAINER_OF(read, struct key_lookup, read);
    BASE_CHECK_MAGIC(lookup, KEY_LOOKUP_MAGIC);
    return lookup;
}

/* An earlier version kept the digest of the body as it was sent. */
static bool is_digest_of_body(const struct handoff_assembly *assembly,
                              const uint8_t kept[BASE_SHA256_BYTES])
{
    uint8_t digest[BASE_SHA256_BYTES];
    if (!assembly)
        return false; /* this process has stored the handoff */
    base_sha256(assembly->body.data, assembly->body.size, digest);
    return memcmp(digest, kept, sizeof digest) == 0;
}

static enum handoff_code find_key(struct key_lookup *lookup)
{
    const struct handoff_sending *sending = lookup->sending;
    uint8_t digest[BASE_SHA256_BYTES];
    enum handoff_code code =
        handoff_store_find_key(sending->loop->client->store, base_span_text(sending->source),
                               base_span_text(sending->key), &lookup->id, digest, &lookup->error);
    if (code != HANDOFF_OK || memcmp(digest, sending->request_digest, sizeof digest) == 0 ||
        is_digest_of_body(sending->assembly, digest))
        return code;
    return handoff_error_set(&lookup->error, HANDOFF_ERR_IDEMPOTENCY_CONFLICT,
                             "this key was used for a different request; use a new key",
                             "Idempotency-Key", sending->key);
}

/* On a reader thread, which owns the sending until key_was_read. */
static void run_key_lookup(struct handoff_store_read *read)
{
    struct key_lookup *lookup = key_lookup_of(read);
    struct handoff_error error;
    bool under_way;
    const enum handoff_code code = find_key(lookup);
    if (code != HANDOFF_OK && code != HANDOFF_ERR_IDEMPOTENCY_CONFLICT)
        return;
    lookup->found = handoff_read_status(lookup->sending->loop->client, &lookup->id, &lookup->arena,
                                        &lookup->status, &error) == HANDOFF_OK;
    if (lookup->found)
        handoff_read_hop(lookup->sending->loop->client, &lookup->id, &lookup->arena,
                         &lookup->status);
    if (!lookup->found && code != HANDOFF_OK)
        (void)!handoff_read_publication(lookup->sending->loop->client, NULL, &lookup->id, NULL,
                                        &lookup->publication, &under_way, &error);
    if (lookup->found || code != HANDOFF_OK)
        return;
    lookup->error = error;
    if (error.code == HANDOFF_ERR_NOT_FOUND)
        lookup->error.code = HANDOFF_ERR_INTERNAL; /* a key is removed with its handoff */
}

/* On the loop. A key that was used for a publication shows that. */
static void fail_with_publication(struct handoff_sending *sending, const struct key_lookup *lookup)
{
    const struct handoff_result result = {.error = lookup->error,
                                          .body = lookup->publication.data,
                                          .size = lookup->publication.size,
                                          .is_publication = true,
                                          .source = sending->source[0] ? sending->source : NULL};
    sending->answered(sending->context, &result);
    end_sending(sending);
}

static void go_on_without_key(struct handoff_sending *sending, const struct handoff_error *conflict)
{
    if (conflict->code != HANDOFF_OK)
        handoff_sending_fail(sending, conflict);
    else
        sending->begin(sending);
}

static void first_has_ended(struct handoff_watch *watch)
{
    struct handoff_sending *sending = BASE_CONTAINER_OF(watch, struct handoff_sending, watch);
    BASE_CHECK_MAGIC(sending, HANDOFF_SENDING_MAGIC);
    sending->respond_async = true; /* it is answered with what is read now */
    if (sending->stored)
        handoff_stored_read_again(sending);
    else
        handoff_sending_begin_with_key(sending);
}

/* The first handoff may be on any lane. */
void handoff_sending_repeat(struct handoff_sending *sending, const struct base_uuid *id,
                            const struct handoff_status *status)
{
    bool waits = base_op_is_under_way(&sending->wait) && !sending->respond_async;
    if (waits && handoff_state_is_live(status->state)) {
        sending->watch =
            (struct handoff_watch){.id = *id, .what = HANDOFF_WATCH_END, .told = first_has_ended};
        handoff_engine_watch(sending->loop->lane, &sending->watch);
        return;
    }
    answer_sending(sending, status, false);
}

/* A conflict shows the first handoff, or publication. */
static void fail_by_lookup(struct handoff_sending *sending, const struct key_lookup *lookup)
{
    if (lookup->publication.data) {
        fail_with_publication(sending, lookup);
        return;
    }
    if (!lookup->found) {
        handoff_sending_fail(sending, &lookup->error);
        return;
    }
    handoff_answer_with_error(sending->answered, sending->context, &lookup->status, &lookup->error);
    end_sending(sending);
}

static void key_was_read(struct handoff_store_read *read)
{
    struct key_lookup *lookup = key_lookup_of(read);
    struct handoff_sending *sending = lookup->sending;
    if (lookup->error.code == HANDOFF_ERR_NOT_FOUND) {
        go_on_without_key(sending, &lookup->conflict);
    } else if (lookup->error.code == HANDOFF_OK) {
        handoff_sending_repeat(sending, &lookup->id, &lookup->status);
    } else {
        fail_by_lookup(sending, lookup);
    }
    base_arena_free(&lookup->arena);
    handoff_text_free(&lookup->publication);
    lookup->magic = 0;
    base_free(lookup);
}

/* False: out of memory. */
static bool look_for_key(struct handoff_sending *sending, const struct handoff_error *conflict)
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

/* ---- a request with a key -------------------------------------------------------------------- */

enum { HASHED_ON_LOOP = 64 * 1024, WORKER_TIMEOUT_MS = 30 * 1000 };

/* The sender's name, if the request has one: different senders do not share keys. */
static struct base_span find_source(const struct handoff_assembly *assembly, yyjson_doc *doc)
{
    if (handoff_assembly_sender(assembly).data)
        return handoff_assembly_sender(assembly);
    return base_json_span(yyjson_obj_get(yyjson_doc_get_root(doc), "source_agent"));
}

/* Two texts of one request have one digest. What is no JSON is rejected later, as it is. */
static enum handoff_code digest_request(struct handoff_sending *sending, yyjson_doc *doc)
{
    struct base_buffer canonical = {0};
    struct base_span body = sending->assembly->body;
    if (doc) {
        base_buffer_reserve(&canonical, body.size);
        base_json_canonical_request(&canonical, yyjson_doc_get_root(doc));
        body = base_buffer_span(&canonical);
    }
    const bool failed = canonical.failed;
    if (!failed)
        base_sha256(body.data, body.size, sending->request_digest);
    base_buffer_free(&canonical);
    return failed ? HANDOFF_ERR_OUT_OF_MEMORY : HANDOFF_OK;
}

/* Whose key it is, and for which request. Any thread. */
static void identify_request(struct handoff_sending *sending)
{
    const struct handoff_assembly *assembly = sending->assembly;
    yyjson_doc *doc;
    sending->identified = base_json_read(assembly->body, "body", &doc, NULL);
    if (sending->identified == HANDOFF_ERR_OUT_OF_MEMORY)
        return;
    sending->identified = digest_request(sending, doc);
    struct base_span source = find_source(assembly, doc);
    snprintf(sending->source, sizeof sending->source, "%.*s", (int)source.size,
             source.data ? source.data : "");
    yyjson_doc_free(doc);
}

static void identify_on_worker(struct base_work *work)
{
    identify_request(BASE_CONTAINER_OF(work, struct handoff_sending, work));
}

void handoff_sending_begin_with_key(struct handoff_sending *sending)
{
    struct handoff_error error;
    if (sending->identified == HANDOFF_OK && look_for_key(sending, NULL))
        return;
    handoff_error_no_memory(&error);
    handoff_sending_fail(sending, &error);
}

static void fail_unidentified(struct handoff_sending *sending, bool cancelled)
{
    struct handoff_error error;
    if (cancelled)
        handoff_error_set(&error, HANDOFF_ERR_CANCELLED,
                          handoff_code_meaning(HANDOFF_ERR_CANCELLED), NULL, NULL);
    else
        handoff_refuse_long_request(&error);
    handoff_sending_fail(sending, &error);
}

static void was_identified(struct base_op *op)
{
    struct handoff_sending *sending = BASE_CONTAINER_OF(op, struct handoff_sending, work.op);
    BASE_CHECK_MAGIC(sending, HANDOFF_SENDING_MAGIC);
    const enum base_op_verdict verdict = atomic_load(&op->verdict);
    if (verdict == BASE_OP_DONE)
        handoff_sending_begin_with_key(sending);
    else
        fail_unidentified(sending, verdict == BASE_OP_CANCELLED);
}

enum handoff_code handoff_check_key(struct handoff_client *client, const char *key,
                                    struct handoff_error *error)
{
    struct handoff_secrets secrets = {.policy = handoff_client_secrets(client)};
    const size_t size = strlen(key);
    enum handoff_code code = handoff_secrets_in_id(
        &secrets, "Idempotency-Key", HANDOFF_SECRET_PLACE_REQUEST, base_span_text(key), error);
    handoff_client_tell_secrets(client, &secrets);
    if (code != HANDOFF_OK || (size > 0 && size <= HANDOFF_IDEMPOTENCY_KEY_MAX))
        return code;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "Idempotency-Key has the wrong length",
                      "Idempotency-Key", key);
    handoff_error_allow(error, "1 to %d bytes", HANDOFF_IDEMPOTENCY_KEY_MAX);
    return HANDOFF_ERR_INVALID;
}

bool handoff_sending_take_key(struct handoff_sending *sending, const struct handoff_ask *ask)
{
    struct handoff_error error;
    if (handoff_check_key(sending->loop->client, ask->idempotency_key, &error) != HANDOFF_OK) {
        handoff_sending_fail(sending, &error);
        return false;
    }
    memcpy(sending->key, ask->idempotency_key, strlen(ask->idempotency_key) + 1);
    return true;
}

static void send_with_key(struct handoff_sending *sending, const struct handoff_ask *ask)
{
    struct handoff_error error;
    if (!handoff_sending_take_key(sending, ask))
        return;
    sending->work.bytes = ask->size;
    if (!handoff_assembly_keep_texts(sending->assembly)) {
        handoff_error_no_memory(&error);
        handoff_sending_fail(sending, &error);
    } else if (ask->size <= HASHED_ON_LOOP) {
        identify_request(sending);
        handoff_sending_begin_with_key(sending);
    } else if (!base_workers_submit(sending->loop->client->workers, &sending->work,
                                    sending->loop->lane->loop, WORKER_TIMEOUT_MS,
                                    identify_on_worker, was_identified)) {
        fail_unidentified(sending, false);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool keep_park_reason(struct handoff_sending *sending, const char *reason)
{
    const size_t room = reason ? 2 * strlen(reason) + 64 : 0; /* a marker may be the longer one */
    if (!reason)
        return true;
    sending->park_reason = base_malloc(room);
    if (sending->park_reason)
        handoff_client_copy_reason(sending->loop->client, sending->park_reason, room, reason);
    return sending->park_reason != NULL;
}

struct handoff_sending *handoff_sending_new(struct handoff_loop *loop,
                                            const struct handoff_ask *ask,
                                            handoff_answered *answered, void *context)
{
    struct handoff_sending *sending = base_malloc(sizeof *sending);
    if (!sending)
        return NULL;
    *sending = (struct handoff_sending){
        .magic = HANDOFF_SENDING_MAGIC,
        .loop = loop,
        .answered = answered,
        .context = context,
        .respond_async = ask->park_reason || (ask->respond_async && ask->wait_ms <= 0),
        .waiter = {.accepted = sender_accepted, .settled = sender_settled}};
    if (!keep_park_reason(sending, ask->park_reason)) {
        base_free(sending);
        return NULL;
    }
    loop->pending++;
    bound_wait(sending, ask->wait_ms);
    return sending;
}

static void assemble_sending(struct handoff_sending *sending)
{
    if (handoff_assembly_run(sending->assembly))
        sender_assembled(sending->assembly);
}

static void begin_send(struct handoff_sending *sending, const struct handoff_ask *ask)
{
    struct handoff_assembly *assembly = sending->assembly;
    assembly->context = sending;
    assembly->finished = sender_assembled;
    assembly->parks_at_limit = true;
    if (ask->idempotency_key)
        send_with_key(sending, ask);
    else
        assemble_sending(sending);
}

/* NULL: it was answered, for want of memory. */
static struct handoff_sending *make_sending(struct handoff_loop *loop,
                                            const struct handoff_ask *ask,
                                            handoff_answered *answered, void *context)
{
    struct handoff_warnings *warnings = handoff_warn_in_answer(&answered, &context);
    struct handoff_assembly *assembly = warnings ? handoff_client_begin_assembly(loop, ask) : NULL;
    struct handoff_sending *sending =
        assembly ? handoff_sending_new(loop, ask, answered, context) : NULL;
    if (!sending) {
        if (assembly)
            handoff_client_end_assembly(&assembly);
        handoff_give_no_memory(answered, context);
        return NULL;
    }
    assembly->warnings = warnings;
    sending->assembly = assembly;
    sending->begin = assemble_sending;
    return sending;
}

struct handoff_sending *handoff_send(struct handoff_loop *loop, const struct handoff_ask *ask,
                                     handoff_answered *answered, void *context)
{
    struct handoff_sending *sending = make_sending(loop, ask, answered, context);
    struct handoff_sending *under_way = sending; /* until the request is answered */
    if (!sending)
        return NULL;
    sending->under_way = &under_way;
    begin_send(sending, ask);
    if (under_way)
        under_way->under_way = NULL;
    return under_way;
}

void handoff_send_instead(struct handoff_loop *loop, const struct handoff_ask *ask,
                          const struct base_uuid *id, struct handoff_waiter *held,
                          const struct handoff_stored_decision *decision,
                          handoff_answered *answered, void *context)
{
    struct handoff_sending *sending = make_sending(loop, ask, answered, context);
    if (!sending)
        return;
    sending->held = held;
    sending->decision = decision;
    sending->assembly->replaces = *id;
    begin_send(sending, ask);
}

/* What the store or the spine is doing at this moment continues: that is not what takes long. */
void handoff_send_cancel(struct handoff_sending *sending)
{
    BASE_CHECK_MAGIC(sending, HANDOFF_SENDING_MAGIC);
    if (base_op_is_under_way(&sending->work.op))
        base_op_cancel(&sending->work.op);
    else if (sending->assembly && base_op_is_under_way(&sending->assembly->work.op))
        handoff_assembly_cancel(sending->assembly, HANDOFF_ERR_CANCELLED);
}
