/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handoffs as a host asks for them: sent, answered for, read, replayed.
 *
 * A send is one struct from the call to its answer: it assembles, hands the envelope to delivery as
 * a parcel, and then only waits. What it needed for assembling is released before it waits, because
 * thousands may wait for slow receivers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/check.h"
#include "client/base/error.h"
#include "client/base/memory.h"
#include "client/base/rfc3339.h"
#include "client/client.h"
#include "client/deliver/parked.h"
#include "client/object.h"

enum {
    SENDING_MAGIC = 0x73656e64,
    ANSWERING_MAGIC = 0x616e7377,
    DECIDING_MAGIC = 0x64656369,
    PULL_MAGIC = 0x70756c6c,
    KEY_MAX = 256,
    LIST_LIMIT = 50,
    LIST_LIMIT_MAX = 1000,
};

/* ---- what is told of deliveries -------------------------------------------------------------- */

static const enum handoff_event_kind kinds[] = {
    [HANDOFF_HAPPENED_MOVE] = HANDOFF_EVENT_MOVED,
    [HANDOFF_HAPPENED_REFUSED] = HANDOFF_EVENT_REJECTED,
    [HANDOFF_HAPPENED_CIRCUIT] = HANDOFF_EVENT_CIRCUIT,
};

static void describe_move(struct handoff_event *event, const struct handoff_delivery_event *told)
{
    event->from = told->from ? handoff_state_name(told->from) : NULL;
    event->to = handoff_state_name(told->to);
    event->resumed = told->resumed;
    event->elapsed_ns = told->elapsed_us * 1000;
    event->attempts = told->attempts;
    event->replays = told->replays;
    if (!told->has_attempt)
        return;
    event->result = handoff_result_name(told->result);
    event->attempt_target = told->attempt_target;
    event->attempt_ns = told->attempt_us * 1000;
}

void handoff_client_tell_delivery(void *observer, const struct handoff_delivery_event *told)
{
    const struct handoff_client *client = observer;
    struct handoff_event event = {
        .kind = kinds[told->happened],
        .id = told->handoff_id,
        .source_agent = told->source.data,
        .target_agent = told->target,
        .pattern = handoff_pattern_name((enum handoff_pattern)told->pattern),
        .outcome = told->outcome ? handoff_outcome_name(told->outcome) : NULL,
        .reason = told->reason,
    };
    if (told->trace_id.data)
        snprintf(event.trace_id, sizeof event.trace_id, "%.*s", (int)told->trace_id.size,
                 told->trace_id.data);
    if (told->happened == HANDOFF_HAPPENED_MOVE)
        describe_move(&event, told);
    if (told->happened == HANDOFF_HAPPENED_CIRCUIT) {
        event.circuit = handoff_circuit_name(told->circuit);
        event.opened = told->opened;
        event.consecutive_failures = told->consecutive_failures;
    }
    handoff_client_tell(client, &event);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void write_news(struct handoff_buffer *out, const struct handoff_news *news)
{
    const struct handoff_object object = {.envelope = news->envelope,
                                          .state = news->state,
                                          .target = handoff_span_text(news->target),
                                          .reason = handoff_span_text(news->reason),
                                          .attempts = news->attempts,
                                          .settled_ms = news->settled_ms};
    handoff_object_write(out, &object);
}

/* How a settled handoff reads as an error; OK where it was acknowledged or goes on. */
static void judge_news(const struct handoff_news *news, struct handoff_error *error)
{
    handoff_error_clear(error);
    if (news->error.code != HANDOFF_OK)
        *error = news->error;
    else if (news->state == HANDOFF_STATE_EXPIRED)
        handoff_error_set(error, HANDOFF_ERR_EXPIRED, handoff_code_meaning(HANDOFF_ERR_EXPIRED),
                          "target_agent", news->target);
    else if (news->state == HANDOFF_STATE_PARKED) {
        enum handoff_code code =
            strcmp(news->reason, "refused") == 0 ? HANDOFF_ERR_REFUSED : HANDOFF_ERR_EXHAUSTED;
        handoff_error_set(error, code, handoff_code_meaning(code), "target_agent", news->target);
    }
}

/* Gives the answer: the handoff as the body, and the error where there is one. */
static void give_news(handoff_answered *answered, void *context, const struct handoff_news *news,
                      bool created)
{
    struct handoff_buffer body = {0};
    struct handoff_result result = {.created = created};
    result.under_way = handoff_state_is_live(news->state);
    judge_news(news, &result.error);
    if (news->envelope.data)
        write_news(&body, news);
    if (body.failed)
        handoff_error_no_memory(&result.error);
    else if (body.size > 0) {
        result.body = body.data;
        result.size = body.size;
    }
    answered(context, &result);
    handoff_buffer_free(&body);
}

static void give_error(handoff_answered *answered, void *context, const struct handoff_error *error)
{
    const struct handoff_result result = {.error = *error};
    answered(context, &result);
}

static void give_no_memory(handoff_answered *answered, void *context)
{
    struct handoff_error error;
    handoff_error_no_memory(&error);
    give_error(answered, context, &error);
}

/* ---- sending --------------------------------------------------------------------------------- */

struct sending {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    bool respond_async;
    char key[KEY_MAX + 1]; /* "": none */
    char source[HANDOFF_NAME_MAX + 1];
    uint8_t request_digest[HANDOFF_SHA256_BYTES];
    struct handoff_waiter waiter;
    struct handoff_assembly *assembly; /* NULL once the envelope was handed over */
};

static struct sending *sending_of(struct handoff_waiter *waiter)
{
    struct sending *sending = (void *)((char *)waiter - offsetof(struct sending, waiter));
    HANDOFF_CHECK_MAGIC(sending, SENDING_MAGIC);
    return sending;
}

static void end_sending(struct sending *sending)
{
    sending->loop->pending--;
    if (sending->assembly) {
        handoff_assembly_free(sending->assembly);
        handoff_free(sending->assembly);
    }
    sending->magic = 0;
    handoff_free(sending);
}

static void fail_sending(struct sending *sending, const struct handoff_error *error)
{
    handoff_answered *answered = sending->answered;
    void *context = sending->context;
    struct handoff_error copy = *error; /* it may lie in the assembly */
    end_sending(sending);
    give_error(answered, context, &copy);
}

static void sender_accepted(struct handoff_waiter *waiter, const struct handoff_news *news)
{
    struct sending *sending = sending_of(waiter);
    if (!sending->respond_async)
        return;
    handoff_waiter_withdraw(waiter);
    give_news(sending->answered, sending->context, news, true);
    end_sending(sending);
}

static bool answer_from_key(struct sending *sending);

static void sender_settled(struct handoff_waiter *waiter, const struct handoff_news *news)
{
    struct sending *sending = sending_of(waiter);
    /* two requests with one key at the same time: the store took the other */
    if (news->error.code == HANDOFF_ERR_CONFLICT && sending->key[0] && answer_from_key(sending))
        return;
    give_news(sending->answered, sending->context, news, true);
    end_sending(sending);
}

static int64_t deadline_of(const struct handoff_assembly *assembly)
{
    yyjson_val *root =
        assembly->constraints_doc ? yyjson_doc_get_root(assembly->constraints_doc) : NULL;
    yyjson_val *deadline = yyjson_obj_get(root, "deadline");
    int64_t wall_ms = 0;
    if (!yyjson_is_str(deadline) ||
        !handoff_rfc3339_parse(yyjson_get_str(deadline), yyjson_get_len(deadline), &wall_ms))
        return 0;
    return wall_ms;
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
    struct handoff_parcel parcel = {
        .id = assembly->id,
        .envelope = handoff_buffer_span(&assembly->out),
        .cut_at = HANDOFF_DIGEST_AT,
        .cut_size = HANDOFF_DIGEST_SIZE,
        .task_id = assembly->task_id,
        .source = assembly->request.source_agent,
        .target = assembly->request.target_agent,
        .pattern = assembly->request.pattern,
        .created_ms = assembly->created_ms,
        .deadline_ms = deadline_of(assembly),
        .tokens = assembly->plan.count,
        .traceparent = assembly->traceparent,
        .tracestate = assembly->tracestate,
        .idempotency_key = handoff_span_text(sending->key[0] ? sending->key : NULL),
    };
    memcpy(parcel.digest, assembly->digest, sizeof parcel.digest);
    memcpy(parcel.request_digest, sending->request_digest, sizeof parcel.request_digest);
    return handoff_engine_deliver(sending->loop->lane, &parcel, &sending->waiter, error);
}

static void sender_assembled(struct handoff_assembly *assembly)
{
    struct sending *sending = assembly->context;
    struct handoff_error error;
    HANDOFF_CHECK_MAGIC(sending, SENDING_MAGIC);
    if (assembly->stage > HANDOFF_STAGE_RESOLVE)
        handoff_client_tell_spine(sending->loop->client, "resolve",
                                  assembly->resolve.call.error.code, assembly->spine_ns);
    tell_assembled(sending);
    if (assembly->error.code != HANDOFF_OK) {
        fail_sending(sending, &assembly->error);
        return;
    }
    handoff_client_keep_tokens(sending->loop, assembly);
    if (hand_over(sending, &error) != HANDOFF_OK) {
        fail_sending(sending, &error);
        return;
    }
    handoff_assembly_free(assembly);
    handoff_free(assembly);
    sending->assembly = NULL;
}

/* The sender's name, as far as the request says it: keys of different senders are different keys.
 */
static struct handoff_span find_source(const struct handoff_ask *ask, yyjson_doc **doc)
{
    *doc = NULL;
    if (ask->caller)
        return handoff_span_text(ask->caller);
    *doc = yyjson_read(ask->body, ask->size, 0);
    yyjson_val *source = *doc ? yyjson_obj_get(yyjson_doc_get_root(*doc), "source_agent") : NULL;
    return handoff_span(yyjson_get_str(source), yyjson_get_len(source));
}

static enum handoff_code get_news(struct handoff_client *client, const struct handoff_uuid *id,
                                  struct handoff_arena *arena, struct handoff_news *news,
                                  struct handoff_error *error);

/* Answers with the handoff that was accepted under the key, if there is one. */
static bool answer_from_stored_key(struct sending *sending, struct handoff_span source)
{
    struct handoff_client *client = sending->loop->client;
    uint8_t digest[HANDOFF_SHA256_BYTES];
    struct handoff_uuid id;
    struct handoff_error error;
    struct handoff_news news;
    struct handoff_arena arena;
    enum handoff_code code = handoff_store_find_key(
        client->store, source, handoff_span_text(sending->key), &id, digest, &error);
    if (code == HANDOFF_ERR_NOT_FOUND)
        return false;
    handoff_arena_init(&arena, 0);
    if (code == HANDOFF_OK && memcmp(digest, sending->request_digest, sizeof digest) != 0)
        code = handoff_error_set(&error, HANDOFF_ERR_IDEMPOTENCY_CONFLICT,
                                 "this key was used for another request; a new request needs a new "
                                 "key",
                                 "Idempotency-Key", sending->key);
    if (code == HANDOFF_OK)
        code = get_news(client, &id, &arena, &news, &error);
    if (code == HANDOFF_OK)
        give_news(sending->answered, sending->context, &news, false);
    else
        give_error(sending->answered, sending->context, &error);
    handoff_arena_free(&arena);
    end_sending(sending);
    return true;
}

static bool answer_from_key(struct sending *sending)
{
    return answer_from_stored_key(sending, handoff_span(sending->source, strlen(sending->source)));
}

/* The key and what it stands for. False: it is answered. */
static bool take_key(struct sending *sending, const struct handoff_ask *ask)
{
    yyjson_doc *doc;
    struct handoff_error error;
    if (!ask->idempotency_key)
        return true;
    size_t size = strlen(ask->idempotency_key);
    if (size == 0 || size > KEY_MAX) {
        handoff_error_set(&error, HANDOFF_ERR_INVALID, "the key is empty or too long",
                          "Idempotency-Key", ask->idempotency_key);
        handoff_error_allow(&error, "1 to %d bytes", KEY_MAX);
        fail_sending(sending, &error);
        return false;
    }
    memcpy(sending->key, ask->idempotency_key, size + 1);
    handoff_sha256(ask->body, ask->size, sending->request_digest);
    struct handoff_span source = find_source(ask, &doc);
    snprintf(sending->source, sizeof sending->source, "%.*s", (int)source.size,
             source.data ? source.data : "");
    yyjson_doc_free(doc);
    return !answer_from_key(sending);
}

void handoff_send(struct handoff_loop *loop, const struct handoff_ask *ask,
                  handoff_answered *answered, void *context)
{
    struct sending *sending = handoff_calloc(1, sizeof *sending);
    struct handoff_assembly *assembly = handoff_calloc(1, sizeof *assembly);
    if (!sending || !assembly) {
        handoff_free(sending);
        handoff_free(assembly);
        give_no_memory(answered, context);
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
    handoff_client_begin_assembly(loop, assembly, ask);
    assembly->context = sending;
    assembly->finished = sender_assembled;
    if (!take_key(sending, ask))
        return;
    if (handoff_assembly_run(assembly))
        sender_assembled(assembly);
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum handoff_code parse_id(const char *text, struct handoff_uuid *id,
                                  struct handoff_error *error)
{
    if (handoff_uuid_parse(text, strlen(text), id))
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_NOT_FOUND, "no handoff has this id", "id", text);
}

/* The store's row, with the state that memory knows better. */
static void describe_stored(struct handoff_client *client, const struct handoff_stored *stored,
                            struct handoff_span envelope, struct handoff_object *object)
{
    int live = handoff_live_state(handoff_engine_live(client->engine), &stored->id);
    /* an acknowledgement is told at once, any other end when it is written (delivery.c) */
    bool unwritten = live && !handoff_state_is_live((enum handoff_state)live) &&
                     live != HANDOFF_STATE_ACKNOWLEDGED;
    *object = (struct handoff_object){
        .envelope = envelope,
        .state = (enum handoff_state)(live && !unwritten ? live : stored->standing.state),
        .target = stored->standing.target,
        .reason = stored->standing.reason,
        .attempts = stored->standing.attempts,
        .settled_ms = stored->standing.settled_ms,
    };
}

static enum handoff_code get_object(struct handoff_client *client, const struct handoff_uuid *id,
                                    struct handoff_arena *arena, struct handoff_stored *stored,
                                    struct handoff_object *object, struct handoff_error *error)
{
    struct handoff_stored_envelope envelope;
    enum handoff_code code = handoff_store_get_handoff(client->store, id, arena, stored, error);
    if (code == HANDOFF_OK)
        code = handoff_store_get_envelope(client->store, id, arena, &envelope, error);
    if (code == HANDOFF_OK)
        describe_stored(client, stored, envelope.body, object);
    return code;
}

static enum handoff_code get_news(struct handoff_client *client, const struct handoff_uuid *id,
                                  struct handoff_arena *arena, struct handoff_news *news,
                                  struct handoff_error *error)
{
    struct handoff_stored stored;
    struct handoff_object object;
    enum handoff_code code = get_object(client, id, arena, &stored, &object, error);
    if (code != HANDOFF_OK)
        return code;
    *news = (struct handoff_news){.envelope = object.envelope,
                                  .state = object.state,
                                  .target = object.target.data, /* copies end in a NUL */
                                  .reason = object.reason.data,
                                  .attempts = object.attempts,
                                  .settled_ms = object.settled_ms};
    return HANDOFF_OK;
}

enum handoff_code handoff_get(struct handoff_client *client, const char *id,
                              struct handoff_text *text, struct handoff_error *error)
{
    struct handoff_arena arena;
    struct handoff_uuid uuid;
    struct handoff_stored stored;
    struct handoff_object object;
    struct handoff_buffer out = {0};
    *text = (struct handoff_text){0};
    handoff_arena_init(&arena, 0);
    enum handoff_code code = parse_id(id, &uuid, error);
    if (code == HANDOFF_OK)
        code = get_object(client, &uuid, &arena, &stored, &object, error);
    if (code == HANDOFF_OK) {
        handoff_object_write(&out, &object);
        code = handoff_client_give(&out, text, error);
    }
    handoff_arena_free(&arena);
    return code;
}

enum handoff_code handoff_get_attempts(struct handoff_client *client, const char *id,
                                       struct handoff_text *text, struct handoff_error *error)
{
    struct handoff_arena arena;
    struct handoff_uuid uuid;
    struct handoff_stored stored;
    struct handoff_attempt *attempts = NULL;
    struct handoff_buffer out = {0};
    size_t count = 0;
    *text = (struct handoff_text){0};
    handoff_arena_init(&arena, 0);
    enum handoff_code code = parse_id(id, &uuid, error);
    if (code == HANDOFF_OK)
        code = handoff_store_get_handoff(client->store, &uuid, &arena, &stored, error);
    if (code == HANDOFF_OK)
        code = handoff_store_attempts(client->store, stored.seq, &arena, &attempts, &count, error);
    if (code == HANDOFF_OK) {
        handoff_buffer_text(&out, "{\"items\":[");
        for (size_t i = 0; i < count; i++) {
            handoff_buffer_text(&out, i ? "," : "");
            handoff_object_write_attempt(&out, &attempts[i]);
        }
        handoff_buffer_text(&out, "],\"next\":null}");
        code = handoff_client_give(&out, text, error);
    }
    handoff_arena_free(&arena);
    return code;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A cursor is the number of the last one that was shown. */
static enum handoff_code read_cursor(const char *cursor, int64_t *after,
                                     struct handoff_error *error)
{
    char *end;
    *after = 0;
    if (!cursor)
        return HANDOFF_OK;
    *after = strtoll(cursor, &end, 10);
    if (*cursor >= '0' && *cursor <= '9' && *end == '\0')
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_INVALID_CURSOR,
                             "this list did not give out this cursor", "cursor", cursor);
}

static enum handoff_code write_items(struct handoff_client *client, struct handoff_buffer *out,
                                     const struct handoff_stored *list, size_t count,
                                     struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < count && code == HANDOFF_OK; i++) {
        struct handoff_arena arena;
        struct handoff_stored_envelope envelope;
        struct handoff_object object;
        handoff_arena_init(&arena, 0);
        code = handoff_store_get_envelope(client->store, &list[i].id, &arena, &envelope, error);
        if (code == HANDOFF_OK) {
            describe_stored(client, &list[i], envelope.body, &object);
            handoff_buffer_text(out, i ? "," : "");
            handoff_object_write(out, &object);
        }
        handoff_arena_free(&arena);
    }
    return code;
}

static enum handoff_code check_limit(int64_t *limit, struct handoff_error *error)
{
    if (*limit == 0)
        *limit = LIST_LIMIT;
    if (*limit >= 1 && *limit <= LIST_LIMIT_MAX)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "a page cannot have this size", "limit", NULL);
    handoff_error_seen(error, "%lld", (long long)*limit);
    handoff_error_allow(error, "1 to %d", LIST_LIMIT_MAX);
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_list(struct handoff_client *client,
                               const struct handoff_list_query *query, struct handoff_text *text,
                               struct handoff_error *error)
{
    int64_t limit = query->limit;
    struct handoff_store_filter filter = {
        .states = query->parked ? 1u << HANDOFF_STATE_PARKED : UINT32_MAX,
        .target = handoff_span_text(query->target),
        .reason = handoff_span_text(query->reason),
        .task_id = handoff_span_text(query->task_id),
    };
    struct handoff_arena arena;
    struct handoff_stored *list = NULL;
    struct handoff_buffer out = {0};
    size_t count = 0;
    *text = (struct handoff_text){0};
    enum handoff_code code = check_limit(&limit, error);
    if (code == HANDOFF_OK)
        code = read_cursor(query->cursor, &filter.after_seq, error);
    if (code != HANDOFF_OK)
        return code;
    filter.limit = (size_t)limit;
    handoff_arena_init(&arena, 0);
    code = handoff_store_list(client->store, &filter, &arena, &list, &count, error);
    handoff_buffer_text(&out, "{\"items\":[");
    if (code == HANDOFF_OK)
        code = write_items(client, &out, list, count, error);
    if (code == HANDOFF_OK && count == filter.limit)
        handoff_buffer_printf(&out, "],\"next\":\"%lld\"}", (long long)list[count - 1].seq);
    else
        handoff_buffer_text(&out, "],\"next\":null}");
    if (code == HANDOFF_OK)
        code = handoff_client_give(&out, text, error);
    handoff_buffer_free(&out);
    handoff_arena_free(&arena);
    return code;
}

/* ---- the receiver's later word --------------------------------------------------------------- */

struct answering {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    char caller[129];
    struct handoff_reply reply;
};

static void word_told(struct handoff_reply *reply)
{
    struct answering *answering = (void *)((char *)reply - offsetof(struct answering, reply));
    struct handoff_news news;
    struct handoff_arena arena;
    HANDOFF_CHECK_MAGIC(answering, ANSWERING_MAGIC);
    struct handoff_error error = reply->error;
    handoff_arena_init(&arena, 0);
    enum handoff_code code = error.code;
    if (code == HANDOFF_OK)
        code = get_news(answering->loop->client, &reply->id, &arena, &news, &error);
    if (code == HANDOFF_OK) {
        struct handoff_buffer body = {0};
        struct handoff_result result = {0};
        news.state = reply->state; /* the store may not have written it yet */
        write_news(&body, &news);
        result.body = body.data;
        result.size = body.size;
        if (body.failed)
            handoff_error_no_memory(&result.error);
        answering->answered(answering->context, &result);
        handoff_buffer_free(&body);
    } else {
        give_error(answering->answered, answering->context, &error);
    }
    handoff_arena_free(&arena);
    answering->loop->pending--;
    answering->magic = 0;
    handoff_free(answering);
}

void handoff_answer_for(struct handoff_loop *loop, const char *id, enum handoff_answer_word word,
                        const char *reason, const char *caller, handoff_answered *answered,
                        void *context)
{
    static const enum handoff_word words[] = {
        [HANDOFF_ANSWER_ACK] = HANDOFF_WORD_ACK,
        [HANDOFF_ANSWER_NACK] = HANDOFF_WORD_NACK_RETRY,
        [HANDOFF_ANSWER_REFUSE] = HANDOFF_WORD_NACK_FINAL,
        [HANDOFF_ANSWER_EXTEND] = HANDOFF_WORD_EXTEND,
    };
    struct handoff_uuid uuid;
    struct handoff_error error;
    if (parse_id(id, &uuid, &error) != HANDOFF_OK) {
        give_error(answered, context, &error);
        return;
    }
    struct answering *answering = handoff_calloc(1, sizeof *answering);
    if (!answering) {
        give_no_memory(answered, context);
        return;
    }
    answering->magic = ANSWERING_MAGIC;
    answering->loop = loop;
    answering->answered = answered;
    answering->context = context;
    answering->reply.lane = loop->lane;
    answering->reply.told = word_told;
    answering->reply.id = uuid;
    answering->reply.word = words[word];
    snprintf(answering->reply.said, sizeof answering->reply.said, "%s", reason ? reason : "");
    snprintf(answering->caller, sizeof answering->caller, "%s", caller ? caller : "");
    answering->reply.agent = handoff_span_text(caller ? answering->caller : NULL);
    loop->pending++;
    handoff_engine_reply(loop->client->engine, &answering->reply);
}

/* ---- decisions about parked ones --------------------------------------------------------------
 */

struct deciding {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct handoff_waiter waiter;
};

static void decided(struct handoff_waiter *waiter, const struct handoff_news *news)
{
    struct deciding *deciding = (void *)((char *)waiter - offsetof(struct deciding, waiter));
    HANDOFF_CHECK_MAGIC(deciding, DECIDING_MAGIC);
    struct handoff_buffer body = {0};
    struct handoff_result result = {.error = news->error};
    write_news(&body, news);
    result.body = body.data;
    result.size = body.size;
    if (body.failed)
        handoff_error_no_memory(&result.error);
    handoff_waiter_withdraw(waiter);
    deciding->answered(deciding->context, &result);
    handoff_buffer_free(&body);
    deciding->loop->pending--;
    deciding->magic = 0;
    handoff_free(deciding);
}

static void decide(struct handoff_loop *loop, const char *id, enum handoff_decision decision,
                   const char *target, const char *reason, handoff_answered *answered,
                   void *context)
{
    struct handoff_uuid uuid;
    struct handoff_error error;
    struct deciding *deciding = handoff_calloc(1, sizeof *deciding);
    if (!deciding) {
        give_no_memory(answered, context);
        return;
    }
    *deciding = (struct deciding){.magic = DECIDING_MAGIC,
                                  .loop = loop,
                                  .answered = answered,
                                  .context = context,
                                  .waiter = {.accepted = decided, .settled = decided}};
    enum handoff_code code = parse_id(id, &uuid, &error);
    if (code == HANDOFF_OK)
        code = handoff_engine_decide(loop->lane, &uuid, decision, handoff_span_text(target),
                                     handoff_span_text(reason), &deciding->waiter, &error);
    if (code == HANDOFF_OK) {
        loop->pending++;
        return;
    }
    handoff_free(deciding);
    give_error(answered, context, &error);
}

void handoff_replay(struct handoff_loop *loop, const char *id, const char *target,
                    handoff_answered *answered, void *context)
{
    decide(loop, id, HANDOFF_DECISION_REPLAY, target, NULL, answered, context);
}

void handoff_discard(struct handoff_loop *loop, const char *id, const char *reason,
                     handoff_answered *answered, void *context)
{
    decide(loop, id, HANDOFF_DECISION_DISCARD, NULL, reason, answered, context);
}

/* ---- agents at work ---------------------------------------------------------------------------
 */

struct agent_list {
    struct handoff_buffer out;
    int64_t now_ms;
};

static void list_agent(struct handoff_agent *agent, void *arg)
{
    struct agent_list *list = arg;
    if (list->out.size > 0 && list->out.data[list->out.size - 1] != '[')
        handoff_buffer_byte(&list->out, ',');
    handoff_object_write_agent(&list->out, agent, list->now_ms);
}

enum handoff_code handoff_list_agents(struct handoff_client *client, struct handoff_text *text,
                                      struct handoff_error *error)
{
    struct agent_list list = {.now_ms = handoff_monotonic_ns(&handoff_clock_system) / 1000000};
    handoff_buffer_text(&list.out, "{\"items\":[");
    handoff_agents_each(client->agents, list_agent, &list);
    handoff_buffer_text(&list.out, "],\"next\":null}");
    return handoff_client_give(&list.out, text, error);
}

enum handoff_code handoff_reset_agent(struct handoff_loop *loop, const char *name,
                                      struct handoff_error *error)
{
    if (handoff_engine_reset(loop->client->engine, loop->lane, handoff_span_text(name)))
        return handoff_error_clear(error);
    return handoff_error_set(error, HANDOFF_ERR_UNKNOWN_AGENT,
                             "the configuration has no agent of this name", "name", name);
}

/* ---- pulling ----------------------------------------------------------------------------------
 */

struct handoff_puller {
    unsigned magic;
    struct handoff_loop *loop;
    void (*pulled)(void *context, const struct handoff_pulled *got);
    void *context;
    struct handoff_poller_request request;
};

static void pull_told(struct handoff_poller_request *request)
{
    struct handoff_puller *pull =
        (void *)((char *)request - offsetof(struct handoff_puller, request));
    HANDOFF_CHECK_MAGIC(pull, PULL_MAGIC);
    struct handoff_pulled got = {.envelope = request->envelope,
                                 .size = request->envelope_size,
                                 .attempt = request->attempt,
                                 .lease_ms = request->lease_ms};
    handoff_error_clear(&got.error);
    if (got.envelope)
        handoff_uuid_format(&request->id, got.id);
    pull->pulled(pull->context, &got);
    handoff_free(request->envelope);
    pull->loop->pending--;
    pull->magic = 0;
    handoff_free(pull);
}

struct handoff_puller *handoff_pull(struct handoff_loop *loop, const char *name, int64_t wait_ms,
                                    void (*pulled)(void *context, const struct handoff_pulled *got),
                                    void *context)
{
    struct handoff_pulled refusal = {0};
    struct handoff_agent *agent =
        handoff_agents_find(loop->client->agents, handoff_span_text(name));
    struct handoff_puller *pull = agent ? handoff_calloc(1, sizeof *pull) : NULL;
    if (!pull) {
        if (agent)
            handoff_error_no_memory(&refusal.error);
        else
            handoff_error_set(&refusal.error, HANDOFF_ERR_UNKNOWN_AGENT,
                              "the configuration has no agent of this name", "name", name);
        pulled(context, &refusal);
        return NULL;
    }
    pull->magic = PULL_MAGIC;
    pull->loop = loop;
    pull->pulled = pulled;
    pull->context = context;
    pull->request.lane = loop->lane;
    pull->request.agent = agent;
    pull->request.told = pull_told;
    loop->pending++;
    handoff_inbox_poll(&pull->request, wait_ms);
    return pull;
}

void handoff_pull_withdraw(struct handoff_puller *pull)
{
    HANDOFF_CHECK_MAGIC(pull, PULL_MAGIC);
    handoff_inbox_withdraw(&pull->request);
}

/* ---- the process ------------------------------------------------------------------------------
 */

enum handoff_code handoff_client_resume(struct handoff_client *client, struct handoff_loop **loops,
                                        size_t count, struct handoff_error *error)
{
    struct handoff_lane **lanes = handoff_calloc(count, sizeof(struct handoff_lane *));
    if (!lanes)
        return handoff_error_no_memory(error);
    for (size_t i = 0; i < count; i++)
        lanes[i] = loops[i]->lane;
    enum handoff_code code = handoff_engine_resume(client->engine, lanes, count, error);
    handoff_free(lanes);
    return code;
}

void handoff_client_drain(struct handoff_client *client)
{
    handoff_engine_drain(client->engine);
}

size_t handoff_client_in_flight(const struct handoff_client *client)
{
    return handoff_engine_in_flight(client->engine);
}

size_t handoff_client_attempting(const struct handoff_client *client)
{
    return handoff_engine_attempting(client->engine);
}
