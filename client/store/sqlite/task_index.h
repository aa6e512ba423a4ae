/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_index.h - which envelopes belong to a task, indexed in batches.
 *
 * Names of tasks come in no order, so that an index of SQLite's costs each insert a page of its own
 * in the WAL: as much as all the other rows of a handoff together. So the table task_index takes
 * them a thousand at a time, sorted, and those that wait for it are found by looking through them.
 * The view task_envelopes is both. Writer thread.
 */
#ifndef HANDOFF_STORE_SQLITE_TASK_INDEX_H
#define HANDOFF_STORE_SQLITE_TASK_INDEX_H

#include "client/store/sqlite/database.h"

/* So few that looking through them takes a reader less than a millisecond. */
enum { HANDOFF_TASK_INDEX_BATCH = 1000 };

/* Takes what waits, if it has become a batch, in its own transaction. */
enum handoff_code handoff_task_index_step(struct handoff_db *db,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Inside a transaction, after rows went: the numbers behind the last row come again. */
enum handoff_code handoff_task_index_trim(struct handoff_db *db,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
