/* SPDX-License-Identifier: Apache-2.0 */
/* key_row.h - the piece of handoffs.c for other writes that a sender may repeat under a key. */
#ifndef HANDOFF_STORE_SQLITE_KEY_ROW_H
#define HANDOFF_STORE_SQLITE_KEY_ROW_H

#include "client/store/sqlite/database.h"
#include "lib/base/sha256.h"

/* Writer thread, inside a transaction. An absent key: nothing is written. conflict: the source used
   the key before. */
enum handoff_code handoff_key_insert(struct handoff_db *db, struct base_span source,
                                     struct base_span key, int64_t seq,
                                     const uint8_t request_digest[BASE_SHA256_BYTES],
                                     struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
