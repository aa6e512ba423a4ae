/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing offers with pollers; inbox.h says which thread does what. Any lane calls it. */
#include "client/protocol/pull/inbox.h"

#include <string.h>

#include "client/agents/agents.h"
#include "client/deliver/delivery.h"
#include "client/protocol/pull/lease.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/memory.h"

void handoff_inbox_init(struct handoff_inbox *inbox)
{
    pthread_mutex_init(&inbox->lock, NULL);
    TAILQ_INIT(&inbox->offers);
    TAILQ_INIT(&inbox->pollers);
    LIST_INIT(&inbox->streams);
    inbox->followers = 0;
    inbox->waiting = 0;
    inbox->polled_ms = base_wall_ms(&base_clock_system);
}

void handoff_inbox_free(struct handoff_inbox *inbox)
{
    BASE_CHECK(TAILQ_EMPTY(&inbox->offers) && TAILQ_EMPTY(&inbox->pollers));
    BASE_CHECK(LIST_EMPTY(&inbox->streams));
    pthread_mutex_destroy(&inbox->lock);
}

static bool is_attended(const struct handoff_inbox *inbox)
{
    return !TAILQ_EMPTY(&inbox->pollers) || inbox->followers > 0;
}

void handoff_inbox_stats(struct handoff_inbox *inbox, size_t *waiting, int64_t *polled_ms)
{
    pthread_mutex_lock(&inbox->lock);
    *waiting = inbox->waiting;
    *polled_ms = is_attended(inbox) ? base_wall_ms(&base_clock_system) : inbox->polled_ms;
    pthread_mutex_unlock(&inbox->lock);
}

/* ---- requests that wait, under the lock ------------------------------------------------------ */

static void queue_request(struct handoff_inbox *inbox, struct handoff_poller_request *request)
{
    TAILQ_INSERT_TAIL(&inbox->pollers, request, entry);
    request->queued = true;
    if (request->holder)
        request->holder->waiting = request;
}

static void unqueue_request(struct handoff_inbox *inbox, struct handoff_poller_request *request)
{
    TAILQ_REMOVE(&inbox->pollers, request, entry);
    request->queued = false;
    if (request->holder)
        request->holder->waiting = NULL;
}

static void block(struct handoff_poller_request *request)
{
    request->blocked = true;
    request->holder->waiting = request;
}

static void unblock(struct handoff_poller_request *request)
{
    request->blocked = false;
    request->holder->waiting = NULL;
}

/* Whether it waited: it has to be told then, and else something is on its way to it. */
static bool end_its_wait(struct handoff_poller_request *request)
{
    const bool waited = request->queued || request->blocked;
    if (request->queued)
        unqueue_request(&request->agent->inbox, request);
    if (request->blocked)
        unblock(request);
    return waited;
}

void handoff_inbox_remove_request(struct handoff_poller_request *request)
{
    (void)end_its_wait(request);
    request->over = request->gone = true;
}

struct handoff_poller_request *handoff_inbox_take_blocked(struct handoff_stream_holder *holder)
{
    struct handoff_poller_request *request = holder->waiting;
    if (!request || !request->blocked)
        return NULL;
    unblock(request);
    return request;
}

void handoff_inbox_note_leaving(struct handoff_inbox *inbox)
{
    inbox->followers--;
    inbox->polled_ms = base_wall_ms(&base_clock_system);
}

/* ---- delivery's side ------------------------------------------------------------------------ */

/* The oldest of the later ones of its feed; NULL: there is none. */
static struct handoff_offer *find_later_offer(struct handoff_inbox *inbox,
                                              const struct handoff_offer *offer)
{
    struct handoff_offer *other = TAILQ_FIRST(&inbox->offers);
    while (other && (other->feed != offer->feed || other->seq <= offer->seq))
        other = TAILQ_NEXT(other, entry);
    return other;
}

/* One that was returned was the first before: only those that came back with it are older there. */
static struct handoff_offer *find_younger_offer(struct handoff_inbox *inbox,
                                                const struct handoff_offer *offer)
{
    struct handoff_offer *other = TAILQ_FIRST(&inbox->offers);
    while (other && other->seq < offer->seq)
        other = TAILQ_NEXT(other, entry);
    return other;
}

static void queue_offer(struct handoff_inbox *inbox, struct handoff_offer *offer)
{
    struct handoff_offer *later = NULL;
    if (offer->returned)
        later = find_younger_offer(inbox, offer);
    else if (offer->feed && offer->again)
        later = find_later_offer(inbox, offer);
    offer->place = later ? later->place : inbox->places++;
    if (later)
        TAILQ_INSERT_BEFORE(later, offer, entry);
    else
        TAILQ_INSERT_TAIL(&inbox->offers, offer, entry);
    inbox->waiting++;
    offer->queued = true;
}

struct handoff_poller_request *handoff_inbox_offer(struct handoff_inbox *inbox,
                                                   struct handoff_offer *offer)
{
    pthread_mutex_lock(&inbox->lock);
    struct handoff_poller_request *request = TAILQ_FIRST(&inbox->pollers);
    if (request) {
        unqueue_request(inbox, request);
    } else if (!offer->queued) {
        queue_offer(inbox, offer);
    }
    pthread_mutex_unlock(&inbox->lock);
    return request;
}

static void remove_offer(struct handoff_inbox *inbox, struct handoff_offer *offer)
{
    TAILQ_REMOVE(&inbox->offers, offer, entry);
    inbox->waiting--;
    offer->queued = false;
}

bool handoff_inbox_replace_offer(struct handoff_inbox *inbox, struct handoff_offer *from,
                                 struct handoff_offer *to, bool dormant)
{
    pthread_mutex_lock(&inbox->lock);
    const bool waits = from->queued;
    if (waits) {
        *to = *from;
        to->dormant = dormant;
        TAILQ_INSERT_BEFORE(from, to, entry);
        TAILQ_REMOVE(&inbox->offers, from, entry);
        from->queued = false;
    }
    pthread_mutex_unlock(&inbox->lock);
    return waits;
}

bool handoff_inbox_has_offer(struct handoff_inbox *inbox, const struct handoff_offer *offer)
{
    pthread_mutex_lock(&inbox->lock);
    const bool waits = offer->queued;
    pthread_mutex_unlock(&inbox->lock);
    return waits;
}

/* Under the lock. */
static bool is_behind(const struct handoff_inbox *inbox, const struct handoff_offer *offer,
                      unsigned count)
{
    return offer->place - TAILQ_FIRST(&inbox->offers)->place >= count;
}

bool handoff_inbox_is_behind(struct handoff_inbox *inbox, const struct handoff_offer *offer,
                             unsigned count)
{
    pthread_mutex_lock(&inbox->lock);
    const bool behind = offer->queued && is_behind(inbox, offer, count);
    pthread_mutex_unlock(&inbox->lock);
    return behind;
}

size_t handoff_inbox_next_dormant(struct handoff_inbox *inbox, const struct handoff_lane *lane,
                                  unsigned count, struct handoff_offer **found, size_t room)
{
    size_t nfound = 0;
    pthread_mutex_lock(&inbox->lock);
    struct handoff_offer *offer = TAILQ_FIRST(&inbox->offers);
    for (; offer && nfound < room && !is_behind(inbox, offer, count);
         offer = TAILQ_NEXT(offer, entry)) {
        if (offer->dormant && offer->lane == lane)
            found[nfound++] = offer;
    }
    pthread_mutex_unlock(&inbox->lock);
    return nfound;
}

void handoff_inbox_take_back(struct handoff_inbox *inbox, struct handoff_offer *offer)
{
    pthread_mutex_lock(&inbox->lock);
    if (offer->queued)
        remove_offer(inbox, offer);
    pthread_mutex_unlock(&inbox->lock);
}

/* ---- the pollers' side ---------------------------------------------------------------------- */

static struct handoff_poller_request *request_of(struct base_mail *mail)
{
    return BASE_CONTAINER_OF(mail, struct handoff_poller_request, mail);
}

static void answer_poller(struct base_mail *mail)
{
    struct handoff_poller_request *request = request_of(mail);
    base_timers_stop(request->lane->timers, &request->timer);
    TAILQ_REMOVE(&request->lane->protocols.pollers, request, open);
    request->told(request);
}

void handoff_inbox_tell(struct handoff_poller_request *request)
{
    request->mail.deliver = answer_poller;
    base_mailbox_post(request->lane->mailbox, &request->mail);
}

enum found { FOUND_OFFER, FOUND_NOTHING_YET, FOUND_NO_TIME };

/* Under the lock: its stream is another's now. */
static bool is_ousted(const struct handoff_poller_request *request)
{
    return request->holder && !request->holder->stream;
}

static bool may_lease_more(const struct handoff_poller_request *request)
{
    return !request->holder || !handoff_stream_is_full(request->holder->stream);
}

/* Takes the oldest offer; where there is none, or no room for it, has the request wait unless its
   time is over. */
static enum found take_offer(struct handoff_poller_request *request)
{
    struct handoff_inbox *inbox = &request->agent->inbox;
    enum found found = FOUND_NO_TIME;
    pthread_mutex_lock(&inbox->lock);
    inbox->polled_ms = base_wall_ms(&base_clock_system);
    const bool gone = request->gone || is_ousted(request);
    struct handoff_offer *offer =
        gone || !may_lease_more(request) ? NULL : TAILQ_FIRST(&inbox->offers);
    if (offer) {
        remove_offer(inbox, offer);
        request->offered_by = offer->lane; /* the offer belongs to its lane from here on */
        request->id = offer->id;
        found = FOUND_OFFER;
    } else if (!request->over && !gone) {
        if (may_lease_more(request))
            queue_request(inbox, request);
        else
            block(request);
        found = FOUND_NOTHING_YET;
    }
    pthread_mutex_unlock(&inbox->lock);
    return found;
}

static void look(struct handoff_poller_request *request);

/* On the lane of the handoff that was offered; it may have ended meanwhile. */
static void on_offers_lane(struct base_mail *mail)
{
    struct handoff_poller_request *request = request_of(mail);
    struct handoff_lane *lane = request->offered_by;
    struct handoff_delivery *delivery;
    struct handoff_error error;
    const enum handoff_lookup found =
        handoff_lane_find(lane, &request->id, mail, &delivery, &error);
    if (found == HANDOFF_LOOKUP_LATER)
        return;
    if (found != HANDOFF_LOOKUP_FOUND || !handoff_pull_lease(delivery, request))
        look(request);
}

static void look(struct handoff_poller_request *request)
{
    switch (take_offer(request)) {
    case FOUND_OFFER:
        request->mail.deliver = on_offers_lane;
        base_mailbox_post(request->offered_by->mailbox, &request->mail);
        break;
    case FOUND_NOTHING_YET:
        break;
    case FOUND_NO_TIME:
        handoff_inbox_tell(request);
        break;
    }
}

static void look_for_room(struct base_mail *mail)
{
    look(request_of(mail));
}

void handoff_inbox_look_again(struct handoff_poller_request *request)
{
    request->mail.deliver = look_for_room;
    base_mailbox_post(request->lane->mailbox, &request->mail);
}

bool handoff_inbox_give(struct handoff_poller_request *request, struct handoff_stream **stream)
{
    struct handoff_inbox *inbox = &request->agent->inbox;
    pthread_mutex_lock(&inbox->lock);
    const bool gives = !request->gone && !is_ousted(request);
    *stream = gives && request->holder ? request->holder->stream : NULL;
    if (*stream)
        handoff_stream_add(*stream, &request->id, request->attempt);
    pthread_mutex_unlock(&inbox->lock);
    return gives;
}

static void end(struct handoff_poller_request *request, bool gone)
{
    struct handoff_inbox *inbox = &request->agent->inbox;
    pthread_mutex_lock(&inbox->lock);
    inbox->polled_ms = base_wall_ms(&base_clock_system);
    const bool waited = end_its_wait(request);
    request->over = true;
    request->gone |= gone;
    pthread_mutex_unlock(&inbox->lock);
    if (waited) /* else a handoff is on its way to it, or word that it has gone */
        handoff_inbox_tell(request);
}

void handoff_inbox_withdraw(struct handoff_poller_request *request)
{
    end(request, true);
}

bool handoff_inbox_is_gone(struct handoff_poller_request *request)
{
    struct handoff_inbox *inbox = &request->agent->inbox;
    pthread_mutex_lock(&inbox->lock);
    bool gone = request->gone;
    pthread_mutex_unlock(&inbox->lock);
    return gone;
}

/* Whoever is still there takes what is on its way. */
static void time_is_over(struct base_timer *timer)
{
    end(BASE_CONTAINER_OF(timer, struct handoff_poller_request, timer), false);
}

void handoff_inbox_poll(struct handoff_poller_request *request, int64_t wait_ms)
{
    request->envelope = NULL;
    request->queued = request->blocked = request->gone = false;
    request->over = request->lane->closing;
    request->timer = (struct base_timer){.fire = time_is_over};
    TAILQ_INSERT_TAIL(&request->lane->protocols.pollers, request,
                      open); /* it will come back by mail */
    base_timers_start(request->lane->timers, &request->timer,
                      handoff_lane_now_ms(request->lane) + wait_ms);
    look(request);
}
