/* SPDX-License-Identifier: Apache-2.0 */
/* store_internal.h - what the files of client/store share about a store. */
#ifndef HANDOFF_STORE_SQLITE_STORE_INTERNAL_H
#define HANDOFF_STORE_SQLITE_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "client/store/sqlite/body_files.h"
#include "client/store/sqlite/body_log.h"
#include "client/store/sqlite/checkpoint.h"
#include "client/store/sqlite/data_dir.h"
#include "client/store/sqlite/database.h"
#include "client/store/sqlite/displaced.h"
#include "client/store/sqlite/known_tasks.h"
#include "client/store/sqlite/retention_clock.h"
#include "client/store/store.h"

enum { HANDOFF_STORE_MAGIC = 0x73746f72u };

enum { HANDOFF_READER_THREADS = 2 };

struct handoff_reader_threads {
    pthread_t threads[HANDOFF_READER_THREADS]; /* of the thread that opens and closes the store */
    unsigned count;

    /* lock: */
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct base_mail *oldest, **last;
    bool stopping;
};

struct handoff_store {
    unsigned magic;

    /* never change after opening */
    struct handoff_store_options options;
    struct handoff_data_dir data_dir;
    struct handoff_store_files files;
    pthread_t writer_thread;

    /* handoff_store_follow's caller: there from the opening on, so that nothing can be in its way
     */
    struct base_mailbox follow_mailbox;

    /* the writer thread's */
    struct handoff_db writer;
    struct handoff_body_log body_log;
    struct handoff_checkpoint checkpoint;
    struct handoff_damaged_files damaged_files; /* each was told once */
    struct handoff_retention_clock retention_clock;
    int64_t retention_due_ns; /* monotonic */
    int64_t measure_due_ns;   /* likewise */
    int64_t files_due_ns;     /* likewise: when to look for all of them */
    int64_t disk_due_ns;      /* likewise: when to ask how much room is left */
    int64_t probe_due_ns;     /* likewise: when to write something, since writes fail */
    int64_t hold_until_ns;    /* likewise: lazy jobs wait for company until then */
    int64_t gather_until_ns;  /* likewise: all do; 0: none has to */
    int64_t oldest_key_from;  /* see retained_size.h */
    int wal_pages;            /* in the WAL after the last commit */
    unsigned group_awaited;   /* jobs of the group at hand that are not lazy */
    unsigned group_bodies;    /* jobs of the group at hand that bring an envelope */
    unsigned unindexed;       /* envelopes since the index of tasks was looked at, or more */
    unsigned unretained;      /* envelopes since the last step of retention, or more */
    bool unmeasured;          /* something was written since */
    bool retention_more;      /* the last step removed something: go on */
    bool tasks_more;          /* the set of known tasks is being read */
    bool told_of_sync;        /* that a sync of the database failed */

    /* queue_lock: */
    pthread_mutex_t queue_lock;
    pthread_cond_t queue_filled;
    struct base_mail *oldest, **last;
    unsigned awaited;  /* of these, not lazy */
    bool writer_waits; /* for any job */
    bool writer_holds; /* lazy ones back, until one comes that is not */
    bool stopping;
    const struct handoff_db_follower *follower; /* of the next group on */

    struct handoff_reader_threads readers;  /* has its own lock */
    struct handoff_known_tasks known_tasks; /* likewise */

    /* readers_lock: */
    pthread_mutex_t readers_lock;
    struct handoff_db *idle_readers;
    unsigned idle_count;

    /* counted by the writer (waiting: by everybody), read by anybody */
    atomic_uint_fast64_t commits, commits_failed, jobs, jobs_failed, waiting;
    atomic_uint_fast64_t checkpoints, checkpoints_failed;
    atomic_uint_fast64_t removed_for_age, removed_for_size, bodies_removed;
    atomic_uint_fast64_t orphans, orphans_bytes;
    _Atomic(int64_t) bytes; /* measured by the writer, like those that follow */
    _Atomic(int64_t) kept_bodies, kept_rows;
    _Atomic(int64_t) oldest_body_ms, oldest_key_ms, oldest_row_ms;
    _Atomic(int64_t) removed_through_ms;
    _Atomic(int64_t) retention_ahead_ms;
    _Atomic(int64_t) disk_free_bytes, disk_bytes;
    _Atomic(const char *) displaced; /* path of a file of the store; set once, by the writer */
    atomic_int failing;              /* enum handoff_code: why its last write failed */
};

/* writer.c */
void *handoff_store_writer_main(void *argument); /* the store */
/* The writer's connection: pragmas, and the hook that counts WAL pages. */
enum handoff_code handoff_store_writer_prepare(struct handoff_store *store,
                                               struct handoff_error *error) HANDOFF_MUST_CHECK;

/* store.c: measures what is kept, for handoff_store_kept. */
enum handoff_code handoff_store_measure_kept(struct handoff_store *store,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

/* store.c: bytes in use, of the database and of bodies beside it; and of the files of bodies. */
enum handoff_code handoff_store_measure(struct handoff_db *db, int64_t *used, int64_t *written,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* reader_threads.c: init comes first and stop last, whether or not start succeeded between them. */
void handoff_reader_threads_init(struct handoff_reader_threads *readers);
enum handoff_code handoff_reader_threads_start(struct handoff_reader_threads *readers,
                                               struct handoff_error *error) HANDOFF_MUST_CHECK;
/* What was submitted is done first. */
void handoff_reader_threads_stop(struct handoff_reader_threads *readers);

/* readers.c */
void handoff_store_readers_close(struct handoff_store *store);

#endif
