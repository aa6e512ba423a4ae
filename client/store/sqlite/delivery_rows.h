/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery_rows.h - the rows of channels.h that other files write or read along.
 *
 * The row of a delivery has no body of its own: its column `body` holds the TEXT "@SEQ", where SEQ
 * is the number of the publication's envelope. So one body is stored once, and goes once.
 */
#ifndef HANDOFF_STORE_SQLITE_DELIVERY_ROWS_H
#define HANDOFF_STORE_SQLITE_DELIVERY_ROWS_H

#include "client/store/handoffs.h"
#include "client/store/sqlite/database.h"

/* The body of a row of envelopes, wherever it lies; the empty TEXT where retention removed it. Only
   the rows of deliveries are looked at twice. */
#define HANDOFF_ROW_SHARES_BODY(row)                                                               \
    "typeof(" row ".body) = 'text' AND substr(" row ".body, 1, 1) = '@'"
#define HANDOFF_ROW_SHARED_SEQ(row) "CAST(substr(" row ".body, 2) AS INTEGER)"
#define HANDOFF_ROW_BODY(row)                                                                      \
    "CASE WHEN " HANDOFF_ROW_SHARES_BODY(                                                          \
        row) " THEN coalesce((SELECT shared.body FROM envelopes"                                   \
             " shared WHERE shared.seq = " HANDOFF_ROW_SHARED_SEQ(row) "), '') ELSE " row          \
                                                                       ".body END"

/* Writer thread, inside a transaction. */

/* Binds a handoff to the publication that it delivers. */
enum handoff_code handoff_delivery_row_insert(struct handoff_db *db,
                                              const struct handoff_store_accept *accept,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* A delivery is over, and its envelope_state does not say so yet: where it was the last one, its
   publication is finished too, or kept by its channel. */
enum handoff_code handoff_delivery_row_over(struct handoff_db *db, int64_t seq, int64_t over_ms,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Publications whose count of deliveries that go on is wrong, or that are finished and should not
   be; deliveries without a publication. */
enum handoff_code handoff_delivery_rows_count_wrong(struct handoff_db *db, bool has_shelves,
                                                    int64_t *wrong,
                                                    struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
