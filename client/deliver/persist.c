/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a delivery to the store: one write at a time, then another if it has changed meanwhile.
 * The delivery continues once that is done, so an attempt is recorded before the next one begins.
 *
 * Nothing is reported before it is written: the sender, an agent that answered by the API, and
 * readers of the handoff learn of a change after the commit that contains it, or of the store's
 * error if that failed. Runs on the lane of the delivery. Declared in delivery.h.
 */
#include <string.h>

#include "client/deliver/delivery.h"
#include "client/deliver/hand_on.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum { WRITE_AGAIN_MS = 1000 }; /* after a failed write: a full disk will not be freed any faster */

void handoff_delivery_standing(const struct handoff_delivery *delivery,
                               struct handoff_standing *standing)
{
    /* in flight is not written; an attempt in progress counts once it has ended */
    enum handoff_state state =
        delivery->state == HANDOFF_STATE_IN_FLIGHT ? HANDOFF_STATE_READY : delivery->state;
    *standing = (struct handoff_standing){
        .state = (int)state,
        .target = base_span(delivery->agent->name, delivery->agent->name_size),
        .reason = delivery->reason,
        .words = delivery->reason == HANDOFF_REASON_OTHER ? base_span_text(delivery->words)
                                                          : base_span("", 0),
        /* after a restart it is due at once, whenever its lease would have ended */
        .due_ms = delivery->due_mono_ms && delivery->state != HANDOFF_STATE_IN_FLIGHT
                      ? handoff_delivery_to_wall_ms(delivery, delivery->due_mono_ms)
                      : 0,
        .settled_ms = delivery->settled_ms,
        .attempts = delivery->attempts,
        .failures = delivery->failures,
        .alternate = delivery->alternate,
        .replays = delivery->replays,
    };
}

static struct base_span lend(char *to, size_t room, struct base_span from)
{
    BASE_CHECK(from.size <= room);
    memcpy(to, from.data, from.size);
    return base_span(to, from.size);
}

void handoff_delivery_append_record(struct handoff_delivery *delivery,
                                    struct handoff_attempt_record *record)
{
    *delivery->last_record = record;
    delivery->last_record = &record->next;
    delivery->nrecords++;
}

void handoff_delivery_pass_over(struct handoff_delivery *delivery, const char *agent,
                                enum handoff_obstacle why)
{
    struct handoff_attempt_record *record = base_arena_calloc(&delivery->arena, 1, sizeof *record);
    const char *name = record ? base_arena_strdup(&delivery->arena, agent) : NULL;
    if (!name)
        return;
    record->attempt = (struct handoff_attempt){.passed_over = true,
                                               .number = delivery->attempts,
                                               .at_ms = handoff_delivery_wall_ms(delivery),
                                               .target = base_span_text(name),
                                               .error = base_span_text(handoff_obstacle_name(why)),
                                               .peer = base_span("", 0),
                                               .answer = base_span("", 0)};
    handoff_delivery_append_record(delivery, record);
}

/* The attempt that ended, with its own copy of the texts: the agent's next message may arrive while
   the store still reads them. If out of memory, the attempt stays where it is, and goes with the
   next write if it is still there. */
static void queue_record(struct handoff_delivery *delivery)
{
    struct handoff_delivery_record *made = &delivery->usual_record;
    delivery->has_attempt &= !delivery->attempt_recorded;
    delivery->attempt_recorded = false;
    if (!delivery->has_attempt)
        return;
    if (delivery->usual_record_used)
        made = base_arena_alloc(&delivery->arena, sizeof *made);
    else
        delivery->usual_record_used = true;
    if (!made)
        return;
    const struct handoff_attempt *attempt = &delivery->attempt;
    made->record = (struct handoff_attempt_record){.attempt = *attempt};
    made->record.attempt.error = lend(made->error, sizeof made->error, attempt->error);
    made->record.attempt.peer = lend(made->peer, sizeof made->peer, attempt->peer);
    handoff_delivery_append_record(delivery, &made->record);
    delivery->has_attempt = false;
}

/* The write that carried the records is over. Records that it did not store go with the next write,
   so a disk that was full for a while leaves no gap. */
static void take_back_records(struct handoff_delivery *delivery, bool recorded)
{
    for (; recorded && delivery->nlent > 0; delivery->nlent--) {
        struct handoff_attempt_record *done = delivery->records;
        delivery->records = done->next;
        if (done == &delivery->usual_record.record)
            delivery->usual_record_used = false;
        if (--delivery->nrecords == 0)
            delivery->last_record = &delivery->records;
    }
    delivery->nlent = 0;
}

static struct handoff_told_progress lend_progress(struct handoff_delivery *delivery)
{
    if (!delivery->progress_changed)
        return (struct handoff_told_progress){.text = base_span(NULL, 0)};
    delivery->lent_progress = delivery->progress;
    return handoff_progress_told(delivery->progress);
}

/* Newer progress may have been told while this was written. */
static void take_back_progress(struct handoff_delivery *delivery, bool recorded)
{
    const struct handoff_progress_note *lent = delivery->lent_progress;
    delivery->lent_progress = NULL;
    if (lent && lent == delivery->progress)
        delivery->progress_changed = !recorded;
    else
        base_free((void *)(uintptr_t)lent);
}

/* During an attempt the published status stays: the store's row says ready. */
static void show_written(struct handoff_delivery *delivery)
{
    const struct handoff_standing *standing = &delivery->move.standing;
    const struct handoff_live_view view = {.state = (enum handoff_state)standing->state,
                                           .target = standing->target.data,
                                           .reason = standing->reason,
                                           .attempts = standing->attempts,
                                           .settled_ms = standing->settled_ms};
    if (delivery->state != HANDOFF_STATE_IN_FLIGHT)
        handoff_live_publish(&delivery->lane->engine->live, &delivery->live, &view);
}

/* error: NULL if it was written. */
static void send_replies(struct handoff_delivery *delivery, const struct handoff_error *error)
{
    struct handoff_reply *reply;
    while ((reply = STAILQ_FIRST(&delivery->lent_replies))) {
        STAILQ_REMOVE_HEAD(&delivery->lent_replies, entry);
        if (error)
            reply->error = *error;
        handoff_reply_send(reply);
    }
}

static void was_written(struct handoff_delivery *delivery)
{
    take_back_records(delivery, true);
    take_back_progress(delivery, true);
    show_written(delivery);
    if (!delivery->changed && !handoff_state_is_live(delivery->state))
        handoff_delivery_give_up_claim(delivery);
    send_replies(delivery, NULL);
    if (delivery->changed) {
        handoff_delivery_write(delivery);
        return;
    }
    handoff_delivery_tell_ready(delivery, NULL);
    handoff_delivery_advance(delivery);
}

/* Delivery continues in memory. A final state is retried until it is written; anything else goes
   with the next write. */
static void could_not_be_written(struct handoff_delivery *delivery,
                                 const struct handoff_error *error)
{
    take_back_records(delivery, false);
    take_back_progress(delivery, false);
    send_replies(delivery, error);
    if (delivery->changed) {
        handoff_delivery_write(delivery);
        return;
    }
    delivery->changed = true;
    if (handoff_state_is_live(delivery->state)) {
        handoff_delivery_tell_ready(delivery, error);
        handoff_delivery_advance(delivery);
        return;
    }
    handoff_delivery_tell_settled(delivery, error);
    base_timers_start(delivery->lane->timers, &delivery->write_timer,
                      handoff_lane_now_ms(delivery->lane) + WRITE_AGAIN_MS);
}

static void written(struct handoff_store_job *job)
{
    struct handoff_delivery *delivery = BASE_CONTAINER_OF(job, struct handoff_delivery, move.job);
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    struct handoff_hand_on *on = delivery->hand_on;
    delivery->lane->awaited--;
    delivery->writing = false;
    if (job->error.code == HANDOFF_OK) {
        was_written(delivery);
    } else {
        const struct handoff_error error = job->error; /* the next write has its own */
        could_not_be_written(delivery, &error);
    }
    if (on && on->delivery)
        handoff_hand_on_continue(on->delivery);
}

void handoff_delivery_take_reply(struct handoff_delivery *delivery, struct handoff_reply *reply)
{
    STAILQ_INSERT_TAIL(&delivery->replies, reply, entry);
}

void handoff_delivery_send_written_replies(struct handoff_delivery *delivery)
{
    if (delivery->changed && !delivery->writing)
        handoff_delivery_write(delivery); /* the last write failed */
    if (!delivery->changed)
        STAILQ_CONCAT(&delivery->lent_replies, &delivery->replies);
    if (!delivery->writing)
        send_replies(delivery, NULL);
}

/* As at the end of a handoff whose sender did not wait for it. */
static bool no_one_waits(const struct handoff_delivery *delivery)
{
    return !delivery->waiter && STAILQ_EMPTY(&delivery->replies) &&
           !handoff_state_is_live(delivery->state);
}

void handoff_delivery_write(struct handoff_delivery *delivery)
{
    queue_record(delivery);
    delivery->changed = delivery->writing;
    if (delivery->writing)
        return;
    base_timers_stop(delivery->lane->timers, &delivery->write_timer);
    struct handoff_store_move *write = &delivery->move;
    *write = (struct handoff_store_move){
        .job = {.mailbox = delivery->lane->mailbox,
                .batch = &delivery->lane->writes,
                .lazy = no_one_waits(delivery),
                .done = written},
        .seq = delivery->seq,
        .attempts = delivery->records,
        .nattempts = delivery->nrecords,
        .progress = lend_progress(delivery),
        .over = handoff_state_is_over(delivery->state),
        .of_publication = handoff_delivery_is_of_publication(delivery),
    };
    handoff_delivery_standing(delivery, &write->standing);
    delivery->nlent = delivery->nrecords;
    STAILQ_CONCAT(&delivery->lent_replies, &delivery->replies);
    delivery->writing = true;
    delivery->lane->awaited++;
    handoff_store_move(delivery->lane->engine->options.store, write);
}

void handoff_delivery_write_timer_fired(struct base_timer *timer)
{
    struct handoff_delivery *delivery =
        BASE_CONTAINER_OF(timer, struct handoff_delivery, write_timer);
    BASE_CHECK_MAGIC(delivery, HANDOFF_DELIVERY_MAGIC);
    handoff_delivery_write(delivery);
}
