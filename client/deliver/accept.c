/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts a new handoff: finds its agent, checks the limits and has it stored, to be delivered, or
 * parked by hand or for the hop limit. A handoff that is rejected leaves nothing in the store. Runs
 * on the lane of the sender.
 */
#include <string.h>

#include "client/deliver/author.h"
#include "client/deliver/delivery.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/utf8.h"

/* ---- durable -------------------------------------------------------------------------------- */

enum { CHAIN_HEADERS_ROOM = 3 * 64 };

/* Bytes of a summary that a list shows: a line or two. */
enum { SUMMARY_SHOWN = 200 };
static size_t envelope_size(const struct handoff_submission *submission)
{
    if (submission->shared)
        return 0;
    return submission->envelope.size + handoff_excerpt_size(&submission->excerpt) +
           submission->excerpt_lines.size;
}

static size_t summary_room(struct base_span summary)
{
    return summary.size < SUMMARY_SHOWN ? summary.size + 1 : SUMMARY_SHOWN;
}

static size_t texts_size(const struct handoff_submission *submission)
{
    return envelope_size(submission) + submission->source.size + submission->target.size +
           submission->task_id.size + submission->idempotency_key.size +
           submission->traceparent.size + submission->tracestate.size +
           summary_room(submission->summary) + submission->park_reason.size + CHAIN_HEADERS_ROOM +
           3 * submission->task_id.size;
}

/* Absent if the envelope was not assembled in this process, as in tests. */
static bool copy_submitted_excerpt(struct handoff_delivery *delivery,
                                   const struct handoff_submission *submission)
{
    if (submission->shared) {
        delivery->excerpt = submission->shared->excerpt;
        return true;
    }
    if (submission->excerpt_lines.data)
        return handoff_delivery_keep(delivery, submission->excerpt_lines, &delivery->excerpt);
    if (submission->excerpt.memory_refs.size == 0)
        return true;
    delivery->excerpt = handoff_excerpt_copy(&submission->excerpt, submission->envelope,
                                             submission->tokens, &delivery->arena);
    return delivery->excerpt.data != NULL;
}

/* NULL: it is to be copied. */
static char *take_over(char **own)
{
    char *taken = own ? *own : NULL;
    if (taken)
        *own = NULL;
    return taken;
}

static bool take_envelope(struct handoff_delivery *delivery,
                          const struct handoff_submission *submission)
{
    if (submission->shared) {
        delivery->shared = handoff_shared_envelope_ref(submission->shared);
        delivery->envelope = delivery->shared->envelope;
        delivery->publication = delivery->shared->id;
        return true;
    }
    delivery->publication = submission->publication;
    delivery->own_envelope = take_over(submission->own_envelope);
    if (!delivery->own_envelope)
        return handoff_delivery_keep(delivery, submission->envelope, &delivery->envelope);
    delivery->envelope = base_span(delivery->own_envelope, submission->envelope.size);
    return true;
}

static bool take_contribution(struct handoff_delivery *delivery,
                              const struct handoff_submission *submission, char *text)
{
    struct handoff_store_put_envelope *put = &delivery->accepting->accept.put;
    const size_t parents_size = submission->nparents * sizeof *submission->parents;
    delivery->own_contribution = text;
    put->contribution = base_span(text, submission->contribution.size);
    put->nparents = submission->nparents;
    put->parents =
        (const void *)base_arena_copy(&delivery->arena, submission->parents, parents_size);
    return put->parents != NULL;
}

/* The publication is its only parent, and has its body. */
static void take_shared(struct handoff_delivery *delivery)
{
    struct handoff_store_accept *accept = &delivery->accepting->accept;
    accept->put.shares = delivery->publication;
    accept->put.contribution = delivery->shared->contribution;
    accept->put.parents = &delivery->shared->id;
    accept->put.nparents = 1;
}

/* What the ledger keeps of it, in memory of its own: it is needed for one commit only, and a
 * delivery may wait for days. */
static bool copy_contribution(struct handoff_delivery *delivery,
                              const struct handoff_submission *submission)
{
    struct handoff_store_put_envelope *put = &delivery->accepting->accept.put;
    const size_t parents_size = submission->nparents * sizeof *submission->parents;
    put->hop = submission->hop;
    put->replaces = submission->replaces;
    delivery->accepting->accept.publication = delivery->publication;
    delivery->accepting->accept.late = delivery->late = submission->late;
    if (submission->shared) {
        take_shared(delivery);
        return true;
    }
    if (!submission->contribution.data)
        return true;
    char *own = take_over(submission->own_contribution);
    if (own)
        return take_contribution(delivery, submission, own);
    delivery->contribution = base_malloc(parents_size + submission->contribution.size);
    if (!delivery->contribution)
        return false;
    char *text = (char *)(delivery->contribution + submission->nparents);
    if (parents_size)
        memcpy(delivery->contribution, submission->parents, parents_size);
    memcpy(text, submission->contribution.data, submission->contribution.size);
    put->parents = delivery->contribution;
    put->nparents = submission->nparents;
    put->contribution = base_span(text, submission->contribution.size);
    return true;
}

static void free_contribution(struct handoff_delivery *delivery)
{
    base_free(delivery->contribution);
    base_free(delivery->own_contribution);
    delivery->contribution = NULL;
    delivery->own_contribution = NULL;
}

static bool is_parked_at_once(const struct handoff_submission *submission)
{
    return submission->parked_for != HANDOFF_REASON_NONE;
}

static bool copy_park_reason(struct handoff_delivery *delivery,
                             const struct handoff_submission *submission)
{
    struct base_span words;
    if (!is_parked_at_once(submission))
        return true;
    delivery->reason = submission->parked_for;
    delivery->settled_ms = handoff_delivery_wall_ms(delivery);
    delivery->by_hand = delivery->reason == HANDOFF_REASON_OTHER;
    if (!delivery->by_hand)
        return true;
    if (!handoff_delivery_keep(delivery, submission->park_reason, &words))
        return false;
    delivery->words = words.data; /* copies end in a NUL */
    return true;
}

static bool copy_summary(struct handoff_delivery *delivery, struct base_span summary)
{
    if (!summary.data)
        return true;
    const size_t room = summary_room(summary);
    char *text = base_arena_alloc(&delivery->arena, room);
    if (!text)
        return false;
    base_utf8_cut(text, room, summary.data, summary.size);
    delivery->accepting->accept.summary = base_span_text(text);
    return true;
}

/* What another handoff is replaced by, and for which agent, is known only now. */
static bool copy_replacing_decision(struct handoff_delivery *delivery,
                                    const struct handoff_submission *submission)
{
    const struct handoff_stored_decision *from = submission->decision;
    if (!from)
        return true;
    struct handoff_stored_decision *row = base_arena_alloc(&delivery->arena, sizeof *row);
    if (!row)
        return false;
    *row = *from;
    row->at_ms = handoff_delivery_wall_ms(delivery);
    row->replacement = submission->id;
    row->task_id = delivery->task_id;
    row->source = delivery->source;
    if (!base_span_equal(delivery->asked_target, from->target))
        row->to = delivery->asked_target;
    delivery->accepting->accept.decision = row;
    return handoff_delivery_keep(delivery, from->who, &row->who) &&
           handoff_delivery_keep(delivery, from->by, &row->by) &&
           handoff_delivery_keep(delivery, from->reason, &row->reason) &&
           handoff_delivery_keep(delivery, from->target, &row->target) &&
           handoff_delivery_keep(delivery, from->cause, &row->cause) &&
           handoff_delivery_keep(delivery, from->fields, &row->fields);
}

static bool copy_submission(struct handoff_delivery *delivery,
                            const struct handoff_submission *submission)
{
    struct handoff_store_accept *accept = &delivery->accepting->accept;
    delivery->pattern = submission->pattern;
    delivery->created_ms = submission->created_ms;
    handoff_delivery_set_deadline(delivery, submission->deadline_ms);
    delivery->tokens = submission->tokens;
    accept->put.id = submission->id;
    accept->put.cut_at = submission->cut_at;
    accept->put.cut_size = submission->cut_size;
    accept->put.created_ms = submission->created_ms;
    memcpy(accept->put.digest, submission->digest, sizeof accept->put.digest);
    memcpy(accept->request_digest, submission->request_digest, sizeof accept->request_digest);
    accept->pattern = submission->pattern;
    accept->deadline_ms = submission->deadline_ms;
    accept->stored = submission->stored;
    accept->put.job.unit = submission->unit;
    return handoff_delivery_keep(delivery, submission->source, &delivery->source) &&
           handoff_delivery_keep(delivery, submission->target, &delivery->asked_target) &&
           handoff_delivery_keep(delivery, submission->task_id, &delivery->task_id) &&
           handoff_delivery_keep(delivery, submission->idempotency_key, &accept->idempotency_key) &&
           handoff_delivery_keep_trace(delivery, submission->traceparent, submission->tracestate) &&
           take_envelope(delivery, submission) && copy_submitted_excerpt(delivery, submission) &&
           copy_contribution(delivery, submission) && copy_park_reason(delivery, submission) &&
           copy_summary(delivery, submission->summary) &&
           copy_replacing_decision(delivery, submission);
}

static void accepted(struct handoff_store_job *job)
{
    struct handoff_accepting *accepting =
        BASE_CONTAINER_OF(job, struct handoff_accepting, accept.put.job);
    struct handoff_delivery *delivery = accepting->delivery;
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    BASE_CHECK(delivery->accepting == accepting);
    delivery->lane->awaited--;
    delivery->writing = false;
    free_contribution(delivery);
    if (job->error.code != HANDOFF_OK) {
        struct handoff_error error = job->error;
        handoff_delivery_drop(delivery, &error);
        return;
    }
    delivery->seq = accepting->accept.seq;
    handoff_delivery_name_chain(delivery, &accepting->accept.root, &accepting->accept.previous);
    if (delivery->state == HANDOFF_STATE_PARKED)
        handoff_delivery_note_parked(delivery);
    handoff_delivery_observe_start(delivery, false);
    if (accepting->accept.decision)
        handoff_delivery_observe_decision(delivery, accepting->accept.decision);
    delivery->accepting = NULL;
    base_free(accepting);
    if (delivery->state == HANDOFF_STATE_PARKED && delivery->nrecords == 0)
        handoff_delivery_give_up_claim(delivery);
    handoff_delivery_tell_watches(delivery, false);
    if (delivery->waiter && delivery->waiter->accepted) {
        struct handoff_status status;
        handoff_delivery_status(delivery, &status);
        delivery->waiter->accepted(delivery->waiter, &status);
    }
    if (delivery->nrecords > 0)
        handoff_delivery_write(delivery); /* the passed-over agents; then it continues */
    else
        handoff_delivery_advance(delivery);
}

static void submit_accept(struct handoff_delivery *delivery)
{
    struct handoff_store_accept *accept = &delivery->accepting->accept;
    accept->put.job.mailbox = delivery->lane->mailbox;
    accept->put.job.batch = &delivery->lane->writes;
    accept->put.job.done = accepted;
    accept->put.body = delivery->shared ? base_span(NULL, 0) : delivery->envelope;
    accept->put.task_id = delivery->task_id;
    accept->source = delivery->source;
    accept->asked_target = delivery->asked_target;
    accept->excerpt = delivery->excerpt;
    handoff_delivery_standing(delivery, &accept->standing);
    delivery->writing = true;
    delivery->lane->awaited++;
    handoff_store_accept(delivery->lane->engine->options.store, accept);
}

static enum handoff_code refuse_circuit(const struct handoff_lane *lane,
                                        const struct handoff_submission *submission,
                                        struct handoff_agent *agent, int64_t wait_ms,
                                        struct handoff_error *error)
{
    const struct handoff_engine_options *options = &lane->engine->options;
    struct handoff_event event = {.kind = HANDOFF_EVENT_REJECTED,
                                  .who = {.source_agent = submission->source.data,
                                          .target_agent = agent->name,
                                          .pattern = submission->pattern}};
    handoff_copy_trace_id(event.who.trace_id, handoff_trace_id(submission->traceparent));
    if (options->observe)
        options->observe(options->observer, &event);
    handoff_error_set(error, HANDOFF_ERR_CIRCUIT_OPEN,
                      "the circuit is open after too many failures in a row; retry after the "
                      "cooldown, or close it with `handoffctl agents reset`",
                      "target_agent", agent->name);
    if (error)
        error->needed = wait_ms;
    return HANDOFF_ERR_CIRCUIT_OPEN;
}

enum handoff_code handoff_delivery_refuse_full(const struct handoff_agent *agent,
                                               struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_TOO_MANY_IN_FLIGHT,
                             "in-flight limit reached; retry when some handoffs have finished "
                             "(api.max_in_flight, api.max_in_flight_per_agent)",
                             "target_agent", agent->name);
}

/* ---- whom to -------------------------------------------------------------------------------- */

struct handoff_delivery *handoff_delivery_make(struct handoff_lane *lane,
                                               const struct handoff_submission *submission)
{
    struct handoff_delivery *delivery =
        handoff_delivery_new(lane, &submission->id, texts_size(submission));
    if (!delivery)
        return NULL;
    delivery->accepting = base_calloc(1, sizeof *delivery->accepting);
    if (delivery->accepting) {
        delivery->accepting->delivery = delivery;
        if (copy_submission(delivery, submission))
            return delivery;
    }
    handoff_delivery_free(delivery);
    return NULL;
}

static enum handoff_code refuse_accepted(const struct handoff_delivery *delivery,
                                         struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_CONFLICT, "the envelope is already being delivered",
                             "id", delivery->id_text);
}

/* One that is live is already counted for the agent. conflict: another call was there first, with
   the same stored envelope; the delivery is then the caller's again. */
static enum handoff_code start(struct handoff_delivery *delivery, enum handoff_state state,
                               struct handoff_agent *agent, struct handoff_waiter *waiter,
                               struct handoff_error *error)
{
    bool fresh = handoff_delivery_claim(delivery);
    BASE_CHECK(fresh || delivery->accepting->accept.stored); /* each id is made once */
    if (!fresh)
        return refuse_accepted(delivery, error);
    delivery->waiter = waiter;
    if (waiter)
        waiter->delivery = delivery;
    handoff_delivery_enter(delivery, state, agent);
    submit_accept(delivery);
    return HANDOFF_OK;
}

static enum handoff_code start_live(struct handoff_delivery *delivery, struct handoff_agent *agent,
                                    struct handoff_waiter *waiter, struct handoff_error *error)
{
    struct handoff_engine *engine = delivery->lane->engine;
    enum handoff_code code = start(delivery, HANDOFF_STATE_READY, agent, waiter, error);
    if (code == HANDOFF_OK)
        return code;
    handoff_delivery_uncount(engine, agent);
    handoff_delivery_free(delivery);
    return code;
}

/* No circuit and no limit matters to what is not delivered. */
static enum handoff_code start_parked(struct handoff_delivery *delivery,
                                      struct handoff_agent *agent, struct handoff_waiter *waiter,
                                      struct handoff_error *error)
{
    enum handoff_code code = start(delivery, HANDOFF_STATE_PARKED, agent, waiter, error);
    if (code != HANDOFF_OK)
        handoff_delivery_free(delivery);
    return code;
}

static enum handoff_code deliver_to_requested(struct handoff_lane *lane,
                                              const struct handoff_submission *submission,
                                              struct handoff_agent *agent,
                                              struct handoff_waiter *waiter,
                                              struct handoff_error *error)
{
    if (!handoff_delivery_count(lane->engine, agent, true))
        return handoff_delivery_refuse_full(agent, error);
    struct handoff_delivery *delivery = handoff_delivery_make(lane, submission);
    if (!delivery) {
        handoff_delivery_uncount(lane->engine, agent);
        return handoff_error_no_memory(error);
    }
    return start_live(delivery, agent, waiter, error);
}

/* The circuit of the requested agent is open: takes the first alternate that can have the
   handoff. */
static enum handoff_code deliver_to_alternate(struct handoff_lane *lane,
                                              const struct handoff_submission *submission,
                                              struct handoff_agent *asked, int64_t wait_ms,
                                              struct handoff_waiter *waiter,
                                              struct handoff_error *error)
{
    struct handoff_delivery *delivery = handoff_delivery_make(lane, submission);
    if (!delivery)
        return handoff_error_no_memory(error);
    handoff_delivery_pass_over(delivery, asked->name, HANDOFF_OBSTACLE_CIRCUIT_OPEN);
    struct handoff_agent *agent = handoff_delivery_next_alternate(delivery);
    if (agent && handoff_delivery_count(lane->engine, agent, true))
        return start_live(delivery, agent, waiter, error);
    handoff_delivery_free(delivery);
    return agent ? handoff_delivery_refuse_full(agent, error)
                 : refuse_circuit(lane, submission, asked, wait_ms, error);
}

enum handoff_code handoff_delivery_refuse_shutting_down(struct handoff_error *error)
{
    return handoff_error_set(error, HANDOFF_ERR_SHUTTING_DOWN,
                             "the process is shutting down; retry after the restart", NULL, NULL);
}

enum handoff_code handoff_engine_deliver(struct handoff_lane *lane,
                                         const struct handoff_submission *submission,
                                         struct handoff_waiter *waiter, struct handoff_error *error)
{
    BASE_CHECK_MAGIC(lane, HANDOFF_LANE_MAGIC);
    int64_t wait_ms;
    if (lane->closing || atomic_load(&lane->engine->draining))
        return handoff_delivery_refuse_shutting_down(error);
    struct handoff_agent *agent =
        handoff_agents_find(lane->engine->options.agents, submission->target);
    if (!agent)
        return handoff_agents_refuse_unknown(lane->engine->options.agents, submission->target,
                                             "target_agent", error);
    if (is_parked_at_once(submission)) {
        struct handoff_delivery *delivery = handoff_delivery_make(lane, submission);
        return delivery ? start_parked(delivery, agent, waiter, error)
                        : handoff_error_no_memory(error);
    }
    if (!handoff_agent_is_open(agent, handoff_lane_now_ms(lane), &wait_ms))
        return deliver_to_requested(lane, submission, agent, waiter, error);
    return deliver_to_alternate(lane, submission, agent, wait_ms, waiter, error);
}

enum handoff_code handoff_engine_deliver_next(struct handoff_lane *lane,
                                              const struct handoff_submission *submission,
                                              struct handoff_store_unit *unit,
                                              struct handoff_error *error)
{
    if (lane->closing)
        return handoff_delivery_refuse_shutting_down(error);
    struct handoff_agent *agent =
        handoff_agents_find(lane->engine->options.agents, submission->target);
    if (!agent)
        return handoff_agents_refuse_unknown(lane->engine->options.agents, submission->target,
                                             "target_agent", error);
    struct handoff_delivery *delivery = handoff_delivery_make(lane, submission);
    if (!delivery)
        return handoff_error_no_memory(error);
    delivery->accepting->accept.put.job.unit = unit;
    if (is_parked_at_once(submission))
        return start_parked(delivery, agent, NULL, error);
    handoff_delivery_count(lane->engine, agent, false);
    return start_live(delivery, agent, NULL, error);
}

/* Its id was made for it, so nobody else has it. */
void handoff_delivery_start_of_publication(struct handoff_delivery *delivery,
                                           struct handoff_agent *agent,
                                           struct handoff_store_unit *unit,
                                           struct handoff_waiter *waiter)
{
    const bool parked = delivery->reason != HANDOFF_REASON_NONE;
    delivery->accepting->accept.put.job.unit = unit;
    if (!parked)
        handoff_delivery_count(delivery->lane->engine, agent, false);
    enum handoff_code code =
        start(delivery, parked ? HANDOFF_STATE_PARKED : HANDOFF_STATE_READY, agent, waiter, NULL);
    BASE_CHECK(code == HANDOFF_OK);
}
