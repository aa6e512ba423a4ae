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
    inbox->waiting = 0;
    inbox->polled_ms = base_wall_ms(&base_clock_system);
}

void handoff_inbox_free(struct handoff_inbox *inbox)
{
    BASE_CHECK(TAILQ_EMPTY(&inbox->offers) && TAILQ_EMPTY(&inbox->pollers));
    pthread_mutex_destroy(&inbox->lock);
}

void handoff_inbox_stats(struct handoff_inbox *inbox, size_t *waiting, int64_t *polled_ms)
{
    pthread_mutex_lock(&inbox->lock);
    *waiting = inbox->waiting;
    *polled_ms = TAILQ_EMPTY(&inbox->pollers) ? inbox->polled_ms : base_wall_ms(&base_clock_system);
    pthread_mutex_unlock(&inbox->lock);
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

static void queue_offer(struct handoff_inbox *inbox, struct handoff_offer *offer)
{
    struct handoff_offer *later =
        offer->feed && offer->again ? find_later_offer(inbox, offer) : NULL;
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
        TAILQ_REMOVE(&inbox->pollers, request, entry);
        request->queued = false;
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

/* Takes the oldest offer; where there is none, queues the request unless its time is over. */
static enum found take_offer(struct handoff_poller_request *request)
{
    struct handoff_inbox *inbox = &request->agent->inbox;
    enum found found = FOUND_NO_TIME;
    pthread_mutex_lock(&inbox->lock);
    inbox->polled_ms = base_wall_ms(&base_clock_system);
    struct handoff_offer *offer = request->gone ? NULL : TAILQ_FIRST(&inbox->offers);
    if (offer) {
        remove_offer(inbox, offer);
        request->offered_by = offer->lane; /* the offer belongs to its lane from here on */
        request->id = offer->id;
        found = FOUND_OFFER;
    } else if (!request->over) {
        TAILQ_INSERT_TAIL(&inbox->pollers, request, entry);
        request->queued = true;
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
    struct handoff_delivery *delivery = handoff_live_find(&lane->engine->live, &request->id, lane);
    if (!delivery || !handoff_pull_lease(delivery, request))
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

static void end(struct handoff_poller_request *request, bool gone)
{
    struct handoff_inbox *inbox = &request->agent->inbox;
    pthread_mutex_lock(&inbox->lock);
    inbox->polled_ms = base_wall_ms(&base_clock_system);
    bool queued = request->queued;
    if (queued)
        TAILQ_REMOVE(&inbox->pollers, request, entry);
    request->queued = false;
    request->over = true;
    request->gone |= gone;
    pthread_mutex_unlock(&inbox->lock);
    if (queued) /* else a handoff is on its way to it, or word that it has gone */
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
    request->queued = request->gone = false;
    request->over = request->lane->closing;
    request->timer = (struct base_timer){.fire = time_is_over};
    TAILQ_INSERT_TAIL(&request->lane->protocols.pollers, request,
                      open); /* it will come back by mail */
    base_timers_start(request->lane->timers, &request->timer,
                      handoff_lane_now_ms(request->lane) + wait_ms);
    look(request);
}
