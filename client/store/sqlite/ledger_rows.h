/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_rows.h - the piece of ledger.c for a check of the whole store. */
#ifndef HANDOFF_STORE_SQLITE_LEDGER_ROWS_H
#define HANDOFF_STORE_SQLITE_LEDGER_ROWS_H

#include "client/store/ledger.h"
#include "client/store/sqlite/database.h"

/* As handoff_store_get_ledger, inside a transaction of the caller's. */
enum handoff_code handoff_ledger_rows_read(struct handoff_db *db, const struct base_uuid *ids,
                                           size_t nids, struct base_arena *arena,
                                           struct handoff_contribution **list, size_t *count,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
