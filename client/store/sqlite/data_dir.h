/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_dir.h - the store's directory: made when it is missing, and used by one process at a time.
 *
 * SQLite's own locks would let two daemons share a database, and each would deliver the other's
 * handoffs; so a lock says whose it is. It is taken twice: on a file, which also names the process,
 * and on the directory itself, which cannot be deleted while the store is in it. `handoffctl store
 * check` and `backup` only read and do not take it.
 */
#ifndef HANDOFF_STORE_SQLITE_DATA_DIR_H
#define HANDOFF_STORE_SQLITE_DATA_DIR_H

#include "client/handoff.h"

#define HANDOFF_STORE_FILE "handoff.db"
#define HANDOFF_STORE_LOCK "lock"

struct handoff_data_dir {
    char *database; /* path of the database file; owned */
    int directory;  /* descriptor of the locked directory, or -1 */
    int lock;       /* descriptor of the lock file, or -1 */
};

/* Makes the directory (mode 0700), on the disk, and takes the lock, which ends with the process at
 * the latest. */
enum handoff_code handoff_data_dir_lock(struct handoff_data_dir *data_dir, const char *directory,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Harmless if it failed to be locked. */
void handoff_data_dir_unlock(struct handoff_data_dir *data_dir);

/* 0 or errno: what is at the path is on the disk; its name is, in the folder that holds it. */
int handoff_path_sync(const char *path);
int handoff_path_sync_name(const char *path);

/* path is a store's directory or a database file. Gives the database file, to be released with
   base_free, or store_missing. */
enum handoff_code handoff_data_dir_find_database(const char *path, char **database,
                                                 struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
