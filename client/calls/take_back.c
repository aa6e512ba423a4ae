/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes back a handoff that was sent: cancels or parks it. The handoff may be on any lane, or at
 * rest in the store; the engine finds it (client/deliver/deferred_ack.c), and the answer comes when
 * the change is written. On the loop's thread.
 */
#include <stdio.h>
#include <string.h>

#include "client/assemble/request.h"
#include "client/calls/clean_author.h"
#include "client/calls/lookup.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/client.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/memory.h"

enum { TAKING_BACK_MAGIC = 0x7461636b };

struct taking_back {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct handoff_reply reply;
    char caller[HANDOFF_NAME_MAX + 1];
    struct handoff_clean_author clean;
};

static void end_taking_back(struct taking_back *taking)
{
    taking->magic = 0;
    base_free(taking);
}

/* The problem says what replaced it. */
static void replaced_was_read(void *context, const struct handoff_result *status)
{
    struct taking_back *taking = context;
    struct handoff_result result = *status;
    BASE_CHECK_MAGIC(taking, TAKING_BACK_MAGIC);
    result.error = taking->reply.error;
    taking->answered(taking->context, &result);
    end_taking_back(taking);
}

static void was_taken_back(struct handoff_reply *reply)
{
    struct taking_back *taking = BASE_CONTAINER_OF(reply, struct taking_back, reply);
    BASE_CHECK_MAGIC(taking, TAKING_BACK_MAGIC);
    taking->loop->pending--;
    if (handoff_reply_is_about_replaced(reply)) {
        handoff_look_up(taking->loop, &reply->id, &reply->view, replaced_was_read, taking);
        return;
    }
    if (reply->error.code == HANDOFF_OK)
        handoff_look_up(taking->loop, &reply->id, &reply->view, taking->answered, taking->context);
    else
        handoff_give_error(taking->answered, taking->context, &reply->error);
    end_taking_back(taking);
}

static void take_back(struct handoff_loop *loop, const char *id, enum handoff_word word,
                      const struct handoff_author *author, const char *caller,
                      handoff_answered *answered, void *context)
{
    struct handoff_error error;
    struct taking_back *taking = base_calloc(1, sizeof *taking);
    if (!taking) {
        handoff_give_no_memory(answered, context);
        return;
    }
    if (handoff_read_id(id, &taking->reply.id, &error) != HANDOFF_OK) {
        base_free(taking);
        handoff_give_error(answered, context, &error);
        return;
    }
    taking->magic = TAKING_BACK_MAGIC;
    taking->loop = loop;
    taking->answered = answered;
    taking->context = context;
    handoff_clean_author(loop->client, author, &taking->clean);
    snprintf(taking->caller, sizeof taking->caller, "%s", caller ? caller : "");
    taking->reply.lane = loop->lane;
    taking->reply.told = was_taken_back;
    taking->reply.word = word;
    taking->reply.words = taking->clean.reason;
    taking->reply.author = taking->clean.author;
    taking->reply.agent = base_span_text(caller ? taking->caller : NULL);
    loop->pending++;
    handoff_engine_reply(loop->client->engine, &taking->reply);
}

void handoff_cancel(struct handoff_loop *loop, const char *id, const struct handoff_author *author,
                    const char *caller, handoff_answered *answered, void *context)
{
    take_back(loop, id, HANDOFF_WORD_CANCEL, author, caller, answered, context);
}

void handoff_park(struct handoff_loop *loop, const char *id, const struct handoff_author *author,
                  const char *caller, handoff_answered *answered, void *context)
{
    BASE_CHECK(author && author->reason && *author->reason);
    take_back(loop, id, HANDOFF_WORD_PARK, author, caller, answered, context);
}
