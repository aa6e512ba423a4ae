/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivers an envelope that was assembled and stored before: no new hop, the same bytes, the same
 * id. The sender is the one of send.c; only where the envelope comes from differs.
 *
 * An envelope has at most one handoff. So a reader thread looks for that first, and a second call
 * is a repeat, answered with the first handoff. Where two calls meet, one of them is told conflict:
 * by the table of live handoffs, or by the store. It waits until the other's handoff is accepted,
 * and reads again.
 *
 * On the loop's thread, but for what is marked as a reader's.
 */
#include <string.h>

#include "client/assemble/visibility.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/calls/send.h"
#include "client/calls/stored_envelope.h"
#include "client/envelope/read.h"
#include "client/model/model.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum { STORED_MAGIC = 0x73746f72 };

enum key_owner { KEY_UNUSED, KEY_OF_THIS, KEY_OF_OTHER };

struct handoff_stored_sending {
    unsigned magic;
    struct handoff_store_read read;
    struct handoff_sending *sending;
    struct handoff_watch accepting; /* of the same envelope, by another call */
    struct base_uuid id;
    char id_text[BASE_UUID_TEXT];
    char caller[HANDOFF_NAME_MAX + 1]; /* "": an operator, or an unauthenticated caller */

    /* the reader's, then the loop's */
    struct base_arena arena;
    struct handoff_error error;
    bool has_handoff;         /* `status`; else the envelope */
    enum key_owner key_owner; /* where it has a handoff */
    struct handoff_status status;
    struct handoff_text text;
    struct handoff_envelope envelope;
    struct base_buffer excerpt;
};

/* ---- reading: on a reader thread ------------------------------------------------------------- */

/* Whoever may see it learns that it is another's. */
static enum handoff_code refuse_other_sender(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                             "only the agent that assembled the envelope may deliver it", "id",
                             NULL);
}

/* The sender's key may be the one of another handoff, whatever this envelope has become. */
static enum handoff_code find_key_owner(struct handoff_stored_sending *stored,
                                        struct handoff_error *error)
{
    struct base_uuid owner;
    uint8_t digest[BASE_SHA256_BYTES];
    const struct handoff_sending *sending = stored->sending;
    stored->key_owner = KEY_UNUSED;
    if (!sending->key[0])
        return HANDOFF_OK;
    enum handoff_code code =
        handoff_store_find_key(sending->loop->client->store, stored->status.label.source,
                               base_span_text(sending->key), &owner, digest, error);
    if (code == HANDOFF_OK)
        stored->key_owner =
            memcmp(&owner, &stored->id, sizeof owner) == 0 ? KEY_OF_THIS : KEY_OF_OTHER;
    return code == HANDOFF_ERR_NOT_FOUND ? HANDOFF_OK : code;
}

/* The answer would say that it is parked; but a repeat tells what has become of the first handoff.
 */
static enum handoff_code check_parked_already(const struct handoff_stored_sending *stored,
                                              struct handoff_error *error)
{
    const enum handoff_state state = stored->status.state;
    if (!stored->sending->park_reason || state == HANDOFF_STATE_PARKED ||
        stored->key_owner == KEY_OF_THIS)
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT,
                             "the envelope has a handoff already; if it is in progress, park that "
                             "with POST /v1/handoffs/{id}/park",
                             "state", handoff_state_name(state));
}

static bool is_sender(const struct handoff_stored_sending *stored, struct base_span source)
{
    return stored->caller[0] == '\0' || base_span_equal(base_span_text(stored->caller), source);
}

static const char *caller_of(const struct handoff_stored_sending *stored)
{
    return stored->caller[0] ? stored->caller : NULL;
}

static enum handoff_code judge_own_handoff(struct handoff_stored_sending *stored,
                                           struct handoff_error *error)
{
    enum handoff_code code = find_key_owner(stored, error);
    if (code == HANDOFF_OK && stored->key_owner != KEY_OF_OTHER)
        code = check_parked_already(stored, error);
    return code;
}

static enum handoff_code judge_handoff(struct handoff_stored_sending *stored)
{
    struct handoff_error *error = &stored->error;
    struct handoff_text seen;
    handoff_read_hop(stored->sending->loop->client, &stored->id, &stored->arena, &stored->status);
    if (is_sender(stored, stored->status.label.source))
        return judge_own_handoff(stored, error);
    enum handoff_code code = handoff_read_handoff(stored->sending->loop->client, stored->id_text,
                                                  caller_of(stored), &seen, error);
    if (code != HANDOFF_OK)
        return code;
    handoff_text_free(&seen);
    return refuse_other_sender(error);
}

static enum handoff_code read_stored_envelope(struct handoff_stored_sending *stored)
{
    struct handoff_error *error = &stored->error;
    enum handoff_code code =
        handoff_read_envelope(stored->sending->loop->client, stored->id_text, caller_of(stored),
                              HANDOFF_RENDER_STORED, &stored->text, error);
    if (code == HANDOFF_OK)
        code = handoff_envelope_read(base_span(stored->text.data, stored->text.size),
                                     &stored->envelope, error);
    if (code == HANDOFF_OK && !is_sender(stored, stored->envelope.source_agent))
        code = refuse_other_sender(error);
    if (code == HANDOFF_OK)
        handoff_stored_excerpt_write(&stored->excerpt, &stored->envelope);
    return code;
}

static void clear_stored(struct handoff_stored_sending *stored)
{
    handoff_envelope_free(&stored->envelope);
    handoff_text_free(&stored->text);
    base_buffer_free(&stored->excerpt);
    base_arena_free(&stored->arena);
    base_arena_init(&stored->arena, 0);
    stored->envelope = (struct handoff_envelope){0};
}

static struct handoff_stored_sending *stored_of(struct handoff_store_read *read)
{
    struct handoff_stored_sending *stored =
        BASE_CONTAINER_OF(read, struct handoff_stored_sending, read);
    BASE_CHECK_MAGIC(stored, STORED_MAGIC);
    return stored;
}

static void read_for_delivery(struct handoff_store_read *read)
{
    struct handoff_stored_sending *stored = stored_of(read);
    clear_stored(stored);
    handoff_error_clear(&stored->error);
    enum handoff_code code = handoff_read_status(stored->sending->loop->client, &stored->id,
                                                 &stored->arena, &stored->status, &stored->error);
    stored->has_handoff = code == HANDOFF_OK;
    if (stored->has_handoff)
        code = judge_handoff(stored);
    else if (code == HANDOFF_ERR_NOT_FOUND)
        code = read_stored_envelope(stored);
    stored->error.code = code;
    if (code == HANDOFF_OK)
        handoff_error_clear(&stored->error);
}

/* ---- as an event ----------------------------------------------------------------------------- */

static void tell_delivered(const struct handoff_stored_sending *stored, enum handoff_code code)
{
    struct handoff_event event;
    handoff_stored_event(&stored->envelope, code == HANDOFF_OK ? stored->id_text : NULL, &event);
    event.code = code;
    handoff_client_tell(stored->sending->loop->client, &event);
}

/* ---- handing over ---------------------------------------------------------------------------- */

/* The limit may be lower than when it was assembled. */
static enum handoff_code check_hops(const struct handoff_stored_sending *stored,
                                    struct handoff_error *error)
{
    const int64_t max = atomic_load(&stored->sending->loop->client->hops_max);
    if (stored->envelope.hop_count <= max)
        return HANDOFF_OK;
    return handoff_refuse_hops(stored->envelope.hop_count, max, error);
}

/* As its configuration says now, not when the envelope was assembled. */
static enum handoff_code check_sender_again(const struct handoff_stored_sending *stored,
                                            struct handoff_error *error)
{
    const struct handoff_envelope *envelope = &stored->envelope;
    struct handoff_agent *agent =
        handoff_agents_find(stored->sending->loop->client->agents, envelope->target_agent);
    struct handoff_settings *settings = agent ? handoff_agent_settings(agent) : NULL;
    enum handoff_code code = handoff_client_check_sender(settings, envelope->source_agent, error);
    handoff_settings_release(&settings);
    return code;
}

static enum handoff_code hand_over_stored(struct handoff_stored_sending *stored,
                                          struct handoff_error *error)
{
    struct handoff_sending *sending = stored->sending;
    const struct handoff_envelope *envelope = &stored->envelope;
    struct handoff_submission submission;
    handoff_stored_submission(envelope, base_span(stored->text.data, stored->text.size),
                              base_buffer_span(&stored->excerpt), &submission);
    submission.id = stored->id;
    submission.idempotency_key = base_span_text(sending->key[0] ? sending->key : NULL);
    handoff_sending_park(sending, &submission);
    memcpy(submission.request_digest, sending->request_digest, sizeof submission.request_digest);
    enum handoff_code code = check_hops(stored, error);
    if (code == HANDOFF_OK)
        code = check_sender_again(stored, error);
    if (code == HANDOFF_OK)
        code = handoff_engine_deliver(sending->loop->lane, &submission, &sending->waiter, error);
    return code;
}

static void other_call_accepted(struct handoff_watch *watch)
{
    struct handoff_stored_sending *stored =
        BASE_CONTAINER_OF(watch, struct handoff_stored_sending, accepting);
    BASE_CHECK_MAGIC(stored, STORED_MAGIC);
    handoff_stored_read_again(stored->sending);
}

static void wait_for_other_call(struct handoff_stored_sending *stored)
{
    stored->accepting = (struct handoff_watch){
        .id = stored->id, .what = HANDOFF_WATCH_ACCEPTED, .told = other_call_accepted};
    handoff_engine_watch(stored->sending->loop->lane, &stored->accepting);
}

static void begin_stored(struct handoff_sending *sending)
{
    struct handoff_stored_sending *stored = sending->stored;
    struct handoff_error error;
    handoff_error_clear(&error);
    if (stored->has_handoff) {
        handoff_sending_repeat(sending, &stored->id, &stored->status);
        return;
    }
    enum handoff_code code = hand_over_stored(stored, &error);
    if (code == HANDOFF_ERR_CONFLICT) {
        wait_for_other_call(stored);
        return;
    }
    tell_delivered(stored, code);
    if (code != HANDOFF_OK)
        handoff_sending_fail(sending, &error);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* A key belongs to a sender; its request is the envelope. */
static void identify_stored(struct handoff_stored_sending *stored)
{
    static const char prefix[] = "deliver ";
    char text[sizeof prefix + BASE_UUID_TEXT];
    struct handoff_sending *sending = stored->sending;
    const struct base_span source =
        stored->has_handoff ? stored->status.label.source : stored->envelope.source_agent;
    const size_t size = source.size < sizeof sending->source ? source.size : 0;
    memcpy(text, prefix, sizeof prefix - 1);
    memcpy(text + sizeof prefix - 1, stored->id_text, BASE_UUID_TEXT);
    base_sha256(text, strlen(text), sending->request_digest);
    memcpy(sending->source, source.data, size);
    sending->source[size] = '\0';
}

static void was_read_for_delivery(struct handoff_store_read *read)
{
    struct handoff_stored_sending *stored = stored_of(read);
    struct handoff_sending *sending = stored->sending;
    if (stored->error.code == HANDOFF_OK && stored->excerpt.failed)
        handoff_error_no_memory(&stored->error);
    if (stored->error.code != HANDOFF_OK) {
        const struct handoff_error error = stored->error;
        handoff_sending_fail(sending, &error);
    } else if (sending->key[0] && (!stored->has_handoff || stored->key_owner == KEY_OF_OTHER)) {
        identify_stored(stored);
        handoff_sending_begin_with_key(sending);
    } else {
        begin_stored(sending);
    }
}

void handoff_stored_read_again(struct handoff_sending *sending)
{
    handoff_store_submit_read(sending->loop->client->store, &sending->stored->read);
}

void handoff_stored_free(struct handoff_stored_sending **stored)
{
    if (!*stored)
        return;
    clear_stored(*stored);
    base_arena_free(&(*stored)->arena);
    (*stored)->magic = 0;
    base_free(*stored);
    *stored = NULL;
}

/* NULL: out of memory. */
static struct handoff_stored_sending *make_stored(struct handoff_loop *loop,
                                                  const struct base_uuid *id, const char *caller)
{
    struct handoff_stored_sending *stored = base_calloc(1, sizeof *stored);
    if (!stored)
        return NULL;
    stored->magic = STORED_MAGIC;
    stored->id = *id;
    base_uuid_format(id, stored->id_text);
    if (caller && strlen(caller) < sizeof stored->caller)
        memcpy(stored->caller, caller, strlen(caller));
    stored->read.mailbox = loop->lane->mailbox;
    stored->read.run = read_for_delivery;
    stored->read.done = was_read_for_delivery;
    base_arena_init(&stored->arena, 0);
    return stored;
}

void handoff_envelope_deliver(struct handoff_loop *loop, const char *id,
                              const struct handoff_ask *ask, handoff_answered *answered,
                              void *context)
{
    struct base_uuid uuid;
    struct handoff_error error;
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    if (handoff_read_id(id, &uuid, &error) != HANDOFF_OK) {
        handoff_give_error(answered, context, &error);
        return;
    }
    struct handoff_stored_sending *stored = make_stored(loop, &uuid, ask->caller);
    struct handoff_sending *sending =
        stored ? handoff_sending_new(loop, ask, answered, context) : NULL;
    if (!sending) {
        if (stored)
            handoff_stored_free(&stored);
        handoff_give_no_memory(answered, context);
        return;
    }
    stored->sending = sending;
    sending->stored = stored;
    sending->begin = begin_stored;
    if (!ask->idempotency_key || handoff_sending_take_key(sending, ask))
        handoff_stored_read_again(sending);
}
