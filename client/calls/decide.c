/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's decisions: to replay or discard a parked handoff, or to close a circuit. On the
 * loop's thread.
 */
#include "client/deliver/decide.h"
#include "client/calls/clean_author.h"
#include "client/calls/read.h"
#include "client/calls/render.h"
#include "client/calls/reply.h"
#include "client/client.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { DECIDING_MAGIC = 0x64656369, RESETTING_MAGIC = 0x72657365 };

struct deciding {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct handoff_waiter waiter;
};

static struct deciding *deciding_of(struct handoff_waiter *waiter)
{
    struct deciding *deciding = BASE_CONTAINER_OF(waiter, struct deciding, waiter);
    BASE_CHECK_MAGIC(deciding, DECIDING_MAGIC);
    return deciding;
}

static void end_deciding(struct deciding *deciding)
{
    deciding->loop->pending--;
    deciding->magic = 0;
    base_free(deciding);
}

/* If the decision can be carried out, the answer comes once that is written. */
static void decided(struct handoff_waiter *waiter, const struct handoff_error *error)
{
    struct deciding *deciding = deciding_of(waiter);
    if (error->code == HANDOFF_OK)
        return;
    handoff_give_error(deciding->answered, deciding->context, error);
    end_deciding(deciding);
}

static void answer_decided(struct deciding *deciding, const struct handoff_status *status)
{
    struct base_buffer body = {0};
    struct handoff_result result = {0};
    handoff_object_write(&body, status);
    result.body = body.data;
    result.size = body.size;
    if (body.failed)
        handoff_error_no_memory(&result.error);
    deciding->answered(deciding->context, &result);
    base_buffer_free(&body);
}

/* The decision is written; or the write failed, and the handoff stays as it was unless a later
   write succeeds. */
static void carried_out(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct deciding *deciding = deciding_of(waiter);
    handoff_waiter_withdraw(waiter);
    if (status->error.code == HANDOFF_OK)
        answer_decided(deciding, status);
    else
        handoff_give_error(deciding->answered, deciding->context, &status->error);
    end_deciding(deciding);
}

static void decide(struct handoff_loop *loop, const char *id, enum handoff_decision decision,
                   const char *target, const struct handoff_author *author,
                   handoff_answered *answered, void *context)
{
    struct handoff_clean_author clean; /* the engine has a copy */
    struct base_uuid uuid;
    struct handoff_error error;
    struct deciding *deciding = base_calloc(1, sizeof *deciding);
    if (!deciding) {
        handoff_give_no_memory(answered, context);
        return;
    }
    *deciding = (struct deciding){
        .magic = DECIDING_MAGIC,
        .loop = loop,
        .answered = answered,
        .context = context,
        .waiter = {.decided = decided, .accepted = carried_out, .settled = carried_out}};
    loop->pending++;
    handoff_clean_author(loop->client, author, &clean);
    if (handoff_read_id(id, &uuid, &error) == HANDOFF_OK)
        handoff_engine_decide(loop->lane, &uuid, decision, base_span_text(target), &clean.author,
                              &deciding->waiter);
    else
        decided(&deciding->waiter, &error);
}

void handoff_replay(struct handoff_loop *loop, const char *id, const char *target,
                    const struct handoff_author *author, handoff_answered *answered, void *context)
{
    decide(loop, id, HANDOFF_DECISION_REPLAY, target, author, answered, context);
}

void handoff_discard(struct handoff_loop *loop, const char *id, const struct handoff_author *author,
                     handoff_answered *answered, void *context)
{
    decide(loop, id, HANDOFF_DECISION_DISCARD, NULL, author, answered, context);
}

/* ---- closing a circuit ----------------------------------------------------------------------- */

struct resetting {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
};

static void reset_saved(void *context, const struct handoff_error *error)
{
    struct resetting *resetting = context;
    BASE_CHECK_MAGIC(resetting, RESETTING_MAGIC);
    handoff_give_error(resetting->answered, resetting->context, error);
    resetting->loop->pending--;
    resetting->magic = 0;
    base_free(resetting);
}

void handoff_reset_agent(struct handoff_loop *loop, const char *name, handoff_answered *answered,
                         void *context)
{
    struct handoff_error error;
    struct resetting *resetting = base_calloc(1, sizeof *resetting);
    if (!resetting) {
        handoff_give_no_memory(answered, context);
        return;
    }
    *resetting = (struct resetting){RESETTING_MAGIC, loop, answered, context};
    loop->pending++;
    if (handoff_engine_reset(loop->client->engine, loop->lane, name, reset_saved, resetting,
                             &error) != HANDOFF_OK)
        reset_saved(resetting, &error);
}
