/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers of workers.h. Work is done in the order in which it came. The queue is a list of what
 * the askers own, so it allocates nothing.
 *
 * Work leaves the queue once, under the lock: to a worker, or to the loop that gives it up. So of
 * the two only one ends it, and the loop ends both: a worker posts its mail there.
 */
#include "lib/base/workers.h"

#include <pthread.h>

#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/serving.h"

enum {
    WORKERS_MAGIC = 0x776f726b,
    THREADS_MAX = 8,
};

/* An arena that is to be freed; in itself. */
struct dropped_arena {
    struct base_arena arena;
    SLIST_ENTRY(dropped_arena) entry;
};

struct base_workers {
    unsigned magic;
    size_t most, most_bytes;
    pthread_t threads[THREADS_MAX];
    size_t nthreads;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    /* lock: */
    TAILQ_HEAD(base_work_list, base_work) waiting;
    size_t nwaiting, waiting_bytes;
    SLIST_HEAD(dropped_arenas, dropped_arena) dropped;
    bool stopping;
};

/* ---- on a worker ----------------------------------------------------------------------------- */

static void dequeue_work(struct base_workers *workers, struct base_work *work)
{
    TAILQ_REMOVE(&workers->waiting, work, entry);
    workers->nwaiting--;
    workers->waiting_bytes -= work->bytes;
    work->queued = false;
}

/* Frees one, with the lock released meanwhile. False: there is none. */
static bool free_dropped(struct base_workers *workers)
{
    struct dropped_arena *dropped = SLIST_FIRST(&workers->dropped);
    if (!dropped)
        return false;
    SLIST_REMOVE_HEAD(&workers->dropped, entry);
    struct base_arena arena = dropped->arena; /* it goes with the arena */
    pthread_mutex_unlock(&workers->lock);
    base_arena_free(&arena);
    pthread_mutex_lock(&workers->lock);
    return true;
}

/* NULL: the workers close. Arenas come first: while work always waits, those of what was done would
 * pile up. */
static struct base_work *take_work(struct base_workers *workers)
{
    struct base_work *work;
    pthread_mutex_lock(&workers->lock);
    while (free_dropped(workers) ||
           (!(work = TAILQ_FIRST(&workers->waiting)) && !workers->stopping)) {
        if (TAILQ_EMPTY(&workers->waiting) && SLIST_EMPTY(&workers->dropped) && !workers->stopping)
            pthread_cond_wait(&workers->filled, &workers->lock);
    }
    if (work)
        dequeue_work(workers, work);
    pthread_mutex_unlock(&workers->lock);
    return work;
}

static void work_ended(struct base_mail *mail)
{
    base_op_end(&BASE_CONTAINER_OF(mail, struct base_work, mail)->op);
}

static void *worker_main(void *argument)
{
    struct base_workers *workers = argument;
    struct base_work *work;
    (void)pthread_setname_np(pthread_self(), "worker");
    base_thread_gives_way();
    while ((work = take_work(workers))) {
        work->run(work);
        work->mail.deliver = work_ended;
        base_loop_post(work->op.loop, &work->mail);
    }
    return NULL;
}

/* ---- on the loop ----------------------------------------------------------------------------- */

/* What runs already ends by its mail. */
static void give_up_work(struct base_op *op)
{
    struct base_work *work = BASE_CONTAINER_OF(op, struct base_work, op);
    struct base_workers *workers = work->workers;
    pthread_mutex_lock(&workers->lock);
    const bool was_queued = work->queued;
    if (was_queued)
        dequeue_work(workers, work);
    pthread_mutex_unlock(&workers->lock);
    if (was_queued)
        base_op_end(op);
}

static const struct base_op_kind work_kind = {.name = "work", .give_up = give_up_work};

/* With the lock. */
static bool may_wait(const struct base_workers *workers, const struct base_work *work)
{
    return workers->nwaiting == 0 ||
           (workers->nwaiting < workers->most && work->bytes <= workers->most_bytes &&
            workers->waiting_bytes <= workers->most_bytes - work->bytes);
}

bool base_workers_submit(struct base_workers *workers, struct base_work *work,
                         struct base_loop *loop, int64_t deadline_ms,
                         void (*run)(struct base_work *work), void (*done)(struct base_op *op))
{
    BASE_CHECK_MAGIC(workers, WORKERS_MAGIC);
    pthread_mutex_lock(&workers->lock);
    const bool has_room = may_wait(workers, work);
    if (has_room) { /* begun under the lock: a worker may run it as soon as it is in the list */
        base_op_begin(&work->op, &work_kind, loop, deadline_ms, done);
        work->run = run;
        work->workers = workers;
        work->queued = true;
        TAILQ_INSERT_TAIL(&workers->waiting, work, entry);
        workers->nwaiting++;
        workers->waiting_bytes += work->bytes;
    }
    pthread_mutex_unlock(&workers->lock);
    if (has_room)
        pthread_cond_signal(&workers->filled);
    return has_room;
}

/* ---- arenas ---------------------------------------------------------------------------------- */

void base_workers_free_arena(struct base_workers *workers, struct base_arena *arena)
{
    BASE_CHECK_MAGIC(workers, WORKERS_MAGIC);
    struct dropped_arena *dropped = base_arena_alloc(arena, sizeof *dropped);
    if (!dropped) {
        base_arena_free(arena);
        return;
    }
    dropped->arena = *arena;
    *arena = (struct base_arena){0};
    pthread_mutex_lock(&workers->lock);
    SLIST_INSERT_HEAD(&workers->dropped, dropped, entry);
    pthread_mutex_unlock(&workers->lock);
    pthread_cond_signal(&workers->filled);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static enum handoff_code start_workers(struct base_workers *workers, size_t threads,
                                       struct handoff_error *error)
{
    BASE_CHECK(threads >= 1 && threads <= THREADS_MAX);
    for (; workers->nthreads < threads; workers->nthreads++) {
        if (pthread_create(&workers->threads[workers->nthreads], NULL, worker_main, workers) != 0)
            return handoff_error_set(error, HANDOFF_ERR_OUT_OF_MEMORY,
                                     "cannot start the threads that assemble large handoffs; raise "
                                     "the process limit",
                                     NULL, NULL);
    }
    return HANDOFF_OK;
}

enum handoff_code base_workers_open(struct base_workers **workers, size_t threads, size_t most,
                                    size_t most_bytes, struct handoff_error *error)
{
    *workers = NULL;
    struct base_workers *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->magic = WORKERS_MAGIC;
    made->most = most;
    made->most_bytes = most_bytes;
    TAILQ_INIT(&made->waiting);
    SLIST_INIT(&made->dropped);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->filled, NULL);
    enum handoff_code code = start_workers(made, threads, error);
    if (code != HANDOFF_OK)
        base_workers_close(&made);
    *workers = made;
    return code;
}

void base_workers_close(struct base_workers **workers)
{
    struct base_workers *dying = *workers;
    *workers = NULL;
    if (!dying)
        return;
    BASE_CHECK_MAGIC(dying, WORKERS_MAGIC);
    BASE_CHECK(TAILQ_EMPTY(&dying->waiting));
    pthread_mutex_lock(&dying->lock);
    dying->stopping = true;
    pthread_mutex_unlock(&dying->lock);
    pthread_cond_broadcast(&dying->filled);
    while (dying->nthreads > 0)
        pthread_join(dying->threads[--dying->nthreads], NULL);
    pthread_cond_destroy(&dying->filled);
    pthread_mutex_destroy(&dying->lock);
    dying->magic = 0;
    base_free(dying);
}
