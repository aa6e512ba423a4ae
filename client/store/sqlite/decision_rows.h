/* SPDX-License-Identifier: Apache-2.0 */
/* decision_rows.h - the rows of decisions, as the writer adds and removes them. On its thread. */
#ifndef HANDOFF_STORE_SQLITE_DECISION_ROWS_H
#define HANDOFF_STORE_SQLITE_DECISION_ROWS_H

#include "client/store/decisions.h"
#include "client/store/sqlite/database.h"

/* Within a transaction. One that is there already stays as it is. */
enum handoff_code handoff_decision_insert(struct handoff_db *db,
                                          const struct handoff_stored_decision *decision,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Removes some of the oldest that were made before `cutoff_ms` (INT64_MIN: none), or of which there
   are more than a million. */
enum handoff_code handoff_decisions_retain(struct handoff_db *db, int64_t cutoff_ms,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
