/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a parked handoff with an edit: a new envelope replaces the old one, in the same place of
 * the chain. One commit accepts the new handoff and discards the old one with the new one's id as
 * its reason, so at no instant there are both, or none.
 *
 * Meanwhile the old handoff is held, which keeps it from being replayed twice. If the new one is
 * rejected, the old one is let go, and is as it was.
 *
 * On the loop's thread; a reader thread of the store reads what the old request supplied, and
 * writes the new one.
 */
#include <stdlib.h>
#include <string.h>

#include "client/calls/clean_author.h"
#include "client/calls/edit.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/calls/send.h"
#include "client/client.h"
#include "client/deliver/author.h"
#include "client/deliver/decide.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { REPLACING_MAGIC = 0x7265706c };

struct replacing {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct base_uuid id;          /* of the old handoff */
    struct handoff_waiter waiter; /* of the old handoff */
    bool is_over;                 /* the old handoff is, or was from the start: it has expired */
    struct base_span body;        /* the edit; a copy */
    const char *target;           /* name of the old handoff's agent; lives as long as the
                                     table of agents, so it is not copied */
    char *sent;                   /* the new handoff as JSON, once it is durable */
    struct handoff_clean_author clean;
    struct handoff_stored_decision decision; /* `who` to `cause` are the loop's */
    char *cause;                             /* of it; a copy */

    /* the reader's, then the loop's */
    struct handoff_store_read read;
    struct base_span old; /* the envelope of the old handoff; a copy: it goes with its delivery when
                             the loop ends */
    char *request;        /* for the new handoff; yyjson's */
    size_t request_size;
    char fields[256];           /* that are edited */
    struct handoff_error error; /* why there is no request */
};

static void end_replacing(struct replacing *replacing)
{
    replacing->loop->pending--;
    base_free(replacing->sent);
    base_free(replacing->cause);
    base_free((void *)(uintptr_t)replacing->old.data);
    base_free((void *)(uintptr_t)replacing->body.data);
    replacing->magic = 0;
    base_free(replacing);
}

static void answer_and_end(struct replacing *replacing)
{
    const struct handoff_result result = {.error = {.code = HANDOFF_OK},
                                          .body = replacing->sent,
                                          .size = strlen(replacing->sent),
                                          .created = true,
                                          .under_way = true};
    replacing->answered(replacing->context, &result);
    end_replacing(replacing);
}

/* The old handoff is over; or the loop ends while it is held, and sending the new one reports how
   that ended. */
static void old_settled(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct replacing *replacing = BASE_CONTAINER_OF(waiter, struct replacing, waiter);
    BASE_CHECK_MAGIC(replacing, REPLACING_MAGIC);
    (void)status; /* a failed write is retried later; the new handoff is sent */
    replacing->is_over = true;
    if (replacing->sent)
        answer_and_end(replacing);
}

static char *copy_result_text(const struct handoff_result *result)
{
    BASE_CHECK(result->body); /* the new handoff was accepted */
    char *copy = base_malloc(result->size + 1);
    if (copy) {
        memcpy(copy, result->body, result->size);
        copy[result->size] = '\0';
    }
    return copy;
}

static void new_sent(void *context, const struct handoff_result *result)
{
    struct replacing *replacing = context;
    BASE_CHECK_MAGIC(replacing, REPLACING_MAGIC);
    if (result->error.code != HANDOFF_OK) {
        handoff_engine_let_go(&replacing->waiter);
        replacing->answered(replacing->context, result);
        end_replacing(replacing);
        return;
    }
    replacing->sent = replacing->is_over ? NULL : copy_result_text(result);
    if (replacing->sent)
        return;                                /* the answer comes once the old one is over */
    handoff_engine_let_go(&replacing->waiter); /* it has expired, or there is no memory */
    replacing->answered(replacing->context, result);
    end_replacing(replacing);
}

static void refuse_new(struct replacing *replacing, const struct handoff_error *error)
{
    const struct handoff_result refused = {.error = *error};
    new_sent(replacing, &refused);
}

/* On a reader thread, which owns what is written until new_written. */
static void write_new(struct handoff_store_read *read)
{
    struct replacing *replacing = BASE_CONTAINER_OF(read, struct replacing, read);
    struct base_span contribution;
    struct base_arena arena;
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_edit_contribution(
        replacing->loop->client->store, &replacing->id, &arena, &contribution, &replacing->error);
    if (code == HANDOFF_OK)
        code =
            handoff_edit_request(replacing->old, contribution, replacing->body, replacing->target,
                                 &replacing->request, &replacing->request_size, &replacing->error);
    if (code == HANDOFF_OK)
        handoff_edit_names(replacing->body, replacing->fields, sizeof replacing->fields);
    replacing->error.code = code;
    base_arena_free(&arena);
}

static void new_written(struct handoff_store_read *read)
{
    struct replacing *replacing = BASE_CONTAINER_OF(read, struct replacing, read);
    BASE_CHECK_MAGIC(replacing, REPLACING_MAGIC);
    char *request = replacing->request; /* sending may free `replacing` */
    const struct handoff_ask ask = {
        .body = request, .size = replacing->request_size, .respond_async = true};
    if (replacing->error.code != HANDOFF_OK) {
        refuse_new(replacing, &replacing->error);
        return;
    }
    replacing->decision.fields = base_span_text(replacing->fields);
    handoff_send_instead(replacing->loop, &ask, &replacing->id, &replacing->waiter,
                         &replacing->decision, new_sent, replacing);
    free(request); /* yyjson's */
}

/* What is known of the decision before the new handoff. false: out of memory. */
static bool begin_decision(struct replacing *replacing, const struct handoff_status *held)
{
    struct handoff_stored_decision *decision = &replacing->decision;
    const char *reason = handoff_status_reason(held);
    replacing->cause = base_malloc(strlen(reason) + 1);
    if (!replacing->cause)
        return false;
    memcpy(replacing->cause, reason, strlen(reason) + 1);
    handoff_decision_say(decision, &replacing->clean.author);
    decision->handoff = replacing->id;
    decision->action =
        held->state == HANDOFF_STATE_EXPIRED ? HANDOFF_ACTION_REVIVE : HANDOFF_ACTION_EDIT;
    decision->target = base_span_text(held->target);
    decision->cause = base_span_text(replacing->cause);
    return true;
}

/* The old handoff is held. */
static void begin_new(struct replacing *replacing)
{
    struct handoff_status held;
    handoff_engine_held(&replacing->waiter, &held);
    char *copy = base_malloc(held.envelope.size + 1);
    if (!copy || !begin_decision(replacing, &held)) {
        struct handoff_error error;
        base_free(copy);
        handoff_error_no_memory(&error);
        refuse_new(replacing, &error);
        return;
    }
    memcpy(copy, held.envelope.data, held.envelope.size);
    replacing->old = base_span(copy, held.envelope.size);
    replacing->target = held.target;
    replacing->is_over = held.state == HANDOFF_STATE_EXPIRED;
    replacing->read.mailbox = replacing->loop->lane->mailbox;
    replacing->read.run = write_new;
    replacing->read.done = new_written;
    handoff_store_submit_read(replacing->loop->client->store, &replacing->read);
}

static void old_decided(struct handoff_waiter *waiter, const struct handoff_error *error)
{
    struct replacing *replacing = BASE_CONTAINER_OF(waiter, struct replacing, waiter);
    BASE_CHECK_MAGIC(replacing, REPLACING_MAGIC);
    if (error->code == HANDOFF_OK) {
        begin_new(replacing);
        return;
    }
    handoff_give_error(replacing->answered, replacing->context, error);
    end_replacing(replacing);
}

/* NULL: out of memory. */
static struct replacing *make_replacing(struct handoff_loop *loop, const char *body, size_t size,
                                        handoff_answered *answered, void *context)
{
    struct replacing *replacing = base_calloc(1, sizeof *replacing);
    char *copy = replacing ? base_malloc(size + 1) : NULL;
    if (!copy) {
        base_free(replacing);
        return NULL;
    }
    memcpy(copy, body, size);
    *replacing = (struct replacing){.magic = REPLACING_MAGIC,
                                    .loop = loop,
                                    .answered = answered,
                                    .context = context,
                                    .body = base_span(copy, size),
                                    .waiter = {.decided = old_decided, .settled = old_settled}};
    return replacing;
}

void handoff_replay_edited(struct handoff_loop *loop, const char *id, const char *body, size_t size,
                           const struct handoff_author *author, handoff_answered *answered,
                           void *context)
{
    struct handoff_error error;
    struct replacing *replacing = make_replacing(loop, body, size, answered, context);
    if (!replacing) {
        handoff_give_no_memory(answered, context);
        return;
    }
    handoff_clean_author(loop->client, author, &replacing->clean);
    loop->pending++;
    if (handoff_read_id(id, &replacing->id, &error) == HANDOFF_OK)
        handoff_engine_hold(loop->lane, &replacing->id, &replacing->waiter);
    else
        old_decided(&replacing->waiter, &error);
}
