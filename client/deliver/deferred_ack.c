/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a receiver reports through the API: an acknowledgement, a nack, or that it needs more time;
 * and what a sender wants: to cancel or to park it. For a live handoff this runs on its lane, and
 * the reply is sent once the change is written. For any other, the answer comes from the store's
 * row, which a reader thread reads.
 */
#include <stdio.h>

#include "client/deliver/author.h"
#include "client/deliver/decide.h"
#include "client/deliver/delivery.h"
#include "client/deliver/dormant.h"
#include "client/deliver/gaps.h"
#include "client/deliver/hand_on.h"
#include "client/store/parties.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { MOST_LOOKS = 1000 }; /* for a handoff that its row says is live: some 100 ms */

/* On the caller's lane. */
static void tell_reply(struct handoff_reply *reply)
{
    if (reply->error.code == HANDOFF_OK && reply->next_problem.code != HANDOFF_OK)
        reply->error = reply->next_problem;
    reply->told(reply);
}

static void tell_caller(struct base_mail *mail)
{
    tell_reply((void *)mail);
}

void handoff_reply_send(struct handoff_reply *reply)
{
    reply->mail.deliver = tell_caller;
    base_mailbox_post(reply->lane->mailbox, &reply->mail);
}

static enum handoff_code unknown(struct handoff_reply *reply)
{
    char text[BASE_UUID_TEXT];
    base_uuid_format(&reply->id, text);
    return handoff_error_set(&reply->error, HANDOFF_ERR_NOT_FOUND, "no handoff has this id", "id",
                             text);
}

static bool is_of_sender(const struct handoff_reply *reply)
{
    return reply->word == HANDOFF_WORD_CANCEL || reply->word == HANDOFF_WORD_PARK;
}

static enum handoff_code forbid(struct handoff_reply *reply)
{
    return handoff_error_set(
        &reply->error, HANDOFF_ERR_FORBIDDEN,
        is_of_sender(reply) ? "only the agent that sent the handoff may cancel or park it"
                            : "only the agent that holds the handoff may acknowledge or decline it",
        "id", NULL);
}

/* No agent holds the handoff: it waits for its next attempt, or the agent has not accepted the
   current one yet. */
static enum handoff_code nothing_to_extend(struct handoff_reply *reply, enum handoff_state state)
{
    return handoff_error_set(&reply->error, HANDOFF_ERR_CONFLICT,
                             "no agent holds the handoff now, so there is nothing to extend",
                             "state", handoff_state_name(state));
}

static enum handoff_code conflict(struct handoff_reply *reply, enum handoff_state state)
{
    return handoff_error_set(
        &reply->error, HANDOFF_ERR_CONFLICT,
        reply->replaced ? "an operator replaced the handoff by an edited one, which is delivered "
                          "in its place (replaced_by)"
                        : "the handoff has already finished with a different result",
        "state", handoff_state_name(state));
}

/* Live, but not on a lane: the lanes have released their handoffs; the next start resumes them. */
static void too_late(struct handoff_reply *reply)
{
    handoff_error_set(&reply->error, HANDOFF_ERR_SHUTTING_DOWN,
                      "the process is shutting down; retry after the restart", NULL, NULL);
}

/* The acknowledgement counts, and its agent hands on by a request of its own. */
static void refuse_late_next(struct handoff_reply *reply)
{
    if (reply->word == HANDOFF_WORD_ACK && reply->next.data)
        handoff_error_set(&reply->next_problem, HANDOFF_ERR_CONFLICT,
                          "the handoff is acknowledged, but it was parked by then, so nothing was "
                          "handed on; send the request to POST /v1/handoffs with this handoff as "
                          "its previous_id",
                          "next", NULL);
}

/* What the report means for a settled handoff. */
static void answer_settled(struct handoff_reply *reply, enum handoff_state state)
{
    bool agrees = reply->word == HANDOFF_WORD_LACKS    ? true
                  : reply->word == HANDOFF_WORD_ACK    ? state == HANDOFF_STATE_ACKNOWLEDGED
                  : reply->word == HANDOFF_WORD_CANCEL ? state == HANDOFF_STATE_DISCARDED
                  : reply->word == HANDOFF_WORD_PARK   ? state == HANDOFF_STATE_PARKED
                  : reply->word == HANDOFF_WORD_EXTEND || reply->word == HANDOFF_WORD_RETURN
                      ? false
                      : state == HANDOFF_STATE_PARKED || state == HANDOFF_STATE_DISCARDED;
    if (!agrees) {
        conflict(reply, state);
        return;
    }
    handoff_error_clear(&reply->error); /* repeated: harmless */
    reply->next_ignored = reply->word == HANDOFF_WORD_ACK && reply->next.data;
}

/* An acknowledgement counts late, too, and a parked handoff can still be cancelled. */
static bool is_late(const struct handoff_reply *reply, enum handoff_state state)
{
    return state == HANDOFF_STATE_PARKED &&
           (reply->word == HANDOFF_WORD_ACK || reply->word == HANDOFF_WORD_CANCEL);
}

static const struct handoff_finding word_findings[] = {
    [HANDOFF_WORD_ACK] = {.verdict = HANDOFF_VERDICT_ACKNOWLEDGED,
                          .result = HANDOFF_RESULT_ACK,
                          .reason = ""},
    [HANDOFF_WORD_NACK_RETRY] = {.verdict = HANDOFF_VERDICT_RETRY,
                                 .result = HANDOFF_RESULT_NACK,
                                 .reason = "the agent declined the handoff"},
    [HANDOFF_WORD_NACK_FINAL] = {.verdict = HANDOFF_VERDICT_REFUSED,
                                 .result = HANDOFF_RESULT_NACK,
                                 .reason = "the agent declined the handoff"},
};

/* false: out of memory. */
static bool note_taken_back(const struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    struct handoff_decision_note *note = base_arena_calloc(&delivery->arena, 1, sizeof *note);
    struct handoff_author author;
    if (!note || !handoff_delivery_keep_author(delivery, &reply->author, &author))
        return false;
    note->row.target = base_span(delivery->agent->name, delivery->agent->name_size);
    note->row.cause = base_span_text(handoff_state_name(delivery->state));
    handoff_delivery_note_decision(delivery, note, &author,
                                   reply->word == HANDOFF_WORD_PARK ? HANDOFF_ACTION_PARK
                                                                    : HANDOFF_ACTION_CANCEL);
    return true;
}

/* A live handoff, or, to cancel it, a parked one that is still in memory. */
static void answer_sender(struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    const char *words = base_arena_strdup(&delivery->arena, reply->words);
    if (!words || !note_taken_back(reply, delivery))
        handoff_error_no_memory(&reply->error);
    else if (!handoff_state_is_live(delivery->state))
        handoff_delivery_discard(delivery, words);
    else if (reply->word == HANDOFF_WORD_CANCEL)
        handoff_delivery_cancel(delivery, words);
    else
        handoff_delivery_park(delivery, words);
}

static void extend_live(struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    struct handoff_progress_note *progress = NULL;
    if (reply->progress.data)
        progress = handoff_progress_note_new(reply->progress, handoff_delivery_wall_ms(delivery));
    if (reply->progress.data && !progress)
        handoff_error_no_memory(&reply->error);
    else if (!handoff_delivery_extend(delivery, &progress))
        nothing_to_extend(reply, delivery->state);
    base_free(progress);
}

/* A live handoff, on its lane. */
static void answer_live(struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    handoff_error_clear(&reply->error);
    if (is_of_sender(reply)) {
        answer_sender(reply, delivery);
        return;
    }
    if (reply->word == HANDOFF_WORD_EXTEND) {
        extend_live(reply, delivery);
        return;
    }
    if (reply->word == HANDOFF_WORD_LACKS)
        return; /* it is noted */
    if (reply->word == HANDOFF_WORD_RETURN) {
        if (!handoff_delivery_return(delivery, reply->attempt))
            conflict(reply, delivery->state);
        return;
    }
    struct handoff_finding finding = word_findings[reply->word];
    snprintf(finding.said, sizeof finding.said, "%s", reply->said);
    bool out = delivery->state == HANDOFF_STATE_IN_FLIGHT;
    if (delivery->state == HANDOFF_STATE_READY) {
        if (reply->word == HANDOFF_WORD_NACK_RETRY)
            return;                   /* the handoff will be retried anyway */
        delivery->attempt.number = 0; /* that attempt was recorded when it timed out */
    }
    handoff_delivery_break_off(delivery);
    delivery->attempts += out;
    handoff_delivery_judged(delivery, &finding);
}

/* Parked or held, and still in memory: the agent had done the work after all, or the sender takes
   it back. */
static void answer_parked(struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    handoff_error_clear(&reply->error);
    if (is_of_sender(reply)) {
        answer_sender(reply, delivery);
        return;
    }
    refuse_late_next(reply);
    handoff_delivery_settle_late(delivery);
}

/* What the receiver lacks is stored before its acknowledgement. false: out of memory. */
static bool take_lacking(const struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    const enum handoff_state state = delivery->state;
    if (reply->word == HANDOFF_WORD_ACK && (handoff_state_is_live(state) || is_late(reply, state)))
        return handoff_delivery_take_gaps(delivery, reply->lacking);
    handoff_delivery_note_gaps(delivery, reply->lacking);
    return true;
}

static void answer_delivery(struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    reply->replaced = delivery->replaced;
    if (!take_lacking(reply, delivery))
        handoff_error_no_memory(&reply->error);
    else if (handoff_state_is_live(delivery->state))
        answer_live(reply, delivery);
    else if (is_late(reply, delivery->state))
        answer_parked(reply, delivery);
    else
        answer_settled(reply, delivery->state);
    handoff_delivery_view(delivery, &reply->view);
}

/* Only the agent that holds the handoff may answer, and only the one that sent it may take it back.
 */
static bool may_speak(const struct handoff_reply *reply, struct base_span holder,
                      struct base_span source)
{
    return !reply->agent.data ||
           base_span_equal(reply->agent, is_of_sender(reply) ? source : holder);
}

/* On a reader thread: an agent that is not a party does not learn that the handoff exists. */
static void refuse_other(struct handoff_reply *reply)
{
    bool is_party;
    if (handoff_store_is_party(reply->lane->engine->options.store, &reply->id, reply->agent,
                               &is_party, &reply->error) != HANDOFF_OK)
        return;
    if (is_party)
        forbid(reply);
    else
        unknown(reply);
}

static void look_for_it(struct handoff_engine *engine, struct handoff_reply *reply);
static void answer_stored(struct handoff_engine *engine, struct handoff_reply *reply);
static void refuse_live(struct handoff_engine *engine, struct handoff_reply *reply);

static void refuse_while_handed_on(struct handoff_reply *reply)
{
    handoff_error_set(
        &reply->error, HANDOFF_ERR_CONFLICT,
        "the handoff is being acknowledged, and its successor is not stored yet; retry", NULL,
        NULL);
}

static void refuse_while_replaced(struct handoff_reply *reply)
{
    handoff_error_set(&reply->error, HANDOFF_ERR_CONFLICT,
                      "the handoff is being replaced by an edited one; retry", NULL, NULL);
}

/* Acknowledges a live one, with the next request. */
static bool hands_on(const struct handoff_reply *reply, const struct handoff_delivery *delivery)
{
    return reply->word == HANDOFF_WORD_ACK && reply->next.data &&
           delivery->lane->engine->options.hand_on && handoff_state_is_live(delivery->state);
}

static void hand_on(struct handoff_reply *reply, struct handoff_delivery *delivery)
{
    struct handoff_finding finding = word_findings[HANDOFF_WORD_ACK];
    handoff_error_clear(&reply->error);
    handoff_error_clear(&reply->next_problem);
    finding.next = (char *)(uintptr_t)reply->next.data;
    finding.next_size = reply->next.size;
    if (take_lacking(reply, delivery) && handoff_hand_on_begin(delivery, reply, &finding))
        return;
    handoff_error_no_memory(&reply->error);
    handoff_reply_send(reply);
}

static void on_owning_lane(struct base_mail *mail)
{
    struct handoff_reply *reply = (void *)mail;
    struct handoff_engine *engine = reply->owner->engine;
    struct handoff_delivery *delivery;
    switch (handoff_lane_find(reply->owner, &reply->id, mail, &delivery, &reply->error)) {
    case HANDOFF_LOOKUP_LATER:
        return;
    case HANDOFF_LOOKUP_FAILED:
        handoff_reply_send(reply);
        return;
    case HANDOFF_LOOKUP_ABSENT:
        look_for_it(engine, reply); /* it has settled meanwhile: ask the store */
        return;
    case HANDOFF_LOOKUP_FOUND:
        break;
    }
    if (delivery->state == 0) { /* a decision about it is waiting for its row */
        answer_stored(engine, reply);
        return;
    }
    if (!delivery->seq) {
        unknown(reply); /* no caller can know the id before the handoff is accepted */
        handoff_reply_send(reply);
    } else if (!may_speak(reply, base_span(delivery->agent->name, delivery->agent->name_size),
                          delivery->source)) {
        refuse_live(engine, reply);
    } else if (delivery->hand_on) {
        refuse_while_handed_on(reply);
        handoff_reply_send(reply);
    } else if (delivery->replacing) {
        refuse_while_replaced(reply);
        handoff_reply_send(reply);
    } else if (hands_on(reply, delivery)) {
        hand_on(reply, delivery);
    } else {
        handoff_delivery_take_reply(delivery, reply);
        answer_delivery(reply, delivery);
        handoff_delivery_send_written_replies(delivery);
    }
}

static void decided_late(struct handoff_waiter *waiter, const struct handoff_status *status)
{
    struct handoff_reply *reply = BASE_CONTAINER_OF(waiter, struct handoff_reply, waiter);
    reply->view = (struct handoff_live_view){.state = status->state,
                                             .target = status->target,
                                             .reason = status->reason,
                                             .attempts = status->attempts,
                                             .settled_ms = status->settled_ms};
    reply->error = status->error;
    refuse_late_next(reply);
    tell_reply(reply);
}

/* If another caller has decided since the row was read (a replay, for example), the report applies
   to the handoff as that decision left it. */
static void late_decided(struct handoff_waiter *waiter, const struct handoff_error *error)
{
    struct handoff_reply *reply = BASE_CONTAINER_OF(waiter, struct handoff_reply, waiter);
    if (error->code == HANDOFF_ERR_CONFLICT) {
        look_for_it(reply->lane->engine, reply);
    } else if (error->code != HANDOFF_OK) {
        reply->error = *error;
        reply->told(reply);
    }
}

/* On the caller's lane: the agent had done the work after all, or the sender takes it back. */
static void decide_parked(struct handoff_reply *reply)
{
    const struct base_span none = base_span(NULL, 0);
    const bool cancels = reply->word == HANDOFF_WORD_CANCEL;
    reply->waiter = (struct handoff_waiter){.decided = late_decided, .settled = decided_late};
    handoff_engine_decide(reply->lane, &reply->id,
                          cancels ? HANDOFF_DECISION_CANCEL : HANDOFF_DECISION_ACKNOWLEDGE, none,
                          &reply->author, &reply->waiter);
}

static struct handoff_reply *reply_of(struct handoff_store_read *read)
{
    return BASE_CONTAINER_OF(read, struct handoff_reply, read);
}

static void judge_stored(struct handoff_reply *reply, const struct handoff_stored *stored)
{
    static const struct base_uuid nil;
    const enum handoff_state state = (enum handoff_state)stored->standing.state;
    reply->late = is_late(reply, state);
    reply->replaced = memcmp(&stored->replaced_by, &nil, sizeof nil) != 0;
    reply->live = handoff_state_is_live(state);
    if (!reply->live && !reply->late)
        answer_settled(reply, state);
}

/* Not live: reads the store's row. On a reader thread, which owns the reply until
   stored_was_read. */
static void read_stored(struct handoff_store_read *read)
{
    struct handoff_reply *reply = reply_of(read);
    struct base_arena arena;
    struct handoff_stored stored;
    reply->late = reply->live = false;
    base_arena_init(&arena, 0);
    enum handoff_code code = handoff_store_get_handoff(reply->lane->engine->options.store,
                                                       &reply->id, &arena, &stored, &reply->error);
    if (code == HANDOFF_OK && may_speak(reply, stored.standing.target, stored.source))
        judge_stored(reply, &stored);
    else if (code == HANDOFF_OK)
        refuse_other(reply);
    base_arena_free(&arena);
}

/* Another caller may have replayed it since it was looked for: then it is on a lane, or will be as
   soon as that lane learns that the replay is on disk. */
static void look_for_replayed(struct handoff_reply *reply)
{
    if (!reply->lane->closing && ++reply->looks < MOST_LOOKS) {
        look_for_it(reply->lane->engine, reply);
        return;
    }
    too_late(reply);
    reply->told(reply);
}

/* On the caller's lane. */
static void stored_was_read(struct handoff_store_read *read)
{
    struct handoff_reply *reply = reply_of(read);
    if (reply->late)
        decide_parked(reply);
    else if (reply->live)
        look_for_replayed(reply);
    else
        reply->told(reply);
}

static void answer_stored(struct handoff_engine *engine, struct handoff_reply *reply)
{
    reply->read.mailbox = reply->lane->mailbox;
    reply->read.run = read_stored;
    reply->read.done = stored_was_read;
    handoff_store_submit_read(engine->options.store, &reply->read);
}

static void read_parties(struct handoff_store_read *read)
{
    struct handoff_reply *reply = reply_of(read);
    reply->late = reply->live = false;
    refuse_other(reply);
}

/* On the owning lane: another agent holds the handoff. The store knows all parties. */
static void refuse_live(struct handoff_engine *engine, struct handoff_reply *reply)
{
    reply->read.mailbox = reply->lane->mailbox;
    reply->read.run = read_parties;
    reply->read.done = stored_was_read;
    handoff_store_submit_read(engine->options.store, &reply->read);
}

static void look_for_it(struct handoff_engine *engine, struct handoff_reply *reply)
{
    reply->view.state = HANDOFF_STATE_NONE;
    reply->next_ignored = false;
    reply->successor = (struct handoff_successor){0};
    handoff_error_clear(&reply->next_problem);
    reply->owner = handoff_live_lane(&engine->live, &reply->id);
    if (!reply->owner) {
        answer_stored(engine, reply);
        return;
    }
    reply->mail.deliver = on_owning_lane;
    base_mailbox_post(reply->owner->mailbox, &reply->mail);
}

void handoff_engine_reply(struct handoff_engine *engine, struct handoff_reply *reply)
{
    reply->looks = 0;
    look_for_it(engine, reply);
}
