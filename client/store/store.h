/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - what must survive the process.
 *
 * A store is a directory with one SQLite database in WAL mode, and beside it files with the bodies
 * of envelopes that were accepted under load (bodies.h). Nothing outside client/store and
 * client/spine knows that.
 *
 *     struct handoff_store *store;
 *     struct handoff_store_options options = {.path = "/var/lib/handoff-exporter"};
 *     if (handoff_store_open(&store, &options, &error) != HANDOFF_OK)
 *         ...                                     error says what is wrong and what to do about it
 *
 *     put->job.mailbox = &loop->mailbox;          where the completion is delivered
 *     put->job.done = accepted;                   runs on that loop, after the commit
 *     put->id = ...; put->body = ...;
 *     handoff_store_put_envelope(store, put);     returns at once
 *
 *     static void accepted(struct handoff_store_job *job)
 *     {
 *         if (job->error.code == HANDOFF_OK)      it is on the disk: now it may be acknowledged
 *
 * Writing: one thread writes. Jobs that arrive while it commits form the next group, and a group
 * shares one transaction and one fsync. A job's completion is posted after its commit, never
 * before. A job that fails fails alone, or with those of its unit; a commit that fails (disk full,
 * I/O error) fails its whole group, and nothing that was acknowledged before is touched. A job that
 * failed was not acknowledged, which is not a proof that it left no trace: when an fsync fails and
 * the power goes, it may be found again. So every put can be repeated with the same id and the same
 * bytes.
 *
 * Reading: through read-only connections that never wait for the writer, but may wait for the disk.
 * So a thread that serves others (serving.h) submits its reads to the store's reader threads, and
 * calls none of the functions that read. A read sees everything whose completion was posted before
 * it began.
 *
 * Memory: what a job points to is lent until its completion. Results are copied into an arena of
 * the caller's.
 */
#ifndef HANDOFF_STORE_STORE_H
#define HANDOFF_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/handoff.h"
#include "lib/base/arena.h"
#include "lib/base/clock.h"
#include "lib/base/mailbox.h"
#include "lib/base/sha256.h"
#include "lib/base/span.h"
#include "lib/base/uuid.h"

struct handoff_store;
struct handoff_db; /* a connection, see client/store/sqlite/database.h */

/* ---- opening ------------------------------------------------------------------------------- */

enum handoff_durability {
    HANDOFF_DURABILITY_FULL, /* a commit is on the disk before it is acknowledged */
    HANDOFF_DURABILITY_NONE, /* a commit survives kill -9 of the process, but not a power failure;
                                the database stays consistent either way, and a body that the
                                power took is noticed like any other damage */
};

/* One commit, for the observer. */
struct handoff_store_commit {
    int64_t duration_ns;    /* BEGIN to the end of COMMIT, with the fsync */
    unsigned jobs;          /* in the group */
    enum handoff_code code; /* HANDOFF_OK, or why it failed, for all of the group or for a part */
    bool turned;            /* it failed and the one before had not, or the reverse */
    bool probe;             /* our own, to see whether writes still fail */
};

/* Of the publications that a channel keeps. */
struct handoff_store_shelf_limits {
    int64_t age_ms; /* since the last delivery was over; 0: the channel keeps none */
    int64_t bytes;
};

struct handoff_store_options {
    const char *path; /* directory; made if it is not there */
    enum handoff_durability durability;
    int64_t retention_age_ms;     /* finished rows older than this are removed; 0: never */
    int64_t retention_bytes;      /* of bodies of finished envelopes: while they have more, the
                                     oldest bodies go and their rows stay; 0: never */
    int64_t retention_rows_bytes; /* of the rows of finished envelopes, keys among them: while they
                                     have more, the oldest envelopes go whole; 0: never */
    int64_t retention_decisions_ms; /* decisions older than this are removed; 0: never */
    int64_t retention_every_ms;     /* how often retention looks; 0 for the default of 1 s */
    unsigned group_max;             /* jobs in one commit; 0 for the default of 512 */
    int64_t body_file_bytes;   /* a file of bodies ends beyond this; 0 for the default of 64 MiB */
    unsigned checkpoint_pages; /* WAL pages that start a checkpoint; 0 for the default of 4,000 */
    const struct base_clock *clock; /* NULL: the system's */
    /* Called on the writer thread after every commit; must be quick. NULL: none. */
    void (*on_commit)(void *observer, const struct handoff_store_commit *commit);
    /* Likewise, once: the file of the store that was at this path is not there. NULL: none. */
    void (*on_displaced)(void *observer, const char *path);
    /* Likewise, each time: it lacked that, and went on without. NULL: none. */
    void (*on_shortage)(void *observer, enum handoff_shortage resource, const char *hindered);
    /* On the opening thread, before a store of an older version is changed. NULL: none. */
    void (*on_upgrade)(void *observer, int from, int to, int64_t bytes);
    /* Likewise, again and again: retention took so many publications of the channel before the
       subscriber, which has been catching up since the decision of that time, had come to them.
       NULL: none. */
    void (*on_unread)(void *observer, struct base_span channel, struct base_span receiver,
                      int64_t at_ms, int64_t count);
    /* Likewise: what a channel may keep of publications that were delivered. false: it is not known
       yet, so nothing goes. NULL: likewise. */
    bool (*shelf_limits)(void *observer, struct base_span channel,
                         struct handoff_store_shelf_limits *limits);
    void *observer;
    const char *vfs; /* SQLite VFS, for tests with a failing disk; NULL: the system's */
};

/* On failure *store is NULL and error tells: store_locked (another process), store_newer,
   store_foreign, store_corrupt, store_read_only, store_full, store_io, out_of_memory. */
enum handoff_code handoff_store_open(struct handoff_store **store,
                                     const struct handoff_store_options *options,
                                     struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Commits what was submitted, posts the completions, joins the writer and closes. The mailboxes
   must be run once more afterwards by their owners. Takes NULL and pointers to NULL. */
void handoff_store_close(struct handoff_store **store);

/* ---- jobs ---------------------------------------------------------------------------------- */

/* Jobs of one thread on their way to the writer together: one lock, one waking, and one commit
   where a loop's turn would else be torn into several. */
struct handoff_store_batch {
    struct base_mail *first, **last;
    unsigned awaited; /* of these, not lazy */
};

/* Changes that are committed together, all or none: if one fails, each fails with its error, and
   nothing else of their group does. Each completion is posted by itself. */
struct handoff_store_unit {
    struct handoff_store_job *first, **last;
};

/* The head of every write. The caller owns the memory and lends it from submit to done. */
struct handoff_store_job {
    struct base_mail mail; /* the store's; also links the queue */

    /* set by the caller or NULL: where it waits until handoff_store_submit_batch */
    struct handoff_store_batch *batch;
    /* set by the caller or NULL: where it waits until handoff_store_submit_unit. Its batch is not
       looked at. */
    struct handoff_store_unit *unit;
    struct handoff_store_job *with; /* the store's: the next change of the unit */
    /* set by the caller: no caller waits for it, so it may wait for company, a millisecond at most
     */
    bool lazy;
    bool brings_body; /* set by the typed calls: the body of an envelope */
    uint32_t bytes; /* set by the caller: of what takes the writer long in proportion; 0: nothing */

    /* set by the caller, both: done takes the memory of the job back */
    struct base_mailbox *mailbox;
    void (*done)(struct handoff_store_job *job); /* on the mailbox's loop */

    /* the verdict, to be read in done */
    struct handoff_error error;

    /* set by the typed calls below. Runs on the writer thread, inside a transaction; may run twice
       (the group is repeated when a neighbour fails), so it changes nothing but rows and results.
     */
    enum handoff_code (*run)(struct handoff_store_job *job, struct handoff_db *db,
                             struct handoff_error *error);
};

/* For modules that speak SQL; everybody else uses typed calls. Any thread; takes a lock for an
 * instant. */
void handoff_store_submit(struct handoff_store *store, struct handoff_store_job *job);

/* A zeroed batch is empty. The thread that fills it submits it, at the latest before it sleeps. */
void handoff_store_submit_batch(struct handoff_store *store, struct handoff_store_batch *batch);

/* A zeroed unit is empty. The changes run in the order in which they were submitted. `batch`: as
   for a job. A unit that is not submitted is simply forgotten, and so are its changes. */
void handoff_store_submit_unit(struct handoff_store *store, struct handoff_store_unit *unit,
                               struct handoff_store_batch *batch);

/* Joins the job's unit and changes nothing: where it is told, all before it in the unit have been.
 */
void handoff_store_end_unit(struct handoff_store *store, struct handoff_store_job *job);

/* Submits and blocks until it is committed; returns job->error.code. For command lines and tests,
   not for loops. job->mailbox and job->done are overwritten. */
enum handoff_code handoff_store_run(struct handoff_store *store, struct handoff_store_job *job);

/* ---- reads for those who may not wait -------------------------------------------------------- */

/* The head of a read. The caller owns the memory and lends it from submit to done. */
struct handoff_store_read {
    struct base_mail mail; /* the store's; also links the queue */

    /* set by the caller */
    struct base_mailbox *mailbox;
    void (*run)(struct handoff_store_read *read);  /* on a reader thread: reads what it likes */
    void (*done)(struct handoff_store_read *read); /* on the mailbox's loop */
};

/* Any thread; takes a lock for an instant. */
void handoff_store_submit_read(struct handoff_store *store, struct handoff_store_read *read);

/* ---- envelopes ----------------------------------------------------------------------------- */

/* An envelope is stored once and never rewritten. Its digest covers the body without the bytes
   [cut_at, cut_at + cut_size): that is where the document names its own digest, in hexadecimal. A
   cut_size of 0 means that the digest covers all of it. Every read checks this, so a changed byte
   is noticed, and nothing is hashed twice for it when the envelope is made. */
struct handoff_store_put_envelope {
    struct handoff_store_job job;
    struct base_uuid id;
    struct base_span task_id;
    struct base_span body;
    uint8_t digest[BASE_SHA256_BYTES];
    uint32_t cut_at, cut_size;
    int64_t created_ms;
    struct base_span inheritance; /* outlives the body (client/envelope/inheritance.h); absent: none
                                   */
    bool finished; /* nothing will be delivered: retention may remove it when its time comes */

    /* for the ledger (ledger.h) */
    struct base_span contribution;   /* absent: the body stands for it, as in older versions */
    const struct base_uuid *parents; /* the newest first. Where one was removed meanwhile, the put
                                        fails with not_found */
    size_t nparents;
    int64_t hop;                     /* 1 and more */
    struct base_span source, target; /* of an envelope that is not handed off; a handoff has its own
                                      */
    struct base_uuid replaces;       /* its items count no more; nil: none */
    struct base_uuid shares;         /* the envelope whose body this one has too, instead of `body`,
                                        which is absent, and whose digest; nil: none */
};

/* The same id with the same digest again is fine; with another digest it is `conflict`. */
void handoff_store_put_envelope(struct handoff_store *store,
                                struct handoff_store_put_envelope *put);

/* Says that an envelope's handoff is over. not_found if retention removed it or it never existed.
 */
struct handoff_store_finish_envelope {
    struct handoff_store_job job;
    struct base_uuid id;
    int64_t finished_ms;
};

void handoff_store_finish_envelope(struct handoff_store *store,
                                   struct handoff_store_finish_envelope *finish);

struct handoff_stored_envelope {
    struct base_uuid id;
    struct base_span task_id, body; /* in the arena */
    struct base_span inheritance;   /* likewise, where the body was removed; absent: it has none */
    uint8_t digest[BASE_SHA256_BYTES];
    int64_t created_ms;
    int64_t finished_ms; /* 0 while its handoff is under way */
};

/* not_found, or store_corrupt when the bytes are not those that were stored. envelope_removed:
   retention removed the body; the rest of *envelope is filled. Reads the disk. */
enum handoff_code handoff_store_get_envelope(struct handoff_store *store,
                                             const struct base_uuid *id, struct base_arena *arena,
                                             struct handoff_stored_envelope *envelope,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

/* ---- numbers ------------------------------------------------------------------------------- */

struct handoff_store_stats {
    uint64_t commits, commits_failed; /* groups; failed: also of housekeeping, for want of a file */
    uint64_t jobs, jobs_failed;       /* jobs in them */
    uint64_t waiting;                 /* jobs submitted and not yet committed */
    uint64_t checkpoints, checkpoints_failed;
    uint64_t removed;   /* envelopes that retention removed whole, with their keys */
    int64_t bytes;      /* in use in the database, and bodies beside it */
    int64_t file_bytes; /* of the files: with free pages, the WAL, and bodies that are over */
};

/* `bytes` as it was a moment ago. Any thread; reads memory only. */
int64_t handoff_store_bytes(const struct handoff_store *store);

/* What is kept of finished envelopes, and what was removed since the store was opened. */
struct handoff_store_kept {
    int64_t body_bytes, row_bytes;
    /* when the oldest one finished that has its body, a key, its row; 0: there is none. By the
       clock of retention, which is so far ahead of the wall clock */
    int64_t oldest_body_ms, oldest_key_ms, oldest_row_ms, ahead_ms;
    int64_t kept_from_ms;            /* wall clock: what finished earlier was removed whole */
    uint64_t bodies_for_size;        /* removed alone */
    uint64_t rows_for_age;           /* removed whole */
    uint64_t rows_for_size;          /* likewise, though younger */
    uint64_t orphans, orphans_bytes; /* files of bodies that no row named, and that were removed */
};

/* As it was a moment ago. Any thread; reads memory only. */
void handoff_store_kept(const struct handoff_store *store, struct handoff_store_kept *kept);

/* What the store's file system has left for us, and its size, as they were a moment ago; 0 until
   they were read. Any thread; reads memory only. */
struct handoff_store_disk {
    int64_t free_bytes, bytes;
};

void handoff_store_disk(const struct handoff_store *store, struct handoff_store_disk *disk);

/* NULL, or the path of the file that was deleted, moved or replaced while the store was open: from
   then on every job and every read fails with store_displaced, until the store is opened again. Any
   thread; reads memory only. */
const char *handoff_store_displaced_file(const struct handoff_store *store);

/* Why the last write failed; HANDOFF_OK: it did not. While writes fail and no job comes, the store
   tries one of its own every second, so that it is known when they succeed again. Any thread; reads
   memory only. */
enum handoff_code handoff_store_failing(const struct handoff_store *store);

/* For what works on files of the store beside its writer: tells the observer what that lacked, and
   what could not be done; of an error of the disk, that a commit failed. Any thread. */
void handoff_store_tell_failure(struct handoff_store *store, enum handoff_code code,
                                const char *hindered);

/* Reads the disk. The two sizes are 0 when they cannot be read. */
void handoff_store_stats(struct handoff_store *store, struct handoff_store_stats *stats);

#endif
