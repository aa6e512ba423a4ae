/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_many.h - many parked handoffs sent again, at a bounded rate.
 *
 * A run belongs to the loop on which it was asked for and is driven by a timer there: at each tick
 * one handoff of its page is decided about, so that an agent that has just come back is not buried
 * under all that it missed. It goes through those that were parked when it began, oldest first,
 * once each; what is parked anew meanwhile is not its business. Where as many handoffs are under
 * way as may be, it waits. Nothing of a run is stored: when the process drains or the loop ends,
 * the run is over ("stopped") and what it had not reached is parked as before.
 *
 * Any thread may look at a run and stop it; its counts and its state are under the lock of the
 * table.
 */
#ifndef HANDOFF_CALLS_REPLAY_MANY_H
#define HANDOFF_CALLS_REPLAY_MANY_H

#include <pthread.h>
#include <sys/queue.h>

#include "client/handoff.h"

struct handoff_replay_run;

struct handoff_replays {
    pthread_mutex_t lock;
    TAILQ_HEAD(handoff_replay_runs, handoff_replay_run) runs; /* oldest first */
    unsigned count;
};

void handoff_replays_init(struct handoff_replays *replays);
/* All loops are closed. */
void handoff_replays_free(struct handoff_replays *replays);
/* The loop ends, and with it the runs on it. On its thread. */
void handoff_replays_end(struct handoff_loop *loop);

#endif
