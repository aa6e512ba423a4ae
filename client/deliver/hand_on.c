/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledges a handoff together with its successor; see hand_on.h. On the lane of the delivery.
 */
#include "client/deliver/hand_on.h"

#include <stdio.h>
#include <string.h>

#include "client/deliver/delivery.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { HAND_ON_MAGIC = 0x68616e64 };

/* ---- beginning and ending -------------------------------------------------------------------- */

static struct handoff_hand_on *make_hand_on(struct handoff_delivery *delivery,
                                            const struct handoff_finding *finding)
{
    const size_t name = delivery->agent->name_size, size = finding->next_size;
    struct handoff_hand_on *on = base_malloc(sizeof *on + name + size + 2);
    if (!on)
        return NULL;
    char *text = (char *)(on + 1);
    *on = (struct handoff_hand_on){.magic = HAND_ON_MAGIC,
                                   .lane = delivery->lane,
                                   .id = delivery->id,
                                   .agent = base_span(text, name),
                                   .request = base_span(text + name + 1, size),
                                   .delivery = delivery,
                                   .finding = *finding};
    memcpy(text, delivery->agent->name, name);
    text[name] = '\0';
    memcpy(text + name + 1, finding->next, size);
    text[name + 1 + size] = '\0';
    on->finding.next = NULL;
    on->finding.lacking = (struct base_buffer){0};
    on->finding.peer = on->finding.fault = NULL; /* lent for the call, and noted */
    handoff_error_clear(&on->problem);
    return on;
}

static void free_hand_on(struct handoff_hand_on *on)
{
    base_buffer_free(&on->kept);
    on->magic = 0;
    base_free(on);
}

bool handoff_hand_on_begin(struct handoff_delivery *delivery, struct handoff_reply *reply,
                           const struct handoff_finding *finding)
{
    const struct handoff_engine_options *options = &delivery->lane->engine->options;
    BASE_CHECK(!delivery->hand_on && options->hand_on);
    BASE_CHECK(finding->verdict == HANDOFF_VERDICT_ACKNOWLEDGED);
    struct handoff_hand_on *on = make_hand_on(delivery, finding);
    if (!on)
        return false;
    on->reply = reply;
    delivery->hand_on = on;
    if (delivery->protocol && !handoff_delivery_is_taken(delivery))
        delivery->protocol->break_off(delivery); /* a lease stays the agent's until it settles */
    handoff_delivery_set_attempting(delivery, true); /* or it stays so: a drain sees no gap */
    base_timers_stop(delivery->lane->timers, &delivery->timer);
    options->hand_on(options->hand_on_host, on);
    return true;
}

void handoff_hand_on_forget(struct handoff_delivery *delivery)
{
    struct handoff_hand_on *on = delivery->hand_on;
    BASE_CHECK_MAGIC(on, HAND_ON_MAGIC);
    delivery->hand_on = NULL;
    on->delivery = NULL;
    if (on->reply) {
        handoff_error_set(&on->reply->error, HANDOFF_ERR_SHUTTING_DOWN,
                          "the process is shutting down; retry after the restart", NULL, NULL);
        handoff_reply_send(on->reply);
        on->reply = NULL;
    }
}

/* ---- how it ended -----------------------------------------------------------------------------
 */

static bool is_being_attempted(const struct handoff_delivery *delivery)
{
    return delivery->state == HANDOFF_STATE_IN_FLIGHT;
}

static void end_hand_on(struct handoff_delivery *delivery)
{
    delivery->hand_on = NULL;
    handoff_delivery_set_attempting(delivery, false);
}

/* Both are stored: the rest is as without a successor. The agent is told after a second write,
   which only repeats the standing. */
static void settle_handed_on(struct handoff_delivery *delivery, struct handoff_hand_on *on)
{
    end_hand_on(delivery);
    delivery->attempt_recorded = on->move.nattempts > 0;
    delivery->attempts += is_being_attempted(delivery);
    if (delivery->state == HANDOFF_STATE_READY)
        delivery->attempt.number = 0; /* the last one was recorded when it failed */
    if (on->reply) {
        on->reply->next_problem = on->problem;
        if (on->problem.code == HANDOFF_OK)
            on->reply->successor = on->successor;
        handoff_delivery_take_reply(delivery, on->reply);
    }
    handoff_delivery_judged(delivery, &on->finding);
    if (on->reply)
        handoff_delivery_view(delivery, &on->reply->view);
    free_hand_on(on);
}

/* Neither is stored, and nothing was changed that would have to be. */
static void undo_hand_on(struct handoff_delivery *delivery, struct handoff_hand_on *on,
                         const struct handoff_error *error)
{
    end_hand_on(delivery);
    if (on->reply) {
        on->reply->error = *error;
        handoff_reply_send(on->reply);
    }
    handoff_delivery_not_acknowledged(delivery, &on->finding);
    free_hand_on(on);
}

/* We could not, which says nothing about the request. */
static bool is_our_own(const struct handoff_error *problem)
{
    const enum handoff_class kind = handoff_code_class(problem->code);
    return kind == HANDOFF_CLASS_UNAVAILABLE || kind == HANDOFF_CLASS_BUSY;
}

/* ---- the commit -------------------------------------------------------------------------------
 */

static void nothing_to_do(struct handoff_store_job *job)
{
    (void)job; /* the move, which comes behind it, has the same verdict */
}

static void put_refused(struct handoff_hand_on *on)
{
    const struct handoff_engine *engine = on->lane->engine;
    snprintf(on->code, sizeof on->code, "%s", handoff_code_name(on->problem.code));
    handoff_error_text(&on->problem, on->detail, sizeof on->detail);
    on->refuse = (struct handoff_store_refuse_next){
        .job = {.mailbox = on->lane->mailbox, .done = nothing_to_do, .unit = &on->unit},
        .seq = on->delivery->seq,
        .at_ms = handoff_delivery_wall_ms(on->delivery),
        .code = base_span_text(on->code),
        .detail = base_span_text(on->detail),
        .request = base_buffer_span(&on->kept)};
    handoff_store_refuse_next(engine->options.store, &on->refuse);
}

/* An agent that answered a push is told nothing: who looks at the handoff, or reads the log, is.
   The values of the request are not repeated. */
static void say_refused(struct handoff_hand_on *on)
{
    const char *field = on->problem.field;
    snprintf(on->finding.said, sizeof on->finding.said,
             "acknowledged, but its next request was refused: %s%s%s%s",
             handoff_code_name(on->problem.code), *field ? " (" : "", field, *field ? ")" : "");
}

/* The store may reject the successor, as when its parent was replaced meanwhile: then it is refused
   like any other, though without its text. */
static void unit_written(struct handoff_store_job *job)
{
    struct handoff_hand_on *on = BASE_CONTAINER_OF(job, struct handoff_hand_on, move.job);
    BASE_CHECK_MAGIC(on, HAND_ON_MAGIC);
    struct handoff_delivery *delivery = on->delivery;
    const struct handoff_error error = job->error;
    BASE_CHECK(delivery->writing); /* what is being written does not go */
    delivery->lane->awaited--;
    delivery->writing = false;
    if (error.code == HANDOFF_OK) {
        settle_handed_on(delivery, on);
    } else if (is_our_own(&error) || on->problem.code != HANDOFF_OK) {
        undo_hand_on(delivery, on, &error);
    } else {
        on->unit = (struct handoff_store_unit){0};
        handoff_hand_on_refuse(on, &error);
    }
}

static void put_acknowledged(struct handoff_hand_on *on)
{
    struct handoff_delivery *delivery = on->delivery;
    on->move = (struct handoff_store_move){
        .job = {.mailbox = on->lane->mailbox, .done = unit_written, .unit = &on->unit},
        .seq = delivery->seq,
        .over = true,
        .of_publication = handoff_delivery_is_of_publication(delivery)};
    handoff_delivery_standing(delivery, &on->move.standing);
    on->move.standing.state = HANDOFF_STATE_ACKNOWLEDGED;
    on->move.standing.attempts += is_being_attempted(delivery);
    on->move.standing.reason = HANDOFF_REASON_NONE;
    on->move.standing.due_ms = 0;
    on->move.standing.settled_ms = handoff_delivery_wall_ms(delivery);
    if (handoff_delivery_make_record(delivery, &on->finding, &on->attempt)) {
        on->move.attempts = &on->attempt.record;
        on->move.nattempts = 1;
    }
    handoff_store_move(on->lane->engine->options.store, &on->move);
}

static void submit_handed_on(struct handoff_hand_on *on)
{
    struct handoff_delivery *delivery = on->delivery;
    BASE_CHECK(!delivery->writing);
    put_acknowledged(on);
    delivery->writing = true;
    on->lane->awaited++;
    handoff_store_submit_unit(on->lane->engine->options.store, &on->unit, &on->lane->writes);
}

bool handoff_hand_on_commit(struct handoff_hand_on *on, const struct handoff_submission *submission)
{
    BASE_CHECK_MAGIC(on, HAND_ON_MAGIC);
    if (!on->delivery) {
        free_hand_on(on);
        return true;
    }
    if (handoff_engine_deliver_next(on->lane, submission, &on->unit, &on->problem) != HANDOFF_OK)
        return false;
    on->successor = (struct handoff_successor){
        .exists = true, .id = submission->id, .parked_for = submission->parked_for};
    submit_handed_on(on);
    return true;
}

void handoff_hand_on_refuse(struct handoff_hand_on *on, const struct handoff_error *problem)
{
    struct handoff_delivery *delivery = on->delivery;
    BASE_CHECK_MAGIC(on, HAND_ON_MAGIC);
    BASE_CHECK(problem->code != HANDOFF_OK);
    if (!delivery) {
        free_hand_on(on);
        return;
    }
    on->problem = *problem;
    if (is_our_own(&on->problem)) {
        undo_hand_on(delivery, on, &on->problem);
        return;
    }
    say_refused(on);
    put_refused(on);
    submit_handed_on(on);
}

void handoff_hand_on_assembled(struct handoff_hand_on *on)
{
    BASE_CHECK_MAGIC(on, HAND_ON_MAGIC);
    if (on->delivery && on->delivery->writing)
        on->assembled = true;
    else
        on->take(on);
}

void handoff_hand_on_continue(struct handoff_delivery *delivery)
{
    struct handoff_hand_on *on = delivery->hand_on;
    if (!on || !on->assembled || delivery->writing)
        return;
    on->assembled = false;
    on->take(on);
}
