/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscriptions.h - who receives a channel by a decision at run time, whatever the configuration
 * says.
 *
 * A row is a decision about one agent and one channel: it is a receiver, or it left. A subscriber
 * may ask for what was published before; then its row is catching up, and has the number of the
 * last publication that was looked at. Each step of that is a unit (store.h): the deliveries, and
 * behind them the position that says so. A restart continues where the last unit ended.
 *
 * Writes are jobs of store.h: what they point to is lent until `done`. Reads wait for the disk.
 */
#ifndef HANDOFF_STORE_SUBSCRIPTIONS_H
#define HANDOFF_STORE_SUBSCRIPTIONS_H

#include "client/store/store.h"

/* Numbers of the column `state`: never changed. */
enum handoff_subscription_state {
    HANDOFF_SUBSCRIPTION_NONE, /* there is no row: the configuration decides */
    HANDOFF_SUBSCRIPTION_LEFT, /* of a receiver of the configuration */
    HANDOFF_SUBSCRIPTION_CURRENT,
    HANDOFF_SUBSCRIPTION_CATCHING_UP,
};

struct handoff_stored_subscription {
    struct base_span channel, receiver;
    enum handoff_subscription_state state;
    int64_t at_ms;    /* wall clock: when it was decided */
    int64_t from_ms;  /* of one that is catching up: nothing that was published before; 0: all */
    int64_t position; /* likewise: the publication up to which it has come; 0: none */
    int64_t newer;    /* likewise: publications from this number on were made after it began, and
                         count whatever their time; 0: the store sets it */
    int64_t dropped;  /* publications that retention took before it had come to them */
};

/* Replaces the row, or removes it (state NONE). Its `newer` is set. */
struct handoff_store_subscribe {
    struct handoff_store_job job;
    struct handoff_stored_subscription row;
    bool restores;   /* instead of the row of a decision that failed: it also counts what retention
                        took meanwhile */
    int64_t dropped; /* answer: what the row says now */
};

void handoff_store_subscribe(struct handoff_store *store, struct handoff_store_subscribe *put);

/* The end of a step. conflict, and nothing of its unit is stored: the row is not that of the
   decision any more, or not catching up. */
struct handoff_store_catch_up {
    struct handoff_store_job job;
    struct base_span channel, receiver;
    int64_t at_ms; /* of the row: the decision that the step belongs to */
    int64_t to;    /* the publication up to which it has come; never moves back */
    bool ends;     /* it has caught up */
};

void handoff_store_catch_up(struct handoff_store *store, struct handoff_store_catch_up *step);

/* ---- reading -------------------------------------------------------------------------------- */

/* The texts are lent for the call. */
enum handoff_code handoff_store_visit_subscriptions(
    struct handoff_store *store,
    void (*visit)(void *arg, const struct handoff_stored_subscription *row), void *arg,
    struct handoff_error *error) HANDOFF_MUST_CHECK;

struct handoff_stored_missed {
    int64_t seq;
    struct base_uuid id;
};

/* The first publications behind the position that the receiver was never sent, oldest first. Left
   out are its own, those that named their receivers, and those that retention or their channel let
   go. */
enum handoff_code handoff_store_list_missed(struct handoff_store *store,
                                            const struct handoff_stored_subscription *of,
                                            size_t limit, struct handoff_stored_missed *list,
                                            size_t *count,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
