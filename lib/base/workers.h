/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.h - threads that compute what would keep a loop from serving others.
 *
 * Work is an op (op.h) that a loop hands over: `run` is called on a worker, `done` afterwards on
 * the loop. From the handing over until `done` what the work needs belongs to the worker. The
 * workers have a lower priority than the loops, so that on a busy machine small requests are
 * served first.
 *
 * The queue is bounded, in work and in bytes, because what waits in it holds memory; work beyond it
 * is refused, and the caller passes that on to its client. Work that is unwanted leaves the queue
 * at once; work that runs is not interrupted, but may look whether it is still wanted
 * (base_op_is_unwanted).
 *
 * Threads: submitting and cancelling on the loop of the work; opening and closing anywhere.
 */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include <stddef.h>
#include <sys/queue.h>

#include "lib/base/arena.h"
#include "lib/base/handoff_error.h"
#include "lib/base/op.h"

struct base_workers;

struct base_work {
    struct base_op op;
    void (*run)(struct base_work *work);
    size_t bytes; /* of memory that it holds while it waits, about; set before it is submitted */
    /* the workers' */
    struct base_workers *workers;
    struct base_mail mail;
    TAILQ_ENTRY(base_work) entry;
    bool queued; /* under the lock of the workers */
};

/* `most`, `most_bytes`: how many may wait beside those that run, and with how many bytes; one may
 * always wait alone. */
enum handoff_code base_workers_open(struct base_workers **workers, size_t threads, size_t most,
                                    size_t most_bytes,
                                    struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Nothing may be under way. Takes pointers to NULL. */
void base_workers_close(struct base_workers **workers);

/* False: as many wait as may, and nothing was begun. */
bool base_workers_submit(struct base_workers *workers, struct base_work *work,
                         struct base_loop *loop, int64_t deadline_ms,
                         void (*run)(struct base_work *work), void (*done)(struct base_op *op));

/* Frees a large arena on a worker, because returning its pages takes the kernel milliseconds;
 * nobody is told when. The struct is empty at once. Any thread. */
void base_workers_free_arena(struct base_workers *workers, struct base_arena *arena);

#endif
