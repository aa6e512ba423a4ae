/* SPDX-License-Identifier: Apache-2.0 */
/* Which deliveries become dormant, and how they are loaded again; see dormant.h. On the lane's
   thread, but for read_dormant, which runs on a reader thread of the store. */
#include "client/deliver/dormant.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

enum {
    LOADED_TOGETHER = 32,    /* by one lane: what others read does not wait behind thousands */
    DORMANT_LOOK_MS = 30000, /* how often one looks whether a reload or a lost mail concerns it */
    LOAD_AGAIN_MS = 1000,    /* after a failure */
};

/* ---- which ----------------------------------------------------------------------------------- */

void handoff_delivery_waits(struct handoff_delivery *delivery)
{
    if (delivery->looked_at || delivery->state != HANDOFF_STATE_READY || delivery->lane->closing)
        return;
    TAILQ_INSERT_TAIL(&delivery->lane->waiting, delivery, waits);
    delivery->looked_at = true;
}

static bool store_has_all_of_it(const struct handoff_delivery *delivery)
{
    return delivery->seq && !delivery->writing && !delivery->changed && !delivery->has_attempt &&
           delivery->nrecords == 0 && !delivery->progress_changed && delivery->gaps.size == 0;
}

static bool is_left_alone(const struct handoff_delivery *delivery)
{
    return !delivery->waiter && !delivery->attempting && !delivery->hand_on &&
           !delivery->replacing && LIST_EMPTY(&delivery->watches) &&
           STAILQ_EMPTY(&delivery->replies) && STAILQ_EMPTY(&delivery->lent_replies);
}

/* So many of its agent are in memory that this one need not be. */
static bool is_one_of_many(const struct handoff_engine *engine, struct handoff_agent *agent)
{
    pthread_mutex_lock(&agent->lock);
    const unsigned waiting = agent->in_flight;
    pthread_mutex_unlock(&agent->lock);
    return waiting > engine->options.waiting_in_memory;
}

static bool is_ordered(const struct handoff_agent *agent)
{
    return atomic_load_explicit(&agent->ordered, memory_order_relaxed);
}

/* Of its line, or of its feed: it is called up. */
static bool waits_for_turn(struct handoff_delivery *delivery)
{
    return delivery->held.queued ||
           (delivery->turn.agent && is_ordered(delivery->agent) &&
            !handoff_turns_is_first(&delivery->lane->engine->turns, &delivery->turn));
}

/* The protocol by which it is offered; NULL: it is not. */
static const struct handoff_protocol *offering_protocol(const struct handoff_delivery *delivery)
{
    return handoff_delivery_is_offered(delivery) ? delivery->protocol : NULL;
}

static bool is_far_back(struct handoff_delivery *delivery)
{
    const struct handoff_engine *engine = delivery->lane->engine;
    const struct handoff_protocol *offering = offering_protocol(delivery);
    return offering ? offering->is_behind(delivery, engine->options.waiting_in_memory)
                    : waits_for_turn(delivery) && is_one_of_many(engine, delivery->agent);
}

static bool may_rest(struct handoff_delivery *delivery)
{
    return delivery->state == HANDOFF_STATE_READY && store_has_all_of_it(delivery) &&
           is_left_alone(delivery) && is_far_back(delivery);
}

/* ---- becoming dormant -------------------------------------------------------------------------
 */

static void dormant_looks(struct base_timer *timer);

/* The line of a publication's delivery is its feed. NULL: out of memory. */
static struct handoff_dormant *make_dormant(const struct handoff_delivery *delivery)
{
    const bool of_task = !atomic_load_explicit(&delivery->live.feed, memory_order_relaxed);
    const size_t size = of_task ? delivery->task_id.size : 0;
    struct handoff_dormant *dormant = base_malloc(sizeof *dormant + size);
    if (!dormant)
        return NULL;
    *dormant = (struct handoff_dormant){.magic = HANDOFF_DORMANT_MAGIC,
                                        .id = delivery->id,
                                        .late = delivery->late,
                                        .timer.fire = dormant_looks,
                                        .deadline_mono_ms = delivery->deadline_mono_ms};
    dormant->live.id = &dormant->id;
    dormant->live.lane = delivery->lane;
    dormant->live.owner = dormant;
    dormant->last = &dormant->waiting;
    memcpy(dormant->task_id, delivery->task_id.data ? delivery->task_id.data : "", size);
    return dormant;
}

/* Later for some than for others, so that those which began to wait together do not look together.
 */
static int64_t next_look_ms(const struct handoff_dormant *dormant)
{
    return DORMANT_LOOK_MS + dormant->id.bytes[15] * (int64_t)DORMANT_LOOK_MS / UINT8_MAX;
}

static void look_in(struct handoff_dormant *dormant, int64_t wait_ms)
{
    struct handoff_lane *lane = dormant->live.lane;
    const int64_t due_ms = handoff_lane_now_ms(lane) + wait_ms;
    base_timers_start(lane->timers, &dormant->timer,
                      due_ms < dormant->deadline_mono_ms ? due_ms : dormant->deadline_mono_ms);
}

/* Its places, but for the one in the inbox, which a poller may just have taken. */
static void hand_over_places(struct handoff_delivery *delivery, struct handoff_dormant *dormant)
{
    struct handoff_engine *engine = delivery->lane->engine;
    struct handoff_feed *feed = atomic_load_explicit(&delivery->live.feed, memory_order_relaxed);
    const size_t size = feed ? 0 : delivery->task_id.size;
    dormant->in_feed = delivery->held.queued;
    BASE_CHECK(!dormant->in_feed || !dormant->pulled); /* order.c withdraws the offer */
    if (dormant->in_feed)
        handoff_feed_replace(feed, &delivery->held, &dormant->place.held);
    if (delivery->turn.agent)
        handoff_turns_replace(&engine->turns, &delivery->turn, &dormant->turn,
                              base_span(dormant->task_id, size));
    handoff_live_replace(&engine->live, &delivery->live, &dormant->live);
}

void handoff_delivery_waits_no_more(struct handoff_delivery *delivery)
{
    if (delivery->looked_at)
        TAILQ_REMOVE(&delivery->lane->waiting, delivery, waits);
    delivery->looked_at = false;
}

static void become_dormant(struct handoff_delivery *delivery, struct handoff_dormant *dormant)
{
    struct handoff_lane *lane = delivery->lane;
    hand_over_places(delivery, dormant);
    base_timers_stop(lane->timers, &delivery->timer);
    base_timers_stop(lane->timers, &delivery->write_timer);
    handoff_delivery_waits_no_more(delivery);
    TAILQ_REMOVE(&lane->deliveries, delivery, entry);
    handoff_delivery_free(delivery);
    TAILQ_INSERT_TAIL(&lane->dormant, dormant, entry);
    look_in(dormant, next_look_ms(dormant));
}

/* false: a poller has just taken it. */
static bool set_aside(struct handoff_delivery *delivery, struct handoff_dormant *dormant)
{
    dormant->pulled = offering_protocol(delivery);
    return !dormant->pulled || dormant->pulled->set_aside(delivery, &dormant->place.offer);
}

static void lay_down(struct handoff_delivery *delivery)
{
    struct handoff_dormant *dormant = make_dormant(delivery);
    if (!dormant)
        return;
    if (set_aside(delivery, dormant))
        become_dormant(delivery, dormant);
    else
        base_free(dormant);
}

void handoff_lane_rest(struct handoff_lane *lane)
{
    struct handoff_delivery *delivery;
    while ((delivery = TAILQ_FIRST(&lane->waiting))) {
        handoff_delivery_waits_no_more(delivery);
        if (may_rest(delivery))
            lay_down(delivery);
    }
}

/* ---- whether it still waits --------------------------------------------------------------------
 */

static bool is_called_up_in_feed(struct handoff_dormant *dormant)
{
    struct base_uuid id;
    struct handoff_lane *lane;
    struct handoff_feed *feed = atomic_load_explicit(&dormant->live.feed, memory_order_relaxed);
    return handoff_feed_next(feed, &id, &lane) &&
           memcmp(id.bytes, dormant->id.bytes, sizeof id.bytes) == 0;
}

/* Its agent is as it was when it began to wait, and others are still before it. */
static bool still_waits(struct handoff_dormant *dormant)
{
    struct handoff_agent *agent = atomic_load_explicit(&dormant->live.agent, memory_order_relaxed);
    struct handoff_settings *settings = handoff_agent_settings(agent);
    const bool known = settings != NULL, pulls = known && settings->protocol->pulls;
    const bool ordered = known && settings->options.ordered;
    handoff_settings_release(&settings);
    if (!known)
        return false;
    if (dormant->in_feed)
        return !is_called_up_in_feed(dormant);
    const bool has_turn =
        !ordered || handoff_turns_is_first(&dormant->live.lane->engine->turns, &dormant->turn);
    return dormant->pulled
               ? pulls && has_turn && handoff_inbox_has_offer(&agent->inbox, &dormant->place.offer)
               : !has_turn;
}

/* ---- at startup -------------------------------------------------------------------------------
 */

/* No poller and no lane runs yet: what its agent pulls, or gets in order, waits. */
struct handoff_dormant *handoff_dormant_for_start(const struct handoff_delivery *delivery,
                                                  struct handoff_agent *agent,
                                                  const struct handoff_stored *stored)
{
    struct handoff_settings *settings = handoff_agent_settings(agent);
    const bool waits = settings && (settings->protocol->pulls || settings->options.ordered);
    handoff_settings_release(&settings);
    if (!waits || stored->standing.state != HANDOFF_STATE_READY ||
        delivery->due_mono_ms > handoff_lane_now_ms(delivery->lane) ||
        handoff_delivery_until_deadline(delivery) <= 0 ||
        !is_one_of_many(delivery->lane->engine, agent))
        return NULL;
    return make_dormant(delivery);
}

/* One that is ordered is offered when it is the first of its line. */
void handoff_delivery_start_dormant(struct handoff_delivery *delivery,
                                    struct handoff_dormant *dormant)
{
    delivery->settings = handoff_agent_settings(delivery->agent);
    if (delivery->settings && !delivery->settings->options.ordered)
        (void)handoff_delivery_offer(delivery);
    if (!set_aside(delivery, dormant))
        dormant->pulled = NULL; /* it looks by itself */
    become_dormant(delivery, dormant);
    if (!still_waits(dormant))
        look_in(dormant, 0);
}

/* ---- being loaded -----------------------------------------------------------------------------
 */

/* In the arena of the delivery, which is not on a lane yet. */
struct dormant_load {
    struct handoff_dormant *dormant;
    struct handoff_delivery *delivery;

    /* the reader's, then the lane's */
    struct handoff_stored_whole whole;
    struct handoff_error error;
};

/* The lane's; the reader's while it reads. */
struct handoff_dormant_batch {
    struct handoff_store_read read;
    struct handoff_lane *lane;
    bool in_use; /* it is put together, read, or taken up: no other begins */
    size_t count;
    struct dormant_load *loads[LOADED_TOGETHER];
    struct handoff_stored_whole *rows[LOADED_TOGETHER]; /* of these */
};

static void load_rows(struct handoff_lane *lane);

static struct handoff_dormant_batch *batch_of(struct handoff_store_read *read)
{
    return BASE_CONTAINER_OF(read, struct handoff_dormant_batch, read);
}

static void fill_loaded(struct dormant_load *load)
{
    if (load->whole.error.code == HANDOFF_OK)
        (void)!handoff_delivery_load_whole(load->delivery, &load->whole, &load->error);
    else
        load->error = load->whole.error;
}

static void read_dormant(struct handoff_store_read *read)
{
    struct handoff_dormant_batch *batch = batch_of(read);
    handoff_store_get_whole(batch->lane->engine->options.store, batch->rows, batch->count);
    for (size_t i = 0; i < batch->count; i++)
        fill_loaded(batch->loads[i]);
}

/* Each comes once more, and finds what became of it. */
static void deliver_mails(struct base_mail *mail)
{
    while (mail) {
        struct base_mail *next = mail->next;
        mail->deliver(mail);
        mail = next;
    }
}

static struct base_mail *take_mails(struct handoff_dormant *dormant)
{
    struct base_mail *mails = dormant->waiting;
    *dormant->last = NULL;
    dormant->waiting = NULL;
    dormant->last = &dormant->waiting;
    return mails;
}

/* It stays dormant. An offer that a poller took is made again by the next load. */
static void fail_load(struct handoff_dormant *dormant, const struct handoff_error *error)
{
    struct handoff_lane *lane = dormant->live.lane;
    dormant->loading = false;
    dormant->failed = error;
    deliver_mails(take_mails(dormant));
    dormant->failed = NULL;
    base_timers_start(lane->timers, &dormant->timer, /* whatever its deadline */
                      handoff_lane_now_ms(lane) + LOAD_AGAIN_MS);
}

/* The delivery in the place of the dormant one. */
static void wake_up(struct handoff_delivery *delivery, struct handoff_dormant *dormant)
{
    struct handoff_lane *lane = delivery->lane;
    struct handoff_engine *engine = lane->engine;
    handoff_delivery_leave_feed(delivery); /* it gets the reference of the dormant one */
    handoff_live_replace(&engine->live, &dormant->live, &delivery->live);
    struct handoff_feed *feed = atomic_load_explicit(&delivery->live.feed, memory_order_relaxed);
    delivery->agent = atomic_load_explicit(&delivery->live.agent, memory_order_relaxed);
    delivery->state = HANDOFF_STATE_READY;
    delivery->began_ns = delivery->live.since_ns;
    delivery->deadline_mono_ms = dormant->deadline_mono_ms;
    delivery->late = dormant->late;
    delivery->settings = handoff_agent_settings(delivery->agent);
    if (dormant->in_feed)
        handoff_feed_replace(feed, &dormant->place.held, &delivery->held);
    if (dormant->turn.agent)
        handoff_turns_replace(&engine->turns, &dormant->turn, &delivery->turn, delivery->task_id);
    delivery->protocol = dormant->pulled;
    if (dormant->pulled)
        dormant->pulled->take_up(delivery, &dormant->place.offer);
    TAILQ_INSERT_TAIL(&lane->deliveries, delivery, entry);
    TAILQ_REMOVE(&lane->dormant, dormant, entry);
    dormant->magic = 0;
    base_free(dormant);
}

/* Unless it ended, or left the lane, with one of the mails. */
static void advance_loaded(struct handoff_lane *lane, const struct base_uuid *id,
                           const struct handoff_delivery *loaded)
{
    struct handoff_delivery *delivery = handoff_live_find(&lane->engine->live, id, lane);
    if (delivery && delivery == loaded && !delivery->writing)
        handoff_delivery_advance(delivery);
}

static void was_loaded(struct handoff_delivery *delivery, struct handoff_dormant *dormant,
                       bool readable)
{
    struct handoff_lane *lane = delivery->lane;
    const struct base_uuid id = delivery->id;
    struct base_mail *mails = take_mails(dormant);
    wake_up(delivery, dormant);
    if (!readable)
        handoff_delivery_park_unreadable(delivery);
    deliver_mails(mails);
    advance_loaded(lane, &id, delivery);
}

static void take_up_load(struct dormant_load *load)
{
    struct handoff_delivery *delivery = load->delivery;
    struct handoff_dormant *dormant = load->dormant;
    const bool closing = delivery->lane->closing;
    const struct handoff_error error = load->error;
    BASE_CHECK(dormant->magic == HANDOFF_DORMANT_MAGIC && dormant->loading);
    if (!closing && (error.code == HANDOFF_OK || error.code == HANDOFF_ERR_STORE_CORRUPT)) {
        was_loaded(delivery, dormant, error.code == HANDOFF_OK);
        return;
    }
    handoff_delivery_free(delivery);
    if (!closing)
        fail_load(dormant, &error);
}

static void rows_were_read(struct handoff_store_read *read)
{
    struct handoff_dormant_batch *batch = batch_of(read);
    struct handoff_lane *lane = batch->lane;
    lane->awaited--;
    batch->loads[batch->count / 2]->delivery->loads_next = true;
    for (size_t i = 0; i < batch->count; i++)
        take_up_load(batch->loads[i]);
    batch->in_use = false;
    load_rows(lane);
}

/* NULL: out of memory. */
static struct dormant_load *make_load(struct handoff_dormant *dormant)
{
    struct handoff_delivery *delivery = handoff_delivery_new(
        dormant->live.lane, &dormant->id, HANDOFF_DELIVERY_NAMES + sizeof(struct dormant_load));
    if (!delivery)
        return NULL;
    struct dormant_load *load = base_arena_calloc(&delivery->arena, 1, sizeof *load);
    if (load)
        *load = (struct dormant_load){.dormant = dormant,
                                      .delivery = delivery,
                                      .whole = {.id = dormant->id, .arena = &delivery->arena}};
    else
        handoff_delivery_free(delivery);
    return load;
}

static void add_to_batch(struct handoff_dormant_batch *batch, struct handoff_dormant *dormant)
{
    struct dormant_load *load = make_load(dormant);
    struct handoff_error error;
    if (load) {
        batch->rows[batch->count] = &load->whole;
        batch->loads[batch->count++] = load;
        return;
    }
    handoff_error_no_memory(&error);
    fail_load(dormant, &error);
}

/* Those that wait for it are read together, so that one of many costs little. */
static void load_rows(struct handoff_lane *lane)
{
    struct handoff_dormant_batch *batch = lane->batch;
    struct handoff_dormant *dormant;
    if (lane->closing || batch->in_use)
        return;
    batch->in_use = true;
    batch->count = 0;
    while (batch->count < LOADED_TOGETHER && (dormant = TAILQ_FIRST(&lane->to_load))) {
        TAILQ_REMOVE(&lane->to_load, dormant, entry);
        TAILQ_INSERT_TAIL(&lane->dormant, dormant, entry);
        add_to_batch(batch, dormant);
    }
    batch->in_use = batch->count > 0;
    if (!batch->in_use)
        return;
    batch->read.mailbox = lane->mailbox;
    lane->awaited++;
    handoff_store_submit_read(lane->engine->options.store, &batch->read);
}

static void want_loaded(struct handoff_dormant *dormant)
{
    struct handoff_lane *lane = dormant->live.lane;
    if (dormant->loading)
        return;
    base_timers_stop(lane->timers, &dormant->timer);
    dormant->loading = true;
    TAILQ_REMOVE(&lane->dormant, dormant, entry);
    TAILQ_INSERT_TAIL(&lane->to_load, dormant, entry);
}

static void load_dormant(struct handoff_dormant *dormant)
{
    want_loaded(dormant);
    load_rows(dormant->live.lane);
}

/* ---- ahead of their turn ----------------------------------------------------------------------
 */

/* What is taken next, as far as it may be in memory. */
static void want_next_of_inbox(struct handoff_lane *lane, struct handoff_agent *agent)
{
    struct handoff_offer *next[LOADED_TOGETHER];
    const size_t count = handoff_inbox_next_dormant(
        &agent->inbox, lane, lane->engine->options.waiting_in_memory, next, LOADED_TOGETHER);
    for (size_t i = 0; i < count; i++)
        want_loaded(BASE_CONTAINER_OF(next[i], struct handoff_dormant, place.offer));
}

/* Half of those that were read together are taken: the next are read before the other half is. */
void handoff_delivery_load_next(struct handoff_delivery *delivery)
{
    if (!delivery->loads_next)
        return;
    delivery->loads_next = false;
    want_next_of_inbox(delivery->lane, delivery->agent);
    load_rows(delivery->lane);
}

/* ---- what wakes it ----------------------------------------------------------------------------
 */

static void dormant_looks(struct base_timer *timer)
{
    struct handoff_dormant *dormant = BASE_CONTAINER_OF(timer, struct handoff_dormant, timer);
    BASE_CHECK_MAGIC(dormant, HANDOFF_DORMANT_MAGIC);
    if (dormant->deadline_mono_ms > handoff_lane_now_ms(dormant->live.lane) && still_waits(dormant))
        look_in(dormant, next_look_ms(dormant));
    else
        load_dormant(dormant);
}

static bool is_dormant(const void *owner)
{
    return *(const unsigned *)owner == HANDOFF_DORMANT_MAGIC;
}

static void await_load(struct handoff_dormant *dormant, struct base_mail *mail)
{
    struct handoff_lane *lane = dormant->live.lane;
    struct handoff_agent *agent = atomic_load_explicit(&dormant->live.agent, memory_order_relaxed);
    mail->next = NULL;
    *dormant->last = mail;
    dormant->last = &mail->next;
    want_loaded(dormant);
    if (dormant->pulled && !handoff_inbox_has_offer(&agent->inbox, &dormant->place.offer))
        want_next_of_inbox(lane, agent); /* a poller took it, and more will follow */
    load_rows(lane);
}

enum handoff_lookup handoff_lane_find(struct handoff_lane *lane, const struct base_uuid *id,
                                      struct base_mail *mail, struct handoff_delivery **delivery,
                                      struct handoff_error *error)
{
    void *owner = handoff_live_find(&lane->engine->live, id, lane);
    if (!owner)
        return HANDOFF_LOOKUP_ABSENT;
    if (!is_dormant(owner)) {
        *delivery = owner;
        BASE_CHECK_MAGIC(*delivery, HANDOFF_DELIVERY_MAGIC);
        return HANDOFF_LOOKUP_FOUND;
    }
    struct handoff_dormant *dormant = owner;
    if (dormant->failed) {
        *error = *dormant->failed;
        return HANDOFF_LOOKUP_FAILED;
    }
    await_load(dormant, mail);
    return HANDOFF_LOOKUP_LATER;
}

/* ---- the end of the lane ----------------------------------------------------------------------
 */

static void drop_dormant(struct handoff_dormant *dormant)
{
    struct handoff_lane *lane = dormant->live.lane;
    struct handoff_engine *engine = lane->engine;
    struct handoff_agent *agent = atomic_load_explicit(&dormant->live.agent, memory_order_relaxed);
    struct handoff_feed *feed = atomic_load_explicit(&dormant->live.feed, memory_order_relaxed);
    base_timers_stop(lane->timers, &dormant->timer);
    if (dormant->pulled)
        handoff_inbox_take_back(&agent->inbox, &dormant->place.offer);
    if (dormant->in_feed)
        handoff_feed_leave(feed, &dormant->place.held);
    handoff_turns_leave(&engine->turns, &dormant->turn);
    handoff_live_remove(&engine->live, &dormant->live);
    handoff_delivery_uncount(engine, agent);
    if (feed)
        handoff_feeds_put(engine->options.feeds, feed);
    for (struct base_mail *mail = take_mails(dormant), *next; mail; mail = next) {
        next = mail->next;
        base_mailbox_post(lane->mailbox, mail);
    }
    dormant->magic = 0;
    base_free(dormant);
}

bool handoff_lane_begin_dormant(struct handoff_lane *lane)
{
    TAILQ_INIT(&lane->waiting);
    TAILQ_INIT(&lane->dormant);
    TAILQ_INIT(&lane->to_load);
    lane->batch = base_calloc(1, sizeof *lane->batch);
    if (!lane->batch)
        return false;
    lane->batch->lane = lane;
    lane->batch->read.run = read_dormant;
    lane->batch->read.done = rows_were_read;
    return true;
}

void handoff_lane_end_dormant(struct handoff_lane *lane)
{
    base_free(lane->batch);
}

void handoff_lane_drop_dormant(struct handoff_lane *lane)
{
    struct handoff_dormant *dormant;
    BASE_CHECK(!lane->batch->in_use);
    TAILQ_CONCAT(&lane->dormant, &lane->to_load, entry);
    while ((dormant = TAILQ_FIRST(&lane->dormant))) {
        TAILQ_REMOVE(&lane->dormant, dormant, entry);
        drop_dormant(dormant);
    }
}
