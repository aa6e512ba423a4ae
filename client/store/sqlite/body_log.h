/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_log.h - the end of the newest file of bodies, to which the writer appends. Writer thread.
 *
 *     handoff_body_log_begin(log);                   a group that is worth a separate sync
 *     handoff_body_log_append(log, body, &place);    any number, gathered in memory
 *     handoff_body_log_flush(log, &error);           written and synced: now COMMIT
 *     handoff_body_log_end(log);                     however it ended
 *
 * The bodies are on the disk before the rows that name them, so a row never waits for its body. A
 * group that is rolled back leaves bytes that no row names; the end never moves back over them,
 * because a commit that failed at its sync may still be found after a power failure.
 */
#ifndef HANDOFF_STORE_SQLITE_BODY_LOG_H
#define HANDOFF_STORE_SQLITE_BODY_LOG_H

#include "client/store/sqlite/body_files.h"
#include "lib/base/buffer.h"

/* A body below this is as cheap in its row. */
enum { HANDOFF_BODY_OUTSIDE = 2048 };

struct handoff_body_log {
    struct handoff_db *db;           /* the writer's connection, whose files these are */
    int64_t file_max;                /* beyond this size another file is begun */
    bool synced;                     /* a flush syncs: durability full */
    bool taking;                     /* bodies of the group at hand go here */
    sqlite3_file *file;              /* NULL until the first body */
    int64_t number;                  /* of the file; 0: not looked for yet */
    int64_t end;                     /* of what is written */
    struct base_buffer gathered;     /* what follows it */
    struct handoff_body_batch batch; /* of the group at hand */
};

void handoff_body_log_close(struct handoff_body_log *log);

/* Bodies that are put from now on are appended. Where there is no file to be had, they go into
   their rows as ever. */
void handoff_body_log_begin(struct handoff_body_log *log);

/* Where the body will lie. false: it belongs into its row. */
bool handoff_body_log_append(struct handoff_body_log *log, struct base_span body,
                             struct handoff_body_place *place);

/* The row with this number names the place now. What was appended and is not named is not counted.
 */
void handoff_body_log_named(struct handoff_body_log *log, const struct handoff_body_place *place,
                            int64_t seq);

/* Writes what was gathered, syncs, and notes it in the table of files, in the transaction. */
enum handoff_code handoff_body_log_flush(struct handoff_body_log *log,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Where flushes do not sync: before a checkpoint, so that the database itself names no body that a
   power failure could take. */
void handoff_body_log_sync(struct handoff_body_log *log);

/* Forgets what was not flushed. */
void handoff_body_log_end(struct handoff_body_log *log);

#endif
