/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channels.h - the channels that envelopes can be published to, and who receives them.
 *
 * Two sources say who does: the configuration, a snapshot that a reload replaces as a whole, and
 * subscriptions, which are decisions at run time (store/subscriptions.h) and win. A lookup copies
 * what both come to, so nothing is held beyond a call, and a publication goes to those that were
 * receivers when it was made.
 *
 * A subscriber that catches up is left out of new publications: it comes to them in their order.
 * When it has come to the last one it is included again, and then looks once more for what was
 * being published meanwhile; the tickets of those tell it when it may (sweep).
 *
 * Any thread.
 */
#ifndef HANDOFF_CHANNELS_CHANNELS_H
#define HANDOFF_CHANNELS_CHANNELS_H

#include <pthread.h>
#include <sys/queue.h>

#include "client/channels/feeds.h"
#include "client/channels/subscribed.h"
#include "client/handoff.h"
#include "client/store/subscriptions.h"
#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/span.h"

struct handoff_channel_set;

/* Of a publication, from before its receivers are looked up until its commit. */
struct handoff_channel_ticket {
    TAILQ_ENTRY(handoff_channel_ticket) entry; /* lock */
    uint64_t number;                           /* 0: it is not in the list */
    const char *channel;                       /* the publisher's; lent while it is in the list */
};

struct handoff_channels {
    pthread_rwlock_t lock;           /* held to look something up, or to change a pointer */
    struct handoff_channel_set *set; /* NULL: there are none */
    struct handoff_subscribed subscribed;
    TAILQ_HEAD(handoff_channel_tickets, handoff_channel_ticket) tickets; /* the oldest first */
    uint64_t last_ticket, last_change;
    int64_t last_change_ms;     /* no two changes have the same time */
    struct handoff_feeds feeds; /* has its own lock */
};

void handoff_channels_init(struct handoff_channels *channels);
void handoff_channels_free(struct handoff_channels *channels);

/* A copy of what the configuration says, to be applied. */
enum handoff_code handoff_channel_set_new(struct handoff_channel_set **set,
                                          const struct handoff_channel_options *options,
                                          size_t count,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;
/* NULL in it is fine. */
void handoff_channel_set_free(struct handoff_channel_set **set);
/* Takes the set over. Subscriptions stay. */
void handoff_channels_put_in_force(struct handoff_channels *channels,
                                   struct handoff_channel_set **set);

/* ---- looking up ------------------------------------------------------------------------------ */

struct handoff_channel_receiver {
    const char *name;
    bool configured;  /* in the configuration of the channel */
    bool catching_up; /* not to be published to: it comes to that by itself */
    int64_t dropped;  /* publications that retention took before it had come to them */
};

/* A copy. Those of the configuration are first, in its order; who left is not there. */
struct handoff_channel {
    const char *name;
    uint64_t token_budget; /* 0: by its receivers */
    bool keeps;            /* publications, for later subscribers */
    struct handoff_channel_receiver *receivers;
    size_t nreceivers;
};

/* A copy in the arena. unknown_channel, out_of_memory. */
enum handoff_code handoff_channels_find(struct handoff_channels *channels, struct base_span name,
                                        struct base_arena *arena, struct handoff_channel *channel,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Copies of all: those of the configuration in its order, then those that have subscribers only. */
enum handoff_code handoff_channels_copy(struct handoff_channels *channels, struct base_arena *arena,
                                        struct handoff_channel **list, size_t *count,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* What a channel may keep, by its configuration. false: none is in force yet. */
bool handoff_channels_shelf_limits(struct handoff_channels *channels, struct base_span name,
                                   struct handoff_store_shelf_limits *limits);

/* ---- publications in progress -----------------------------------------------------------------
 */

void handoff_channels_enter(struct handoff_channels *channels,
                            struct handoff_channel_ticket *ticket, const char *channel);
/* Harmless on a ticket that is not in the list. */
void handoff_channels_leave(struct handoff_channels *channels,
                            struct handoff_channel_ticket *ticket);
/* The number of the last ticket; and whether all of a channel up to a number have left. */
uint64_t handoff_channels_last_ticket(struct handoff_channels *channels);
bool handoff_channels_have_left(struct handoff_channels *channels, struct base_span channel,
                                uint64_t number);

/* ---- subscriptions ----------------------------------------------------------------------------
 */

/* One change of a subscription at a time: from here to its end, another one is a conflict. Adds an
   entry without a state where there is none. *configured: the receiver is one of the configuration.
   conflict; out_of_memory. */
enum handoff_code handoff_channels_begin_change(struct handoff_channels *channels,
                                                struct base_span channel, struct base_span receiver,
                                                bool *configured,
                                                enum handoff_subscription_state *was,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;
/* When a change is decided: now, or a little later, so that no other one has the same time. */
int64_t handoff_channels_time_of_change(struct handoff_channels *channels, int64_t now_ms);
/* Retention took so many publications before a subscriber had come to them, since the decision of
   that time. For a decision that failed, this changes nothing. */
void handoff_channels_note_dropped(struct handoff_channels *channels, struct base_span channel,
                                   struct base_span receiver, int64_t at_ms, int64_t count);
/* How many; 0 where there is no subscription. */
int64_t handoff_channels_dropped(struct handoff_channels *channels, struct base_span channel,
                                 struct base_span receiver);

/* The change, decided at that time, is on disk. The number tells this change from others. */
uint64_t handoff_channels_end_change(struct handoff_channels *channels, struct base_span channel,
                                     struct base_span receiver, enum handoff_subscription_state to,
                                     int64_t at_ms);
/* The change was given up: the subscription is what it was, and a run that catches up goes on. */
void handoff_channels_give_up_change(struct handoff_channels *channels, struct base_span channel,
                                     struct base_span receiver);

/* A publication got a number that is smaller than some before it, since its envelope was assembled
   earlier: those that catch up may have passed it. */
void handoff_channels_note_behind(struct handoff_channels *channels, struct base_span channel,
                                  int64_t seq);
/* The smallest of these numbers since the last change of the subscription; 0: there was none. */
int64_t handoff_channels_behind(struct handoff_channels *channels, struct base_span channel,
                                struct base_span receiver);

/* Of a subscription that is catching up since the change of that number: it is included in
   publications from now on (INCLUDE), or has caught up (DONE). false: it was changed meanwhile. */
enum handoff_sweep { HANDOFF_SWEEP_LOOK, HANDOFF_SWEEP_INCLUDE, HANDOFF_SWEEP_DONE };
bool handoff_channels_sweep(struct handoff_channels *channels, struct base_span channel,
                            struct base_span receiver, uint64_t number, enum handoff_sweep sweep);

#endif
