/* SPDX-License-Identifier: Apache-2.0 */
/* migrate.h - the schema, as numbered steps. */
#ifndef HANDOFF_STORE_SQLITE_MIGRATE_H
#define HANDOFF_STORE_SQLITE_MIGRATE_H

#include "client/store/sqlite/database.h"

/* "hand", in the database header: tells our files from other programs' databases. */
#define HANDOFF_STORE_APPLICATION_ID 0x68616e64

/* The versions that made what older stores do not have. */
enum {
    HANDOFF_SCHEMA_MEMORIES = 3,
    HANDOFF_SCHEMA_BODY_FILES = 7,
    HANDOFF_SCHEMA_KEPT = 11,
    HANDOFF_SCHEMA_SCOPES = 12,
    HANDOFF_SCHEMA_LEDGER = 13,
    HANDOFF_SCHEMA_SEARCH = 15,
    HANDOFF_SCHEMA_HANDED_OFF = 17,
    HANDOFF_SCHEMA_DECISIONS = 18,
    HANDOFF_SCHEMA_CHANNELS = 19,
    HANDOFF_SCHEMA_CHANNEL_RECEIVED = 25,
    HANDOFF_SCHEMA_SHELVES = 28
};

/* The schema version this program writes: the number of steps. */
int handoff_migrate_newest(void);

/* store_newer when a later version of the program wrote it, store_foreign when another program did.
   Tells the version the store has; 0 for an empty file. */
enum handoff_code handoff_migrate_version(struct handoff_db *db, int *version,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Brings the store to version `to` (handoff_migrate_newest(), or less in tests). All steps
   are one transaction: a kill in between leaves the store as it was. */
enum handoff_code handoff_migrate(struct handoff_db *db, int to,
                                  struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
