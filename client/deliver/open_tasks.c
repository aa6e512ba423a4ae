/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks that no agent works on, see open_tasks.h. A table of chains and a skew heap; both link the
 * entries themselves, so nothing is allocated or freed under the lock. Any thread.
 */
#include "client/deliver/open_tasks.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/queue.h>

#include "client/model/model.h"
#include "lib/base/check.h"
#include "lib/base/memory.h"
#include "lib/base/sha256.h"

enum { OPEN_TASKS_MAGIC = 0x6f74736b, CHAINS = 65536, KEY_BYTES = 16 };

struct open_task {
    uint8_t key[KEY_BYTES];
    uint32_t busy;                           /* handoffs in flight or parked */
    int64_t acked_ms;                        /* last; 0: none yet */
    int64_t completed_ms;                    /* 0: it is open */
    bool waits;                              /* it is in the heap */
    struct open_task *parent, *left, *right; /* of the heap */
    LIST_ENTRY(open_task) chain;
    TAILQ_ENTRY(open_task) completed; /* if completed_ms is set, and it is not busy */
};

struct handoff_open_tasks {
    unsigned magic;
    pthread_mutex_t lock; /* of all that follows */
    LIST_HEAD(open_task_chain, open_task) chains[CHAINS];
    struct open_task *heap; /* the least acked_ms is the root */
    /* Nearly the oldest first: one that was completed while it was busy comes behind those that
       were completed until it no longer was. */
    TAILQ_HEAD(open_task_completed, open_task) completed;
};

/* ---- the heap -------------------------------------------------------------------------------- */

static struct open_task *merge_waiting(struct open_task *a, struct open_task *b,
                                       struct open_task *parent)
{
    struct open_task *root = NULL, **link = &root;
    while (a && b) {
        if (b->acked_ms < a->acked_ms) {
            struct open_task *older = b;
            b = a;
            a = older;
        }
        struct open_task *rest = a->right;
        a->right = a->left;
        a->parent = parent;
        *link = a;
        parent = a;
        link = &a->left;
        a = rest;
    }
    *link = a ? a : b;
    if (*link)
        (*link)->parent = parent;
    return root;
}

static void add_waiting(struct handoff_open_tasks *tasks, struct open_task *task)
{
    task->left = task->right = NULL;
    task->waits = true;
    tasks->heap = merge_waiting(tasks->heap, task, NULL);
}

static void remove_waiting(struct handoff_open_tasks *tasks, struct open_task *task)
{
    struct open_task *parent = task->parent;
    struct open_task *rest = merge_waiting(task->left, task->right, parent);
    task->waits = false;
    if (!parent)
        tasks->heap = rest;
    else if (parent->left == task)
        parent->left = rest;
    else
        parent->right = rest;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct open_task_chain *chain_of(struct handoff_open_tasks *tasks,
                                        const uint8_t key[KEY_BYTES])
{
    uint32_t bits;
    memcpy(&bits, key, sizeof bits);
    return &tasks->chains[bits % CHAINS];
}

static struct open_task *find_task(struct handoff_open_tasks *tasks, const uint8_t key[KEY_BYTES])
{
    struct open_task *task;
    LIST_FOREACH (task, chain_of(tasks, key), chain) {
        if (memcmp(task->key, key, KEY_BYTES) == 0)
            return task;
    }
    return NULL;
}

static void hash_task(struct base_span task_id, uint8_t key[KEY_BYTES])
{
    uint8_t digest[BASE_SHA256_BYTES];
    base_sha256(task_id.data, task_id.size, digest);
    memcpy(key, digest, KEY_BYTES);
}

/* Locks, and finds the task or enters `spare`, which is then NULL. NULL: neither is there. */
static struct open_task *lock_task(struct handoff_open_tasks *tasks, const uint8_t key[KEY_BYTES],
                                   struct open_task **spare)
{
    pthread_mutex_lock(&tasks->lock);
    struct open_task *task = find_task(tasks, key);
    if (!task && *spare) {
        task = *spare;
        *spare = NULL;
        memcpy(task->key, key, KEY_BYTES);
        LIST_INSERT_HEAD(chain_of(tasks, key), task, chain);
    }
    return task;
}

/* Before a change. One that is busy is in neither list. */
static void unplace_task(struct handoff_open_tasks *tasks, struct open_task *task)
{
    if (task->waits)
        remove_waiting(tasks, task);
    else if (task->busy == 0 && task->completed_ms > 0)
        TAILQ_REMOVE(&tasks->completed, task, completed);
}

/* Puts it where it belongs after a change. Returns it if there is nothing left to remember. */
static struct open_task *place_task(struct handoff_open_tasks *tasks, struct open_task *task)
{
    if (task->busy > 0)
        return NULL;
    if (task->completed_ms > 0) {
        TAILQ_INSERT_TAIL(&tasks->completed, task, completed);
        return NULL;
    }
    if (task->acked_ms > 0) {
        add_waiting(tasks, task);
        return NULL;
    }
    LIST_REMOVE(task, chain);
    return task;
}

/* ---- what happens ---------------------------------------------------------------------------- */

static bool is_busy(enum handoff_state state)
{
    return state != HANDOFF_STATE_NONE &&
           (handoff_state_is_live(state) || state == HANDOFF_STATE_PARKED);
}

static void count_move(struct open_task *task, enum handoff_state from, enum handoff_state to,
                       int64_t settled_ms)
{
    /* without memory, what it was before was not seen */
    if (is_busy(from) && !is_busy(to) && task->busy > 0)
        task->busy--;
    if (!is_busy(from) && is_busy(to))
        task->busy++;
    if (to == HANDOFF_STATE_ACKNOWLEDGED && settled_ms > task->acked_ms)
        task->acked_ms = settled_ms;
}

void handoff_open_tasks_moved(struct handoff_open_tasks *tasks, struct base_span task_id,
                              enum handoff_state from, enum handoff_state to, int64_t settled_ms)
{
    uint8_t key[KEY_BYTES];
    struct open_task *gone = NULL;
    BASE_CHECK_MAGIC(tasks, OPEN_TASKS_MAGIC);
    if (is_busy(from) == is_busy(to) && to != HANDOFF_STATE_ACKNOWLEDGED)
        return;
    hash_task(task_id, key);
    struct open_task *spare = base_calloc(1, sizeof *spare);
    struct open_task *task = lock_task(tasks, key, &spare);
    if (task) {
        unplace_task(tasks, task);
        count_move(task, from, to, settled_ms);
        gone = place_task(tasks, task);
    }
    pthread_mutex_unlock(&tasks->lock);
    base_free(spare);
    base_free(gone);
}

void handoff_open_tasks_completed(struct handoff_open_tasks *tasks, struct base_span task_id,
                                  int64_t completed_ms)
{
    uint8_t key[KEY_BYTES];
    BASE_CHECK_MAGIC(tasks, OPEN_TASKS_MAGIC);
    hash_task(task_id, key);
    struct open_task *spare = base_calloc(1, sizeof *spare);
    struct open_task *task = lock_task(tasks, key, &spare);
    if (task && task->completed_ms == 0) {
        unplace_task(tasks, task);
        task->completed_ms = completed_ms;
        (void)place_task(tasks, task);
    }
    pthread_mutex_unlock(&tasks->lock);
    base_free(spare);
}

/* ---- the oldest ------------------------------------------------------------------------------ */

/* One that retention has removed, or NULL. */
static struct open_task *take_removed(struct handoff_open_tasks *tasks, int64_t kept_ms)
{
    struct open_task *task = tasks->heap;
    if (task && task->acked_ms < kept_ms) {
        remove_waiting(tasks, task);
        LIST_REMOVE(task, chain);
        return task;
    }
    task = TAILQ_FIRST(&tasks->completed);
    if (!task || task->completed_ms >= kept_ms)
        return NULL;
    BASE_CHECK(task->busy == 0);
    TAILQ_REMOVE(&tasks->completed, task, completed);
    LIST_REMOVE(task, chain);
    return task;
}

int64_t handoff_open_tasks_oldest_ms(struct handoff_open_tasks *tasks, int64_t kept_ms)
{
    struct open_task *removed;
    int64_t oldest_ms;
    BASE_CHECK_MAGIC(tasks, OPEN_TASKS_MAGIC);
    do {
        pthread_mutex_lock(&tasks->lock);
        removed = take_removed(tasks, kept_ms);
        oldest_ms = tasks->heap ? tasks->heap->acked_ms : 0;
        pthread_mutex_unlock(&tasks->lock);
        base_free(removed);
    } while (removed);
    return oldest_ms;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

struct handoff_open_tasks *handoff_open_tasks_new(void)
{
    struct handoff_open_tasks *tasks = base_calloc(1, sizeof *tasks);
    if (!tasks)
        return NULL;
    tasks->magic = OPEN_TASKS_MAGIC;
    pthread_mutex_init(&tasks->lock, NULL);
    TAILQ_INIT(&tasks->completed);
    return tasks;
}

void handoff_open_tasks_free(struct handoff_open_tasks **tasks)
{
    struct open_task *task;
    if (!*tasks)
        return;
    for (size_t i = 0; i < CHAINS; i++) {
        while ((task = LIST_FIRST(&(*tasks)->chains[i]))) {
            LIST_REMOVE(task, chain);
            base_free(task);
        }
    }
    pthread_mutex_destroy(&(*tasks)->lock);
    (*tasks)->magic = 0;
    base_free(*tasks);
    *tasks = NULL;
}
