/* SPDX-License-Identifier: Apache-2.0 */
/* retention.h - removing what is finished by age and size, a small step at a time. */
#ifndef HANDOFF_STORE_SQLITE_RETENTION_H
#define HANDOFF_STORE_SQLITE_RETENTION_H

#include "client/store/sqlite/database.h"

/* Of finished envelopes. 0: any age, any size. */
struct handoff_retention {
    int64_t age_ms;
    int64_t body_bytes;
    int64_t row_bytes;
};

struct handoff_retention_removed {
    int envelopes;      /* whole */
    int for_size;       /* of these, though younger than the age */
    int bodies;         /* of envelopes whose rows stay */
    int64_t through_ms; /* when the last of the whole ones finished */
};

/* In one transaction of its own, oldest first: at most a few envelopes go, and at most a few bodies
   of others. Nothing removed: there is nothing to remove for now. */
enum handoff_code handoff_retention_step(struct handoff_db *db, struct handoff_retention limits,
                                         int64_t now_ms, struct handoff_retention_removed *removed,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Inside a transaction: removes everything that names one envelope. */
enum handoff_code handoff_retention_remove(struct handoff_db *db, int64_t seq,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Inside a transaction: removes one envelope's body; its row says so from then on. */
enum handoff_code handoff_retention_remove_body(struct handoff_db *db, int64_t seq,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Bytes in use in the database: pages that hold something. */
enum handoff_code handoff_retention_bytes(struct handoff_db *db, int64_t *bytes,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
