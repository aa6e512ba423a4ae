/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes an envelope, see publish.h. The deliveries are made some at a time, since a thousand of
 * them would hold the loop for milliseconds; then they begin, all at once, so that those of several
 * publications begin in the order of their commits. On the lane of the publisher.
 */
#include "client/deliver/publish.h"

#include <string.h>

#include "client/deliver/delivery.h"
#include "client/store/channels.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

/* Making one takes 2 us. */
enum { PUBLICATION_MAGIC = 0x7075626c, MADE_IN_TURN = 128 };

/* From the call to the commit. */
struct pending_publication {
    unsigned magic;
    struct handoff_lane *lane;
    struct base_mail more; /* to its own lane: the next deliveries are to be made */
    struct handoff_submission submission;
    struct handoff_publication_receiver *receivers;
    size_t nreceivers;
    struct handoff_store_unit unit;
    struct handoff_store_publish write;
    struct handoff_store_job end; /* of its unit */
    struct handoff_shared_envelope *shared;
    struct base_arena arena;              /* of the texts and receivers */
    struct handoff_delivery **deliveries; /* of the receivers; NULL: not made yet */
    size_t nmade;                         /* receivers whose deliveries are made */
    void (*published)(void *context, const struct handoff_error *error);
    void *context;
    int64_t *seq; /* the publisher's; or NULL */
};

static void free_pending_publication(struct pending_publication *pending)
{
    handoff_shared_envelope_release(&pending->shared);
    base_arena_free(&pending->arena);
    pending->magic = 0;
    base_free(pending);
}

/* Its deliveries are told by themselves. */
static void publication_written(struct handoff_store_job *job)
{
    (void)job;
}

/* The publisher is told when its deliveries were offered, so that the next publication, which may
   be made on another lane, is offered behind this one. */
static void publication_over(struct handoff_store_job *job)
{
    struct pending_publication *pending = BASE_CONTAINER_OF(job, struct pending_publication, end);
    BASE_CHECK_MAGIC(pending, PUBLICATION_MAGIC);
    pending->lane->awaited--;
    if (pending->seq && job->error.code == HANDOFF_OK)
        *pending->seq = pending->write.seq;
    pending->published(pending->context, &job->error);
    free_pending_publication(pending);
}

/* ---- what is written -------------------------------------------------------------------------
 */

static bool keep_published_text(struct pending_publication *pending, struct base_span from,
                                struct base_span *to)
{
    *to = from;
    if (from.data)
        to->data = base_arena_copy(&pending->arena, from.data, from.size);
    return !from.data || to->data;
}

static bool keep_parents(struct pending_publication *pending,
                         const struct handoff_submission *submission)
{
    struct handoff_store_put_envelope *put = &pending->write.put;
    const size_t size = submission->nparents * sizeof *submission->parents;
    put->nparents = submission->nparents;
    if (size > 0)
        put->parents =
            (const void *)base_arena_copy(&pending->arena, (const char *)submission->parents, size);
    return size == 0 || put->parents;
}

static bool fill_write(struct pending_publication *pending,
                       const struct handoff_publication *publication)
{
    const struct handoff_submission *submission = &publication->submission;
    struct handoff_store_publish *write = &pending->write;
    *write = (struct handoff_store_publish){.put = {.id = submission->id,
                                                    .body = pending->shared->envelope,
                                                    .cut_at = submission->cut_at,
                                                    .cut_size = submission->cut_size,
                                                    .created_ms = submission->created_ms,
                                                    .hop = submission->hop},
                                            .at_ms = publication->at_ms,
                                            .deliveries = publication->nreceivers,
                                            .named = publication->named,
                                            .kept = publication->kept,
                                            .stored = submission->stored};
    memcpy(write->put.digest, submission->digest, sizeof write->put.digest);
    memcpy(write->request_digest, submission->request_digest, sizeof write->request_digest);
    return keep_published_text(pending, submission->task_id, &write->put.task_id) &&
           keep_published_text(pending, submission->contribution, &write->put.contribution) &&
           keep_published_text(pending, submission->source, &write->put.source) &&
           keep_published_text(pending, submission->target, &write->put.target) &&
           keep_published_text(pending, submission->source, &write->source) &&
           keep_published_text(pending, publication->channel, &write->channel) &&
           keep_published_text(pending, submission->idempotency_key, &write->idempotency_key) &&
           keep_parents(pending, submission);
}

/* ---- the deliveries --------------------------------------------------------------------------
 */

static void free_deliveries(struct pending_publication *pending)
{
    for (size_t i = 0; i < pending->nreceivers; i++) {
        if (pending->deliveries[i])
            handoff_delivery_free(pending->deliveries[i]);
    }
}

/* A child of the publication too, which adds nothing to its ledger. */
static struct handoff_submission projected_submission(const struct handoff_shared_envelope *shared,
                                                      const struct handoff_submission *projection)
{
    struct handoff_submission submission = *projection;
    submission.publication = shared->id;
    submission.contribution = shared->contribution;
    submission.own_contribution = NULL;
    submission.parents = &shared->id;
    submission.nparents = 1;
    return submission;
}

/* What each delivery is made of, but for its receiver; it shares the rest. */
static bool keep_submission(struct pending_publication *pending,
                            const struct handoff_publication *publication)
{
    const struct handoff_submission *from = &publication->submission;
    struct handoff_submission *submission = &pending->submission;
    *submission = (struct handoff_submission){.shared = pending->shared,
                                              .cut_at = from->cut_at,
                                              .cut_size = from->cut_size,
                                              .hop = from->hop,
                                              .source = pending->write.source,
                                              .task_id = pending->write.put.task_id,
                                              .pattern = from->pattern,
                                              .created_ms = publication->at_ms,
                                              .deadline_ms = from->deadline_ms,
                                              .tokens = from->tokens};
    memcpy(submission->digest, from->digest, sizeof submission->digest);
    return keep_published_text(pending, from->summary, &submission->summary) &&
           keep_published_text(pending, from->traceparent, &submission->traceparent) &&
           keep_published_text(pending, from->tracestate, &submission->tracestate);
}

static bool keep_receivers(struct pending_publication *pending,
                           const struct handoff_publication *publication)
{
    const size_t count = publication->nreceivers, size = sizeof *pending->receivers;
    pending->receivers = base_arena_calloc(&pending->arena, count + 1, size);
    pending->deliveries = base_arena_calloc(&pending->arena, count + 1, sizeof(void *));
    if (!pending->receivers || !pending->deliveries)
        return false;
    if (count > 0)
        memcpy(pending->receivers, publication->receivers, count * size);
    pending->nreceivers = count;
    return true;
}

static bool make_delivery(struct pending_publication *pending, size_t at,
                          struct handoff_submission *submission)
{
    const struct handoff_publication_receiver *receiver = &pending->receivers[at];
    submission->id = receiver->id;
    submission->target = base_span(receiver->agent->name, receiver->agent->name_size);
    submission->parked_for = receiver->parked_for;
    pending->deliveries[at] = handoff_delivery_make(pending->lane, submission);
    return pending->deliveries[at] &&
           handoff_delivery_join_feed(pending->deliveries[at], pending->write.channel);
}

/* In the call, as long as their envelopes are lent. */
static bool make_projected(struct pending_publication *pending)
{
    bool memory = true;
    for (size_t i = 0; i < pending->nreceivers && memory; i++) {
        const struct handoff_submission *projection = pending->receivers[i].projection;
        if (!projection)
            continue;
        struct handoff_submission submission = projected_submission(pending->shared, projection);
        memory = make_delivery(pending, i, &submission);
    }
    return memory;
}

/* All of them are made before any begins, so that nothing has to be undone. false: no memory. */
static bool make_some(struct pending_publication *pending)
{
    bool memory = true;
    for (size_t made = 0; made < MADE_IN_TURN && pending->nmade < pending->nreceivers && memory;
         made++) {
        const size_t at = pending->nmade++;
        if (!pending->deliveries[at])
            memory = make_delivery(pending, at, &pending->submission);
    }
    return memory;
}

static void submit_publication(struct pending_publication *pending)
{
    struct handoff_store *store = pending->lane->engine->options.store;
    struct handoff_store_unit *unit = &pending->unit;
    struct handoff_store_job *job = &pending->write.put.job;
    job->mailbox = pending->lane->mailbox;
    job->done = publication_written;
    job->unit = unit;
    handoff_store_publish(store, &pending->write);
    for (size_t i = 0; i < pending->nreceivers; i++)
        handoff_delivery_start_of_publication(pending->deliveries[i], pending->receivers[i].agent,
                                              unit, pending->receivers[i].waiter);
    pending->end = (struct handoff_store_job){
        .mailbox = pending->lane->mailbox, .done = publication_over, .unit = unit};
    handoff_store_end_unit(store, &pending->end);
    handoff_store_submit_unit(store, unit, &pending->lane->writes);
}

static void fail_publication(struct pending_publication *pending)
{
    struct handoff_error error;
    handoff_error_no_memory(&error);
    free_deliveries(pending);
    pending->lane->awaited--;
    pending->published(pending->context, &error);
    free_pending_publication(pending);
}

static void make_more(struct base_mail *mail)
{
    struct pending_publication *pending = BASE_CONTAINER_OF(mail, struct pending_publication, more);
    BASE_CHECK_MAGIC(pending, PUBLICATION_MAGIC);
    if (!make_some(pending))
        fail_publication(pending);
    else if (pending->nmade < pending->nreceivers)
        base_mailbox_post(pending->lane->mailbox, &pending->more);
    else
        submit_publication(pending);
}

/* ---- the call ---------------------------------------------------------------------------------
 */

static struct pending_publication *make_pending(struct handoff_lane *lane,
                                                const struct handoff_publication *publication)
{
    struct pending_publication *pending = base_calloc(1, sizeof *pending);
    if (!pending)
        return NULL;
    pending->magic = PUBLICATION_MAGIC;
    pending->lane = lane;
    pending->more.deliver = make_more;
    pending->published = publication->published;
    pending->context = publication->context;
    pending->seq = publication->seq;
    base_arena_init(&pending->arena, 0);
    pending->shared =
        handoff_shared_envelope_new(&publication->submission.id, publication->submission.envelope,
                                    publication->excerpt_lines, publication->passed_on);
    if (pending->shared && fill_write(pending, publication) &&
        keep_submission(pending, publication) && keep_receivers(pending, publication) &&
        make_projected(pending) && make_some(pending))
        return pending;
    free_deliveries(pending);
    free_pending_publication(pending);
    return NULL;
}

enum handoff_code handoff_engine_publish(struct handoff_lane *lane,
                                         const struct handoff_publication *publication,
                                         struct handoff_error *error)
{
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    if (lane->closing || atomic_load(&lane->engine->draining))
        return handoff_delivery_refuse_shutting_down(error);
    struct pending_publication *pending = make_pending(lane, publication);
    if (!pending)
        return handoff_error_no_memory(error);
    lane->awaited++;
    if (pending->nmade < pending->nreceivers)
        base_mailbox_post(lane->mailbox, &pending->more);
    else
        submit_publication(pending);
    return HANDOFF_OK;
}

/* ---- deliveries that come later --------------------------------------------------------------
 */

/* NULL: out of memory. */
static struct handoff_delivery *make_late(struct handoff_lane *lane,
                                          const struct handoff_late_delivery *late)
{
    struct handoff_submission submission = *late->submission;
    struct handoff_shared_envelope *shared = handoff_shared_envelope_new(
        &submission.id, submission.envelope, late->excerpt_lines, late->passed_on);
    if (!shared)
        return NULL;
    if (late->receiver.projection) {
        submission = projected_submission(shared, late->receiver.projection);
    } else {
        submission.shared = shared;
        submission.stored = false;
        submission.idempotency_key = base_span(NULL, 0);
        submission.created_ms = late->at_ms;
    }
    submission.late = true;
    submission.id = late->receiver.id;
    submission.target = base_span(late->receiver.agent->name, late->receiver.agent->name_size);
    submission.parked_for = late->receiver.parked_for;
    struct handoff_delivery *delivery = handoff_delivery_make(lane, &submission);
    handoff_shared_envelope_release(&shared);
    if (!delivery || handoff_delivery_join_feed(delivery, late->channel))
        return delivery;
    handoff_delivery_free(delivery);
    return NULL;
}

enum handoff_code handoff_engine_deliver_late(struct handoff_lane *lane,
                                              const struct handoff_late_delivery *list,
                                              size_t count, struct handoff_store_unit *unit,
                                              struct handoff_error *error)
{
    if (lane->closing || atomic_load(&lane->engine->draining))
        return handoff_delivery_refuse_shutting_down(error);
    struct handoff_delivery **made = base_calloc(count + 1, sizeof(struct handoff_delivery *));
    size_t nmade = 0;
    while (made && nmade < count && (made[nmade] = make_late(lane, &list[nmade])))
        nmade++;
    const bool all = made && nmade == count;
    for (size_t i = 0; i < nmade && all; i++)
        handoff_delivery_start_of_publication(made[i], list[i].receiver.agent, unit, NULL);
    for (size_t i = 0; i < nmade && !all; i++)
        handoff_delivery_free(made[i]);
    base_free(made);
    return all ? HANDOFF_OK : handoff_error_no_memory(error);
}
