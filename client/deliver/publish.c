/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes an envelope, see publish.h. On the lane of the publisher. */
#include "client/deliver/publish.h"

#include <string.h>

#include "client/deliver/delivery.h"
#include "client/store/channels.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { PUBLICATION_MAGIC = 0x7075626c };

/* From the call to the commit. */
struct pending_publication {
    unsigned magic;
    struct handoff_lane *lane;
    struct handoff_store_publish write;
    struct handoff_store_job end; /* of its unit */
    struct handoff_shared_envelope *shared;
    struct base_arena arena; /* of the texts that the write needs */
    struct handoff_delivery **deliveries;
    size_t ndeliveries;
    void (*published)(void *context, const struct handoff_error *error);
    void *context;
};

static void free_pending_publication(struct pending_publication *pending)
{
    handoff_shared_envelope_release(&pending->shared);
    base_arena_free(&pending->arena);
    base_free(pending->deliveries);
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
    for (size_t i = 0; i < pending->ndeliveries; i++)
        handoff_delivery_free(pending->deliveries[i]);
}

static struct handoff_submission shared_submission(struct pending_publication *pending,
                                                   const struct handoff_publication *publication)
{
    struct handoff_submission submission = publication->submission;
    submission.shared = pending->shared;
    submission.idempotency_key = base_span(NULL, 0);
    submission.stored = false;
    submission.created_ms = publication->at_ms;
    return submission;
}

/* A child of the publication too, which adds nothing to its ledger. */
static struct handoff_submission projected_submission(const struct pending_publication *pending,
                                                      const struct handoff_submission *projection)
{
    struct handoff_submission submission = *projection;
    submission.publication = pending->shared->id;
    submission.contribution = pending->shared->contribution;
    submission.own_contribution = NULL;
    submission.parents = &pending->shared->id;
    submission.nparents = 1;
    return submission;
}

/* Makes all of them before any is entered, so that nothing has to be undone. */
static bool make_deliveries(struct pending_publication *pending,
                            const struct handoff_publication *publication)
{
    const size_t count = publication->nreceivers;
    const struct handoff_submission shared = shared_submission(pending, publication);
    struct handoff_submission submission;
    pending->deliveries = base_calloc(count + 1, sizeof(struct handoff_delivery *));
    for (size_t i = 0; pending->deliveries && i < count; i++) {
        const struct handoff_publication_receiver *receiver = &publication->receivers[i];
        if (receiver->projection)
            submission = projected_submission(pending, receiver->projection);
        else
            submission = shared;
        submission.id = receiver->id;
        submission.target = base_span(receiver->agent->name, receiver->agent->name_size);
        submission.parked_for = receiver->parked_for;
        struct handoff_delivery *delivery = handoff_delivery_make(pending->lane, &submission);
        if (!delivery)
            return false;
        pending->deliveries[pending->ndeliveries++] = delivery;
        if (!handoff_delivery_join_feed(delivery, publication->channel))
            return false;
    }
    return pending->deliveries != NULL;
}

static void submit_publication(struct pending_publication *pending,
                               const struct handoff_publication *publication)
{
    struct handoff_store *store = pending->lane->engine->options.store;
    struct handoff_store_unit unit = {0};
    struct handoff_store_job *job = &pending->write.put.job;
    job->mailbox = pending->lane->mailbox;
    job->done = publication_written;
    job->unit = &unit;
    pending->lane->awaited++;
    handoff_store_publish(store, &pending->write);
    for (size_t i = 0; i < pending->ndeliveries; i++)
        handoff_delivery_start_of_publication(pending->deliveries[i],
                                              publication->receivers[i].agent, &unit,
                                              publication->receivers[i].waiter);
    pending->end = (struct handoff_store_job){
        .mailbox = pending->lane->mailbox, .done = publication_over, .unit = &unit};
    handoff_store_end_unit(store, &pending->end);
    handoff_store_submit_unit(store, &unit, &pending->lane->writes);
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
    pending->published = publication->published;
    pending->context = publication->context;
    base_arena_init(&pending->arena, 0);
    pending->shared =
        handoff_shared_envelope_new(&publication->submission.id, publication->submission.envelope,
                                    publication->excerpt_lines, publication->passed_on);
    if (pending->shared && fill_write(pending, publication) &&
        make_deliveries(pending, publication))
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
    submit_publication(pending, publication);
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
    submission.shared = shared;
    submission.late = true;
    submission.stored = false;
    submission.idempotency_key = base_span(NULL, 0);
    submission.created_ms = late->at_ms;
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
