/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.h - copying the WAL into the database beside the writer.
 *
 * A checkpoint of 16 MiB takes tens of milliseconds, and callers that wait for a commit would wait
 * for it too. So a thread with its own connection copies while the writer goes on. But SQLite
 * begins the WAL anew only when all of it was copied, and meanwhile the writer has added to it. So
 * the thread copies twice, the second time only what came during the first, and then it is the
 * writer's turn to copy the little that came since, between two commits. A writer that is far ahead
 * of the thread waits for it: the WAL stays bounded, whatever the disk does.
 *
 *     if (the WAL is long && handoff_checkpoint_prepared(checkpoint, pages, bodies, far_too_long))
 *         copy the rest
 *
 * SQLite before 3.51.3 loses commits when a checkpoint begins just as the writer begins anew a WAL
 * that was copied whole (https://sqlite.org/wal.html, "The WAL-Reset Bug"). So the thread begins
 * only while something is in the WAL that was not copied, which keeps the writer from beginning it
 * anew: the first time that is the commit after which it is asked, and the second time it goes by
 * the pages that the writer has told since.
 *
 * A copy is synced when all of the WAL was copied, and only then. Should that sync fail, what was
 * copied before may not be on the disk, and it is not tried again: SQLite knows how far it came,
 * and Linux forgets what it could not write. The WAL has all of it. So from then on nothing is
 * copied, the WAL is not begun anew but grows, and the next process, which starts at its beginning,
 * copies it whole.
 *
 * The thread is started by the first checkpoint; most stores of a test or a command never have one.
 */
#ifndef HANDOFF_STORE_SQLITE_CHECKPOINT_H
#define HANDOFF_STORE_SQLITE_CHECKPOINT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct handoff_db;

struct handoff_checkpoint {
    /* never change after initializing; lent */
    const char *database, *vfs;

    /* the writer thread's */
    bool started;
    pthread_t thread;

    /* lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum {
        HANDOFF_CHECKPOINT_IDLE,
        HANDOFF_CHECKPOINT_ASKED, /* the thread copies, or will */
        HANDOFF_CHECKPOINT_PREPARED,
    } state;
    int64_t bodies; /* the file of bodies that is to be synced before; 0: none */
    int pages;      /* in the WAL, as the writer told last */
    bool sync_failed;
    bool stopping;
};

void handoff_checkpoint_init(struct handoff_checkpoint *checkpoint, const char *database,
                             const char *vfs);

/* Asks the thread, or hears from it. true: it has copied most, once, or there is no thread to be
   had; the caller copies what is left. Writer thread, after a commit. pages, bodies: see above.
   wait: until it is true. */
bool handoff_checkpoint_prepared(struct handoff_checkpoint *checkpoint, int pages, int64_t bodies,
                                 bool wait);

/* Copies from the WAL what no reader is looking at, without waiting. Gives SQLite's result,
   and the pages that were in the WAL when it began, unless pages is NULL. */
int handoff_checkpoint_copy(struct handoff_checkpoint *checkpoint, struct handoff_db *db,
                            int *pages);

/* A sync failed: from now on the WAL grows. */
bool handoff_checkpoint_sync_failed(struct handoff_checkpoint *checkpoint);

/* Before a connection that may be the last is closed, which is a checkpoint unless a sync failed.
 */
void handoff_checkpoint_before_close(struct handoff_checkpoint *checkpoint, struct handoff_db *db);

/* Waits for the thread's end. */
void handoff_checkpoint_stop(struct handoff_checkpoint *checkpoint);

#endif
