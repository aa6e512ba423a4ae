/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_files.h - the table of the files of bodies: what lies in each, and when it may go.
 *
 * A file goes when no row names it any more. Retention takes envelopes roughly in the order in
 * which they came, so files empty from the oldest; what stays behind in one (parked for weeks, say)
 * is moved into its rows as soon as the next younger file is half empty or gone, so that a few
 * stragglers do not keep megabytes. What is damaged is not moved, since its file may still be
 * repaired, and keeps that file. The counts are corrected before a file is removed, should a hand
 * have touched the rows. Writer thread, unless told otherwise.
 */
#ifndef HANDOFF_STORE_SQLITE_BODY_FILES_H
#define HANDOFF_STORE_SQLITE_BODY_FILES_H

#include "client/store/sqlite/bodies.h"

/* The newest file's number; 0 if there is none. */
enum handoff_code handoff_body_files_newest(struct handoff_db *db, int64_t *number,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Bodies that came to a file in one transaction. */
struct handoff_body_batch {
    int64_t count, bytes;
    int64_t first_seq, last_seq; /* of the rows that name them */
};

/* Inside a transaction: they lie in the file from now on. */
enum handoff_code handoff_body_files_add(struct handoff_db *db, int64_t file,
                                         const struct handoff_body_batch *batch,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Inside a transaction, before a row goes: its body is no longer needed, if it lies in a file. */
enum handoff_code handoff_body_files_release(struct handoff_db *db, int64_t seq,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The files in which a body was found that is damaged or cannot be read. Zeroed, it is empty. */
struct handoff_damaged_files {
    int64_t *numbers;
    size_t count;
};

void handoff_damaged_files_free(struct handoff_damaged_files *damaged);

/* Removes one file that nothing is left in, or moves some stragglers, in its own transaction.
   What is damaged, or cannot be read, stays where it is and keeps nothing else there.
   *more: there may be more to do. *damaged: gains each file in which any was found, once. */
enum handoff_code handoff_body_files_tidy(struct handoff_db *db,
                                          struct handoff_damaged_files *damaged, bool *more,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* How many files are not counted as the rows have it. Any thread. */
enum handoff_code handoff_body_files_miscounted(struct handoff_db *db, int64_t *count,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Bytes of the bodies in all files: those that rows name, and those that were ever written to files
   that are still there. Any thread. */
enum handoff_code handoff_body_files_bytes(struct handoff_db *db, int64_t *named, int64_t *written,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
