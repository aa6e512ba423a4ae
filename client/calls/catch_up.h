/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catch_up.h - delivers to a new subscriber what was published before.
 *
 * In the order of publication and a few at a time, each step in one commit with how far it has come
 * (store/subscriptions.h). While so many deliveries are on their way to the agent, the next step
 * waits: a subscriber that is slow, or not there, takes memory for those alone. New publications
 * are left to the catching up until it has come to the last one, so the agent sees them in order.
 *
 * Each runs on one loop and ends with it; the next process continues.
 */
#ifndef HANDOFF_CALLS_CATCH_UP_H
#define HANDOFF_CALLS_CATCH_UP_H

#include <pthread.h>
#include <sys/queue.h>

#include "client/handoff.h"
#include "client/store/subscriptions.h"

struct handoff_catch_up;

struct handoff_catch_ups {
    pthread_mutex_t lock;
    TAILQ_HEAD(handoff_catch_up_list, handoff_catch_up) list;
};

void handoff_catch_ups_init(struct handoff_catch_ups *all);
/* All loops are closed. */
void handoff_catch_ups_free(struct handoff_catch_ups *all);

/* Loads the subscriptions, and continues what earlier processes left, on a loop that does not run
   yet. */
enum handoff_code handoff_subscriptions_resume(struct handoff_loop *loop,
                                               struct handoff_error *error) HANDOFF_MUST_CHECK;
/* The loop ends, and with it what runs on it. On its thread. */
void handoff_catch_ups_end(struct handoff_loop *loop);

/* Begins, for the change of that number (channels.h). Its texts are copied. false: out of memory;
   then the next start begins it. On the loop's thread. */
bool handoff_catch_up_begin(struct handoff_loop *loop,
                            const struct handoff_stored_subscription *row, uint64_t number);

#endif
