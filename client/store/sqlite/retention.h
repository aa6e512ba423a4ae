/* SPDX-License-Identifier: Apache-2.0 */
/* retention.h - removing finished rows by age and size, a small step at a time. */
#ifndef HANDOFF_STORE_SQLITE_RETENTION_H
#define HANDOFF_STORE_SQLITE_RETENTION_H

#include "client/store/sqlite/database.h"

struct handoff_retention {
    int64_t age_ms; /* 0: any age */
    int64_t bytes;  /* 0: any size */
};

/* Removes at most a few finished envelopes in one transaction of its own, oldest first, and tells
   how many. 0: there is nothing to remove for now. */
enum handoff_code handoff_retention_step(struct handoff_db *db, struct handoff_retention limits,
                                         int64_t now_ms, int *removed,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Inside a transaction: removes everything that names one envelope. */
enum handoff_code handoff_retention_remove(struct handoff_db *db, int64_t seq,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Bytes in use in the database: pages that hold something. */
enum handoff_code handoff_retention_bytes(struct handoff_db *db, int64_t *bytes,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
