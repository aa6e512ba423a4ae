/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver's deferred acknowledgement, rejection or request for more time. On the loop's
 * thread. A receiver of a publication may name it by its envelope, which is the same for all; a
 * reader thread then finds the receiver's own delivery.
 */
#include <stdio.h>
#include <string.h>

#include "client/calls/lookup.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/calls/warn.h"
#include "client/client.h"
#include "client/deliver/gaps.h"
#include "client/model/gaps.h"
#include "client/model/model.h"
#include "client/model/warnings.h"
#include "client/store/channels.h"
#include "lib/base/buffer.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { ANSWERING_MAGIC = 0x616e7377 };

struct answering {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    char caller[129];
    char *next;                        /* a copy of the next request, or NULL */
    char *scopes;                      /* of the caller, for that request; NULL: it is not bound */
    char *progress;                    /* NULL: none */
    struct base_buffer lacking;        /* ids of memories that the caller lacks; empty: none */
    struct handoff_warnings *warnings; /* of the answer; NULL: nothing is handed on */
    struct handoff_reply reply;

    /* of an id that no handoff has; the reader's, then the loop's */
    struct handoff_store_read read;
    bool looked_for_delivery, is_delivery;
};

static void end_answering(struct answering *answering)
{
    base_free(answering->progress);
    base_buffer_free(&answering->lacking);
    base_free(answering->next);
    base_free(answering->scopes);
    answering->magic = 0;
    base_free(answering);
}

/* False: out of memory. */
static bool keep_progress(struct handoff_client *client, struct answering *answering,
                          const char *text)
{
    const size_t room = 2 * strlen(text) + 64; /* a marker may be longer than what it replaces */
    answering->progress = base_malloc(room);
    if (answering->progress)
        handoff_client_copy_reason(client, answering->progress, room, text);
    answering->reply.progress = base_span_text(answering->progress);
    return answering->progress != NULL;
}

static struct answering *answering_of_read(struct handoff_store_read *read)
{
    struct answering *answering = BASE_CONTAINER_OF(read, struct answering, read);
    BASE_CHECK_MAGIC(answering, ANSWERING_MAGIC);
    return answering;
}

/* On a reader thread, which owns the answering until delivery_was_looked_for. */
static void look_for_delivery(struct handoff_store_read *read)
{
    struct answering *answering = answering_of_read(read);
    struct base_uuid delivery;
    struct handoff_error error;
    enum handoff_code code =
        handoff_store_find_delivery(answering->loop->client->store, &answering->reply.id,
                                    answering->reply.agent, &delivery, &error);
    answering->is_delivery = code == HANDOFF_OK;
    if (answering->is_delivery)
        answering->reply.id = delivery;
    else if (code == HANDOFF_ERR_CONFLICT)
        answering->reply.error = error;
}

static void answer_told(struct answering *answering);
static void end_answer(struct answering *answering);

static void delivery_was_looked_for(struct handoff_store_read *read)
{
    struct answering *answering = answering_of_read(read);
    if (answering->is_delivery)
        handoff_engine_reply(answering->loop->client->engine, &answering->reply);
    else
        answer_told(answering);
}

/* The id may be a publication's. */
static bool may_mean_delivery(const struct answering *answering)
{
    return answering->reply.error.code == HANDOFF_ERR_NOT_FOUND && !answering->looked_for_delivery;
}

static void word_told(struct handoff_reply *reply)
{
    struct answering *answering = BASE_CONTAINER_OF(reply, struct answering, reply);
    BASE_CHECK_MAGIC(answering, ANSWERING_MAGIC);
    if (!may_mean_delivery(answering)) {
        answer_told(answering);
        return;
    }
    answering->looked_for_delivery = true;
    answering->read.mailbox = answering->loop->lane->mailbox;
    answering->read.run = look_for_delivery;
    answering->read.done = delivery_was_looked_for;
    handoff_store_submit_read(answering->loop->client->store, &answering->read);
}

/* What the caller lacks is stored once its word counts; a caller that is not answered repeats it.
   With an acknowledgement in memory it is stored by then, and this tells whether that went well. */
static void lacking_was_kept(void *context, const struct handoff_error *error)
{
    struct answering *answering = context;
    BASE_CHECK_MAGIC(answering, ANSWERING_MAGIC);
    if (error->code != HANDOFF_OK)
        answering->reply.error = *error;
    end_answer(answering);
}

static bool keeps_lacking(struct answering *answering)
{
    struct handoff_reply *reply = &answering->reply;
    /* with a problem of the next request the acknowledgement counts all the same */
    const bool counts = reply->error.code == HANDOFF_OK || reply->next_problem.code != HANDOFF_OK;
    if (!counts || answering->lacking.size == 0)
        return false;
    return handoff_lane_keep_gaps(answering->loop->lane, &reply->id,
                                  base_buffer_span(&answering->lacking), base_span(NULL, 0),
                                  reply->agent, lacking_was_kept, answering,
                                  &reply->error) == HANDOFF_OK;
}

/* The status, with what was handed on. */
static bool add_successor(struct base_buffer *body, const struct handoff_result *status,
                          const struct handoff_successor *successor)
{
    const bool is_parked = successor->parked_for != HANDOFF_REASON_NONE;
    char id[BASE_UUID_TEXT];
    base_uuid_format(&successor->id, id);
    base_buffer_append(body, status->body, status->size - 1); /* but for its brace */
    base_buffer_printf(body, ",\"next\":{\"id\":\"%s\",\"state\":\"%s\",\"reason\":\"%s\"}}", id,
                       handoff_state_name(is_parked ? HANDOFF_STATE_PARKED : HANDOFF_STATE_READY),
                       handoff_reason_name(successor->parked_for));
    return !body->failed;
}

static void handed_on_was_read(void *context, const struct handoff_result *status)
{
    struct answering *answering = context;
    struct handoff_result result = *status;
    struct base_buffer body = {0};
    BASE_CHECK_MAGIC(answering, ANSWERING_MAGIC);
    if (status->error.code == HANDOFF_OK &&
        add_successor(&body, status, &answering->reply.successor)) {
        result.body = body.data;
        result.size = body.size;
    }
    answering->answered(answering->context, &result);
    base_buffer_free(&body);
    end_answering(answering);
}

/* The problem says that the handoff was acknowledged all the same, or what replaced it. */
static void problem_was_read(void *context, const struct handoff_result *status)
{
    struct answering *answering = context;
    struct handoff_result result = *status;
    BASE_CHECK_MAGIC(answering, ANSWERING_MAGIC);
    result.error = answering->reply.error;
    answering->answered(answering->context, &result);
    end_answering(answering);
}

/* Fields of the request are members of `next`. */
static void name_as_next(struct handoff_error *error)
{
    char field[sizeof error->field];
    snprintf(field, sizeof field, "%s", error->field);
    if (*field && strcmp(field, "next") != 0)
        handoff_error_field(error, "next.%s", field);
}

static void answer_told(struct answering *answering)
{
    if (!keeps_lacking(answering))
        end_answer(answering);
}

static void end_answer(struct answering *answering)
{
    const struct handoff_reply *reply = &answering->reply;
    answering->loop->pending--;
    if (reply->next_ignored)
        handoff_warn(answering->warnings, "next",
                     "the handoff was acknowledged before; nothing more is handed on");
    if (reply->error.code == HANDOFF_OK && reply->successor.exists) {
        handoff_look_up(answering->loop, &reply->id, &reply->view, handed_on_was_read, answering);
        return;
    }
    if (reply->next_problem.code != HANDOFF_OK)
        name_as_next(&answering->reply.error);
    if (reply->next_problem.code != HANDOFF_OK || handoff_reply_is_about_replaced(reply)) {
        handoff_look_up(answering->loop, &reply->id, &reply->view, problem_was_read, answering);
        return;
    }
    if (reply->error.code == HANDOFF_OK) /* the handoff may have changed again by now */
        handoff_look_up(answering->loop, &reply->id, &reply->view, answering->answered,
                        answering->context);
    else
        handoff_give_error(answering->answered, answering->context, &reply->error);
    end_answering(answering);
}

/* `ask`: NULL: nothing is handed on. False: out of memory. */
static bool copy_next(struct answering *answering, const struct handoff_ask *ask)
{
    if (!ask)
        return true;
    answering->next = base_malloc(ask->size + 1);
    answering->scopes = ask->scopes ? base_strdup(ask->scopes) : NULL;
    if (!answering->next || (ask->scopes && !answering->scopes))
        return false;
    memcpy(answering->next, ask->body, ask->size);
    answering->next[ask->size] = '\0';
    answering->reply.next = base_span(answering->next, ask->size);
    answering->reply.scopes = answering->scopes;
    return true;
}

/* A caller's answer about a handoff; borrowed for the call. */
struct spoken {
    enum handoff_word word;
    const char *reason, *progress;            /* NULL: none */
    const struct handoff_ask *next;           /* NULL: nothing is handed on */
    const struct handoff_memory_ids *lacking; /* NULL: nothing */
    const char *caller;                       /* NULL: anybody */
};

static enum handoff_code refuse_gap_id(size_t at, const char *id, struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, "this is not the id of a memory", NULL, NULL);
    handoff_error_field(error, "missing[%zu]", at);
    handoff_error_seen(error, "%.100s", id);
    handoff_error_allow(error, "1 to 128 characters of A-Z a-z 0-9 . _ : -, *pinned or *recent");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code copy_lacking(struct base_buffer *to, const struct handoff_memory_ids *from,
                                      struct handoff_error *error)
{
    if (from && from->count > HANDOFF_GAPS_MAX) {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "too many memories are missing", "missing",
                          NULL);
        handoff_error_seen(error, "%zu", from->count);
        handoff_error_allow(error, "up to %d", HANDOFF_GAPS_MAX);
        return HANDOFF_ERR_INVALID;
    }
    for (size_t i = 0; from && i < from->count; i++) {
        if (!handoff_gap_is_id(base_span_text(from->ids[i])))
            return refuse_gap_id(i, from->ids[i], error);
        base_buffer_text(to, from->ids[i]);
        base_buffer_byte(to, '\n');
    }
    return to->failed ? handoff_error_no_memory(error) : HANDOFF_OK;
}

/* Copies what the host lends. */
static enum handoff_code copy_spoken(struct handoff_loop *loop, struct answering *answering,
                                     const struct spoken *spoken, struct handoff_error *error)
{
    struct handoff_reply *reply = &answering->reply;
    if (!copy_next(answering, spoken->next) ||
        (spoken->progress && !keep_progress(loop->client, answering, spoken->progress)))
        return handoff_error_no_memory(error);
    enum handoff_code code = copy_lacking(&answering->lacking, spoken->lacking, error);
    if (code != HANDOFF_OK)
        return code;
    reply->word = spoken->word;
    reply->lacking = base_buffer_span(&answering->lacking);
    handoff_client_copy_reason(loop->client, reply->said, sizeof reply->said, spoken->reason);
    snprintf(answering->caller, sizeof answering->caller, "%s",
             spoken->caller ? spoken->caller : "");
    reply->agent = base_span_text(spoken->caller ? answering->caller : NULL);
    return HANDOFF_OK;
}

static void speak(struct handoff_loop *loop, const char *id, const struct spoken *spoken,
                  handoff_answered *answered, void *context)
{
    struct handoff_error error;
    struct answering *answering = base_calloc(1, sizeof *answering);
    if (!answering) {
        handoff_give_no_memory(answered, context);
        return;
    }
    enum handoff_code code = handoff_read_id(id, &answering->reply.id, &error);
    if (code == HANDOFF_OK)
        code = copy_spoken(loop, answering, spoken, &error);
    if (code == HANDOFF_OK && spoken->next) {
        answering->warnings = handoff_warn_in_answer(&answered, &context);
        if (!answering->warnings)
            code = handoff_error_no_memory(&error);
    }
    if (code != HANDOFF_OK) {
        end_answering(answering);
        handoff_give_error(answered, context, &error);
        return;
    }
    answering->magic = ANSWERING_MAGIC;
    answering->loop = loop;
    answering->answered = answered;
    answering->context = context;
    answering->reply.lane = loop->lane;
    answering->reply.told = word_told;
    loop->pending++;
    handoff_engine_reply(loop->client->engine, &answering->reply);
}

void handoff_acknowledge(struct handoff_loop *loop, const char *id, enum handoff_answer_word word,
                         const char *reason, const char *caller, handoff_answered *answered,
                         void *context)
{
    static const enum handoff_word words[] = {
        [HANDOFF_ANSWER_ACK] = HANDOFF_WORD_ACK,
        [HANDOFF_ANSWER_NACK] = HANDOFF_WORD_NACK_RETRY,
        [HANDOFF_ANSWER_REFUSE] = HANDOFF_WORD_NACK_FINAL,
        [HANDOFF_ANSWER_EXTEND] = HANDOFF_WORD_EXTEND,
    };
    const struct spoken spoken = {.word = words[word],
                                  .reason = reason,
                                  .progress = word == HANDOFF_ANSWER_EXTEND ? reason : NULL,
                                  .caller = caller};
    speak(loop, id, &spoken, answered, context);
}

void handoff_hand_on(struct handoff_loop *loop, const char *id, const struct handoff_ask *ask,
                     handoff_answered *answered, void *context)
{
    handoff_acknowledge_lacking(loop, id, NULL, ask, ask->caller, answered, context);
}

void handoff_acknowledge_lacking(struct handoff_loop *loop, const char *id,
                                 const struct handoff_memory_ids *lacking,
                                 const struct handoff_ask *next, const char *caller,
                                 handoff_answered *answered, void *context)
{
    const struct spoken spoken = {
        .word = HANDOFF_WORD_ACK, .next = next, .lacking = lacking, .caller = caller};
    speak(loop, id, &spoken, answered, context);
}

void handoff_flag_gaps(struct handoff_loop *loop, const char *id,
                       const struct handoff_memory_ids *lacking, const char *caller,
                       handoff_answered *answered, void *context)
{
    const struct spoken spoken = {.word = HANDOFF_WORD_LACKS, .lacking = lacking, .caller = caller};
    speak(loop, id, &spoken, answered, context);
}
