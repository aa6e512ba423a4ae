/* SPDX-License-Identifier: Apache-2.0 */
/*
 * known_tasks.h - the names of all tasks, as 32 bits each: whether a task may be known is answered
 * from memory.
 *
 * Most handoffs begin a task, and have nothing to read then. A name whose bits are in the set may
 * be known; of a million tasks one unknown name in 4,000 looks known, and costs a read.
 *
 * The set is read from the store a step at a time after the start, and until then every task may be
 * known. Names that retention removed stay in it; once as many came as it had when it was read, it
 * is read anew. So it has at most about twice as many entries as the store has tasks: 8 to 16 bytes
 * for each.
 *
 * The writer thread changes it; any thread asks.
 */
#ifndef HANDOFF_STORE_SQLITE_KNOWN_TASKS_H
#define HANDOFF_STORE_SQLITE_KNOWN_TASKS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "client/store/sqlite/database.h"
#include "lib/base/span.h"

/* Open addressing; 0 is a free slot. At most half of the slots are used. */
struct handoff_task_set {
    uint32_t *slots; /* NULL: there are none */
    size_t room;     /* a power of two */
    size_t count;
};

struct handoff_known_tasks {
    pthread_mutex_t lock; /* of `set` and `answers`, for those that ask; the writer changes them
                             under it */
    struct handoff_task_set set;
    bool answers; /* all tasks of the store are in the set */

    /* the writer's */
    struct handoff_task_set next; /* that is being read, and takes what comes meanwhile */
    bool reading;
    char *after_task; /* what was read last, in the order of the index; NULL: nothing */
    size_t after_size;
    int64_t after_seq;
    size_t read; /* entries that the set had when it was read */
};

void handoff_known_tasks_init(struct handoff_known_tasks *known);
void handoff_known_tasks_free(struct handoff_known_tasks *known);

/* The writer: a task is named by an envelope that is about to be committed. */
void handoff_known_tasks_add(struct handoff_known_tasks *known, struct base_span task_id);

/* The writer, between commits: reads some, where a set is to be read. Tells whether there is more.
 */
bool handoff_known_tasks_step(struct handoff_known_tasks *known, struct handoff_db *db);

/* False: no envelope names it. */
bool handoff_known_tasks_may_have(struct handoff_known_tasks *known, struct base_span task_id);

#endif
