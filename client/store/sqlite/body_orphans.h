/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_orphans.h - files of bodies that no row names.
 *
 * A new file is made before the commit that names it, so a process that is killed in between leaves
 * a file that nobody knows of; so does a database that was replaced by a backup. They are removed
 * when the store is opened: the WAL has been read by then, so the table has every file that a
 * commit named, and no commit is under way that is about to name another.
 */
#ifndef HANDOFF_STORE_SQLITE_BODY_ORPHANS_H
#define HANDOFF_STORE_SQLITE_BODY_ORPHANS_H

#include "client/store/sqlite/database.h"

struct handoff_body_orphans {
    uint64_t files, bytes; /* that were removed */
};

/* On the thread that opens the store, before the writer starts. What cannot be removed stays, and
   is no reason not to open; only a lack of memory is. */
enum handoff_code handoff_body_orphans_remove(struct handoff_db *db,
                                              struct handoff_body_orphans *removed,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
