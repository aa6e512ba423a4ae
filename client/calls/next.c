/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next request that an agent sent with its acknowledgement: assembled like any other, in the
 * name of that agent, and as a child of the handoff that it acknowledges
 * (client/deliver/hand_on.h).
 *
 * On the thread of the loop that has the acknowledged handoff; long requests on a worker.
 */
#include "client/calls/next.h"

#include "client/calls/submission.h"
#include "client/deliver/hand_on.h"
#include "client/secrets/redact.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum { NEXT_MAGIC = 0x6e657874 };

struct next {
    unsigned magic;
    struct handoff_loop *loop;
    struct handoff_hand_on *on;
    struct handoff_assembly *assembly;
    struct handoff_warnings warnings; /* for nobody */
    struct handoff_error problem;     /* why it is refused */

    /* the worker's, if there is one, then the loop's */
    struct base_work keeping;
    struct base_buffer kept; /* the refused request, without credentials */
};

/* ---- assembling -------------------------------------------------------------------------------
 */

static void end_next(struct next *next)
{
    next->loop->pending--;
    if (next->assembly)
        handoff_client_end_assembly(&next->assembly);
    handoff_warnings_free(&next->warnings);
    base_buffer_free(&next->kept);
    next->magic = 0;
    base_free(next);
}

/* ---- a refused one ----------------------------------------------------------------------------
 */

enum { KEPT_ON_LOOP = 64 * 1024, WORKER_TIMEOUT_MS = 30 * 1000 };

/* With markers in place of all credentials, also where a request could not have one: nothing reads
 * it but a person. What is no JSON is not kept, since credentials in it would not be found. */
static void write_kept(struct next *next)
{
    static const struct handoff_fields no_ids = {0};
    const enum handoff_secret_policy policy = handoff_client_secrets(next->loop->client);
    struct base_arena arena;
    struct handoff_secrets secrets = {.policy = policy == HANDOFF_SECRET_POLICY_ALLOW
                                                    ? HANDOFF_SECRET_POLICY_ALLOW
                                                    : HANDOFF_SECRET_POLICY_REDACT,
                                      .arena = &arena};
    struct handoff_error error;
    yyjson_doc *doc;
    base_arena_init(&arena, 0);
    enum handoff_code code = base_json_read_in(&arena, next->on->request, "next", &doc, &error);
    if (code == HANDOFF_OK)
        code = handoff_secrets_in_document(&secrets, &no_ids, HANDOFF_SECRET_PLACE_REQUEST, doc,
                                           &error);
    if (code == HANDOFF_OK)
        base_json_write(&next->kept, yyjson_doc_get_root(doc));
    if (next->kept.failed)
        base_buffer_free(&next->kept);
    base_arena_free(&arena);
}

static void write_kept_on_worker(struct base_work *work)
{
    write_kept(BASE_CONTAINER_OF(work, struct next, keeping));
}

static void was_kept(struct base_op *op)
{
    struct next *next = BASE_CONTAINER_OF(op, struct next, keeping.op);
    BASE_CHECK_MAGIC(next, NEXT_MAGIC);
    handoff_hand_on_assembled(next->on);
}

static void refuse_next(struct handoff_hand_on *on)
{
    struct next *next = on->host;
    BASE_CHECK_MAGIC(next, NEXT_MAGIC);
    on->kept = next->kept;
    next->kept = (struct base_buffer){0};
    handoff_hand_on_refuse(on, &next->problem);
    end_next(next);
}

/* Where the workers take no more, only the problem is kept. */
static void keep_for_review(struct next *next, const struct handoff_error *problem)
{
    next->problem = *problem;
    next->on->take = refuse_next;
    if (next->on->request.size > KEPT_ON_LOOP &&
        base_workers_submit(next->loop->client->workers, &next->keeping, next->loop->lane->loop,
                            WORKER_TIMEOUT_MS, write_kept_on_worker, was_kept))
        return;
    if (next->on->request.size <= KEPT_ON_LOOP)
        write_kept(next);
    handoff_hand_on_assembled(next->on);
}

/* ---- assembled --------------------------------------------------------------------------------
 */

static void commit_next(struct handoff_hand_on *on)
{
    struct next *next = on->host;
    BASE_CHECK_MAGIC(next, NEXT_MAGIC);
    struct handoff_assembly *assembly = next->assembly;
    struct handoff_submission submission;
    if (assembly->error.code != HANDOFF_OK) {
        keep_for_review(next, &assembly->error);
        return;
    }
    handoff_submission_of(assembly, &submission);
    if (handoff_hand_on_commit(on, &submission))
        end_next(next);
    else
        keep_for_review(next, &on->problem);
}

static void next_assembled(struct handoff_assembly *assembly)
{
    struct next *next = assembly->context;
    struct handoff_event event;
    BASE_CHECK_MAGIC(next, NEXT_MAGIC);
    handoff_client_tell_spine(next->loop->client, HANDOFF_OPERATION_RESOLVE,
                              &assembly->resolve.call, assembly->spine_ns);
    if (assembly->error.code == HANDOFF_OK)
        handoff_client_keep_tokens(next->loop, assembly);
    handoff_client_describe(assembly, &event);
    handoff_client_tell(next->loop->client, &event);
    handoff_hand_on_assembled(next->on);
}

static void refuse_for_memory(struct handoff_hand_on *on)
{
    struct handoff_error error;
    handoff_error_no_memory(&error);
    handoff_hand_on_refuse(on, &error);
}

static struct next *make_next(struct handoff_loop *loop, struct handoff_hand_on *on)
{
    struct next *next = base_calloc(1, sizeof *next);
    const struct handoff_ask ask = {.body = on->request.data,
                                    .size = on->request.size,
                                    .caller = on->agent.data,
                                    .scopes = on->reply ? on->reply->scopes : NULL};
    if (!next)
        return NULL;
    *next = (struct next){.magic = NEXT_MAGIC, .loop = loop, .on = on};
    next->assembly = handoff_client_begin_assembly(loop, &ask);
    if (next->assembly)
        return next;
    base_free(next);
    return NULL;
}

/* The delivery's lane is its loop's. */
void handoff_client_hand_on(void *host, struct handoff_hand_on *on)
{
    struct handoff_loop *loop = on->lane->host;
    struct next *next = make_next(loop, on);
    (void)host;
    if (!next) {
        on->take = refuse_for_memory;
        handoff_hand_on_assembled(on);
        return;
    }
    on->host = next;
    on->take = commit_next;
    loop->pending++;
    next->assembly->context = next;
    next->assembly->finished = next_assembled;
    next->assembly->warnings = &next->warnings;
    next->assembly->parks_at_limit = true;
    next->assembly->answers = on->id;
    next->assembly->begins_shared = !on->reply; /* an answer to a push shows no token */
    if (handoff_assembly_run(next->assembly))
        next_assembled(next->assembly);
}
