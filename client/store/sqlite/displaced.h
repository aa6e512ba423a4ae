/* SPDX-License-Identifier: Apache-2.0 */
/*
 * displaced.h - whether the store's files are still those on the path.
 *
 * A file that was deleted, moved or replaced stays open and takes every write, but the next start
 * opens what is on the path. So what is open is compared with what is there: while nobody else may
 * use the store (its lock is held), only an operator's mistake makes a difference.
 */
#ifndef HANDOFF_STORE_SQLITE_DISPLACED_H
#define HANDOFF_STORE_SQLITE_DISPLACED_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/store/sqlite/data_dir.h"

/* The first ones hold what is told durable; without the others a second process could get in. */
enum { HANDOFF_STORE_DATA_FILES = 2, HANDOFF_STORE_FILES = 4 };

/* Belongs to the thread that notes; read by any from then on. */
struct handoff_store_files {
    struct handoff_store_file {
        char *path; /* owned; NULL: not watched */
        dev_t device;
        ino_t inode;
    } files[HANDOFF_STORE_FILES];
};

/* Notes the files of a database that was just opened and written to, so that all of them are there.
 * out_of_memory. */
enum handoff_code handoff_store_files_note(struct handoff_store_files *files,
                                           const struct handoff_data_dir *data_dir,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Harmless where nothing was noted. */
void handoff_store_files_forget(struct handoff_store_files *files);

/* The path of a file that is not there, lent by the files, or NULL; only the first `count` are
 * looked for. Waits for the disk. Any thread. */
const char *handoff_store_files_displaced(const struct handoff_store_files *files, size_t count);

/* store_displaced, for that file. */
enum handoff_code handoff_store_displaced(const char *path, struct handoff_error *error);

#endif
