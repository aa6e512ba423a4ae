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
#include "client/model/warnings.h"
#include "client/store/channels.h"
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
    struct handoff_warnings *warnings; /* of the answer; NULL: nothing is handed on */
    struct handoff_reply reply;

    /* of an id that no handoff has; the reader's, then the loop's */
    struct handoff_store_read read;
    bool looked_for_delivery, is_delivery;
};

static void end_answering(struct answering *answering)
{
    base_free(answering->progress);
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
    answering->is_delivery =
        handoff_store_find_delivery(answering->loop->client->store, &answering->reply.id,
                                    answering->reply.agent, &delivery, NULL) == HANDOFF_OK;
    if (answering->is_delivery)
        answering->reply.id = delivery;
}

static void answer_told(struct answering *answering);

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
    return answering->reply.error.code == HANDOFF_ERR_NOT_FOUND && answering->reply.agent.data &&
           !answering->looked_for_delivery;
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

static void answer_told(struct answering *answering)
{
    const struct handoff_reply *reply = &answering->reply;
    answering->loop->pending--;
    if (reply->next_ignored)
        handoff_warn(answering->warnings, "next",
                     "the handoff was acknowledged before; nothing more is handed on");
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

static void answer_word(struct handoff_loop *loop, const char *id, enum handoff_answer_word word,
                        const char *reason, const struct handoff_ask *next, const char *caller,
                        handoff_answered *answered, void *context)
{
    static const enum handoff_word words[] = {
        [HANDOFF_ANSWER_ACK] = HANDOFF_WORD_ACK,
        [HANDOFF_ANSWER_NACK] = HANDOFF_WORD_NACK_RETRY,
        [HANDOFF_ANSWER_REFUSE] = HANDOFF_WORD_NACK_FINAL,
        [HANDOFF_ANSWER_EXTEND] = HANDOFF_WORD_EXTEND,
    };
    struct base_uuid uuid;
    struct handoff_error error;
    if (handoff_read_id(id, &uuid, &error) != HANDOFF_OK) {
        handoff_give_error(answered, context, &error);
        return;
    }
    struct answering *answering = base_calloc(1, sizeof *answering);
    const char *progress = word == HANDOFF_ANSWER_EXTEND ? reason : NULL;
    if (!answering || !copy_next(answering, next) ||
        (progress && !keep_progress(loop->client, answering, progress))) {
        if (answering)
            end_answering(answering);
        handoff_give_no_memory(answered, context);
        return;
    }
    if (next)
        answering->warnings = handoff_warn_in_answer(&answered, &context);
    if (next && !answering->warnings) {
        end_answering(answering);
        handoff_give_no_memory(answered, context);
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
    handoff_client_copy_reason(loop->client, answering->reply.said, sizeof answering->reply.said,
                               reason);
    snprintf(answering->caller, sizeof answering->caller, "%s", caller ? caller : "");
    answering->reply.agent = base_span_text(caller ? answering->caller : NULL);
    loop->pending++;
    handoff_engine_reply(loop->client->engine, &answering->reply);
}

void handoff_acknowledge(struct handoff_loop *loop, const char *id, enum handoff_answer_word word,
                         const char *reason, const char *caller, handoff_answered *answered,
                         void *context)
{
    answer_word(loop, id, word, reason, NULL, caller, answered, context);
}

void handoff_hand_on(struct handoff_loop *loop, const char *id, const struct handoff_ask *ask,
                     handoff_answered *answered, void *context)
{
    answer_word(loop, id, HANDOFF_ANSWER_ACK, NULL, ask, ask->caller, answered, context);
}
