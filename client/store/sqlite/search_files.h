/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search_files.h - the files of the search index, checked against the memories' rows.
 *
 * On the caller's thread, which may block; handoffctl runs it, also beside a daemon.
 */
#ifndef HANDOFF_STORE_SQLITE_SEARCH_FILES_H
#define HANDOFF_STORE_SQLITE_SEARCH_FILES_H

#include "client/store/sqlite/database.h"

/* What was found to be wrong; NULL: nothing. Each file that the table names is whole, and has the
   memories of its span and, but for removed ones, no other. A file that is not there any more, as
   the daemon has merged it meanwhile, is passed over. */
enum handoff_code handoff_search_files_check(struct handoff_db *db, const char **problem,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
