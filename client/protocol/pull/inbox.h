/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - pull delivery, for agents that run no server.
 *
 * An inbox belongs to an agent. Handoffs that are ready for it wait there as offers; pollers that
 * find none wait there for the next. First come, first served, on both sides, but that a
 * publication which is offered again goes before later ones of its channel. A poller that is given
 * a handoff has leased it: it acknowledges by the API, or asks for more time, or the lease runs out
 * and the handoff is offered again as a failed attempt.
 *
 * An offer's handoff and a poller may live on different lanes. The inbox only pairs them, under its
 * lock; what comes of a pair happens on the handoff's lane, and the poller is told by mail. So an
 * idle poller costs one small struct and no thread, and waking one costs one mail.
 *
 * A poller that follows (streams.h) polls again after each handoff. While it holds as many leases
 * as it may, its request waits for one of them to be over, and not for an offer.
 */
#ifndef HANDOFF_PROTOCOL_PULL_INBOX_H
#define HANDOFF_PROTOCOL_PULL_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "client/handoff.h"
#include "client/protocol/protocol.h"
#include "client/protocol/pull/streams.h"
#include "lib/base/mailbox.h"
#include "lib/base/span.h"
#include "lib/base/timers.h"
#include "lib/base/uuid.h"

struct handoff_lane;
struct handoff_agent;
struct handoff_feed;

/* Embedded in a handoff. */
struct handoff_offer {
    TAILQ_ENTRY(handoff_offer) entry; /* lock of the inbox */
    struct handoff_lane *lane;
    struct base_uuid id;
    const struct handoff_feed *feed; /* of a publication; NULL: of none */
    int64_t seq;                     /* by which the deliveries of one feed follow each other */
    bool again;                      /* later ones of its feed may have been offered already */
    bool returned;                   /* its last lease reached nobody: it keeps its place */
    bool dormant;                    /* its handoff is a row: it is in a struct handoff_dormant */
    bool queued;                     /* lock of the inbox */
    uint64_t place;                  /* lock of the inbox: grows from the first to the last */
};

/* Embedded in its owner, who keeps it until `told`. */
struct handoff_poller_request {
    struct base_mail mail;     /* the inbox's */
    struct handoff_lane *lane; /* of the caller; `told` is called there */
    struct handoff_agent *agent;
    struct handoff_stream_holder *holder; /* of one that follows; NULL: it polls once */
    /* With a handoff, or without one when the time is over or it was withdrawn. */
    void (*told)(struct handoff_poller_request *request);

    /* answers; envelope is malloc'ed (base_malloc) and the owner's, NULL where there is none */
    char *envelope;
    size_t envelope_size;
    enum handoff_rendering rendering; /* of the envelope: as the agent reads it */
    const char
        *chain[HANDOFF_CHAIN_HEADERS]; /* values of headers (delivery.h), behind it; or NULL */
    struct base_uuid id;
    uint32_t attempt;
    int64_t lease_ms;

    /* the inbox's */
    TAILQ_ENTRY(handoff_poller_request) entry; /* lock of the inbox */
    TAILQ_ENTRY(handoff_poller_request) open;  /* of the caller's lane, until `told` */
    /* lock of the inbox; blocked: it waits for a lease to be over; gone: it was withdrawn */
    bool queued, blocked, over, gone;
    struct base_timer timer; /* of the caller's lane */
    struct handoff_lane *offered_by;
};

struct handoff_inbox {
    pthread_mutex_t lock;
    /* oldest first; one of the two is empty */
    TAILQ_HEAD(handoff_offer_list, handoff_offer) offers;
    TAILQ_HEAD(handoff_poller_list, handoff_poller_request) pollers;
    struct handoff_stream_list streams;
    unsigned followers; /* with a connection */
    size_t waiting;     /* offers */
    uint64_t places;    /* that were given to offers */
    int64_t polled_ms;  /* Unix time: when a poller was last there; before the first, since when the
                          agent has been known */
};

void handoff_inbox_init(struct handoff_inbox *inbox);
void handoff_inbox_free(struct handoff_inbox *inbox); /* both lists are empty */

/* How many handoffs wait in it, and when a poller or follower was last there; any thread. */
void handoff_inbox_stats(struct handoff_inbox *inbox, size_t *waiting, int64_t *polled_ms);

/* On the request's lane. Waits up to wait_ms for a handoff. `told` is never called from here. */
void handoff_inbox_poll(struct handoff_poller_request *request, int64_t wait_ms);
/* On the request's lane: it will be told soon. A handoff that was leased to it already may still
   come; then its caller gives it back (HANDOFF_WORD_RETURN). */
void handoff_inbox_withdraw(struct handoff_poller_request *request);
/* Any thread: it was withdrawn, and is given nothing any more. */
bool handoff_inbox_is_gone(struct handoff_poller_request *request);

/* ---- for streams.c ----------------------------------------------------------------------------
 */

/* Under the lock: it is taken out, and gone. */
void handoff_inbox_remove_request(struct handoff_poller_request *request);
/* Under the lock: the request of the holder that waits for room, which it no longer does; NULL:
   none does. */
struct handoff_poller_request *handoff_inbox_take_blocked(struct handoff_stream_holder *holder);
/* Under the lock: one follower less. */
void handoff_inbox_note_leaving(struct handoff_inbox *inbox);
/* Any thread: there may be room now for one that waited for it. */
void handoff_inbox_look_again(struct handoff_poller_request *request);

/* ---- the other side: delivery, on the offer's lane ------------------------------------------- */

/* The poller that has waited longest and is taken out of the queue, or NULL; then the offer waits.
 */
struct handoff_poller_request *handoff_inbox_offer(struct handoff_inbox *inbox,
                                                   struct handoff_offer *offer);
/* Waits in the place of another, which waits no more. false: that does not wait, or a poller has
   just taken it. */
bool handoff_inbox_replace_offer(struct handoff_inbox *inbox, struct handoff_offer *from,
                                 struct handoff_offer *to, bool dormant);
bool handoff_inbox_has_offer(struct handoff_inbox *inbox, const struct handoff_offer *offer);
/* It waits, and `count` others or more go before it; those that went out of turn count as well. */
bool handoff_inbox_is_behind(struct handoff_inbox *inbox, const struct handoff_offer *offer,
                             unsigned count);
/* The dormant ones of this lane that are not behind so many, the oldest first: how many were found.
   On that lane. */
size_t handoff_inbox_next_dormant(struct handoff_inbox *inbox, const struct handoff_lane *lane,
                                  unsigned count, struct handoff_offer **found, size_t room);
/* Harmless on one that does not wait. */
void handoff_inbox_take_back(struct handoff_inbox *inbox, struct handoff_offer *offer);
/* The handoff in `id` and `attempt` is given to it, by its stream where it follows (else NULL).
   false: it is gone. */
bool handoff_inbox_give(struct handoff_poller_request *request, struct handoff_stream **stream);
/* Tells a poller on its lane. */
void handoff_inbox_tell(struct handoff_poller_request *request);

#endif
