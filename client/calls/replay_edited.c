/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a parked handoff with an edit: a new envelope that points to the old one is sent, and the
 * old handoff is discarded with the new one's id as its reason.
 *
 * Meanwhile the old handoff is held, which keeps it from being replayed twice. It is discarded only
 * when the new one is durable. A crash between the two leaves both, one in flight and one parked
 * for an operator to see; it never leaves none.
 *
 * On the loop's thread; the request of a long one is written on a worker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "client/calls/edit.h"
#include "client/calls/read.h"
#include "client/calls/reply.h"
#include "client/client.h"
#include "client/deliver/decide.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { REPLACING_MAGIC = 0x7265706c, WRITTEN_ON_LOOP = 64 * 1024 };

struct replacing {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    struct handoff_waiter waiter; /* of the old handoff */
    struct base_span body;        /* the edit; a copy */
    struct base_work work;        /* writes a long request */
    struct base_span old;         /* the envelope of the old handoff */
    char *kept;                   /* a copy of that envelope, for the worker */
    const char *target;           /* name of the old handoff's agent; lives as long as the
                                     table of agents, so it is not copied */
    char *request;                /* for the new handoff; yyjson's */
    size_t request_size;
    struct handoff_error error; /* why there is no request */
    char *sent;                 /* the new handoff as JSON, once it is durable */
};

static void end_replacing(struct replacing *replacing)
{
    replacing->loop->pending--;
    base_free(replacing->sent);
    base_free(replacing->kept);
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

/* The old handoff is discarded; or the loop ends while it is held, and sending the new one reports
   how that ended. */
static void old_settled(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct replacing *replacing = BASE_CONTAINER_OF(waiter, struct replacing, waiter);
    BASE_CHECK_MAGIC(replacing, REPLACING_MAGIC);
    (void)status; /* a failed write is retried later; the new handoff is sent */
    if (replacing->sent)
        answer_and_end(replacing);
}

static void name_new(const struct handoff_result *result, char *reason, size_t size)
{
    yyjson_doc *doc = yyjson_read(result->body, result->size, 0);
    const char *id = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "id"));
    snprintf(reason, size, "replaced by %s", id ? id : "another");
    yyjson_doc_free(doc);
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
    char reason[64];
    BASE_CHECK_MAGIC(replacing, REPLACING_MAGIC);
    if (result->error.code != HANDOFF_OK) {
        handoff_engine_let_go(&replacing->waiter);
        replacing->answered(replacing->context, result);
        end_replacing(replacing);
        return;
    }
    name_new(result, reason, sizeof reason);
    replacing->sent = copy_result_text(result);
    if (handoff_engine_replace(&replacing->waiter, reason) && replacing->sent)
        return; /* the answer comes once that is written */
    handoff_waiter_withdraw(&replacing->waiter);
    replacing->answered(replacing->context, result);
    end_replacing(replacing);
}

static void refuse_new(struct replacing *replacing, const struct handoff_error *error)
{
    const struct handoff_result refused = {.error = *error};
    new_sent(replacing, &refused);
}

/* The new request, from the old envelope and the edit. Any thread. */
static void write_new(struct replacing *replacing)
{
    replacing->error.code =
        handoff_edit_request(replacing->old, replacing->body, replacing->target,
                             &replacing->request, &replacing->request_size, &replacing->error);
}

static void send_new(struct replacing *replacing)
{
    char *request = replacing->request; /* sending may free `replacing` */
    const struct handoff_ask ask = {
        .body = request, .size = replacing->request_size, .respond_async = true};
    if (replacing->error.code != HANDOFF_OK) {
        refuse_new(replacing, &replacing->error);
        return;
    }
    handoff_send(replacing->loop, &ask, new_sent, replacing);
    free(request); /* yyjson's */
}

static void write_new_on_worker(struct base_work *work)
{
    write_new(BASE_CONTAINER_OF(work, struct replacing, work));
}

static void worker_wrote_new(struct base_op *op)
{
    struct replacing *replacing = BASE_CONTAINER_OF(op, struct replacing, work.op);
    BASE_CHECK_MAGIC(replacing, REPLACING_MAGIC);
    send_new(replacing);
}

/* The old envelope is copied: it goes with its delivery when the loop ends. */
static void write_new_later(struct replacing *replacing)
{
    struct handoff_loop *loop = replacing->loop;
    struct handoff_error error;
    replacing->kept = base_malloc(replacing->old.size + 1);
    if (!replacing->kept) {
        handoff_error_no_memory(&error);
        refuse_new(replacing, &error);
        return;
    }
    memcpy(replacing->kept, replacing->old.data, replacing->old.size);
    replacing->old.data = replacing->kept;
    if (base_workers_submit(loop->client->workers, &replacing->work, loop->lane->loop, 0,
                            write_new_on_worker, worker_wrote_new))
        return;
    handoff_refuse_long_request(&error);
    refuse_new(replacing, &error);
}

/* The old handoff is held. */
static void begin_new(struct replacing *replacing)
{
    struct handoff_status held;
    handoff_engine_held(&replacing->waiter, &held);
    replacing->old = held.envelope;
    replacing->target = held.target;
    if (held.envelope.size + replacing->body.size > WRITTEN_ON_LOOP) {
        write_new_later(replacing);
        return;
    }
    write_new(replacing);
    send_new(replacing);
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
                           handoff_answered *answered, void *context)
{
    struct base_uuid uuid;
    struct handoff_error error;
    struct replacing *replacing = make_replacing(loop, body, size, answered, context);
    if (!replacing) {
        handoff_give_no_memory(answered, context);
        return;
    }
    loop->pending++;
    if (handoff_read_id(id, &uuid, &error) == HANDOFF_OK)
        handoff_engine_hold(loop->lane, &uuid, &replacing->waiter);
    else
        old_decided(&replacing->waiter, &error);
}
