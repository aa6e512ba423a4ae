/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retained_size.h - how much of the store retention may take: bodies on one side, rows on the
 * other.
 *
 * Only what is finished counts, because only that can be removed: what is live or parked never
 * makes anything else go. Each envelope's row of envelope_state has the bytes of its body
 * (body_bytes, 0 once it was removed) and of all its rows (row_bytes). Triggers add them to the one
 * row of the table `kept` when the envelope is finished, and subtract them when they go, in the
 * transaction that does it. So the totals are always right, and nothing is ever scanned for them.
 *
 * The bytes of a row are estimated from the lengths of its texts; what is scattered over a B-tree
 * counts half as much again, because such pages are two thirds full. test_store_retention.c
 * compares the estimate with SQLite's own account of its pages.
 *
 * Writer thread; reading on any thread that has a connection.
 */
#ifndef HANDOFF_STORE_SQLITE_RETAINED_SIZE_H
#define HANDOFF_STORE_SQLITE_RETAINED_SIZE_H

#include "client/store/channels.h"
#include "client/store/sqlite/database.h"

struct handoff_retained {
    int64_t bodies; /* bytes of finished envelopes' bodies */
    int64_t rows;   /* bytes of all rows that belong to finished envelopes: the index */
};

enum handoff_code handoff_retained_read(struct handoff_db *db, struct handoff_retained *kept,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* When the oldest finished envelope finished, of those with a body, with a key, and of all; 0:
   there is none. *key_from is the seq from which keys are looked for: 0 at first, and then what the
   last look left there, so that keys of what is parked for long are passed over once. */
struct handoff_retained_oldest {
    int64_t body_ms, key_ms, row_ms;
};

enum handoff_code handoff_retained_find_oldest(struct handoff_db *db,
                                               struct handoff_retained_oldest *oldest,
                                               int64_t *key_from,
                                               struct handoff_error *error) HANDOFF_MUST_CHECK;

/* What the rows take: of an envelope with its contribution, of its handoff with the key, of a
 * publication with the key, of an attempt. */
int64_t handoff_retained_envelope_row(const struct handoff_store_put_envelope *put);
int64_t handoff_retained_handoff_row(const struct handoff_store_accept *accept);
int64_t handoff_retained_publication_row(const struct handoff_store_publish *publish);
int64_t handoff_retained_refusal_row(const struct handoff_store_refuse_next *refuse);
int64_t handoff_retained_attempt_row(const struct handoff_attempt *attempt);

/* Of a contribution whose envelope is gone, beside its text and the name of its task: the row, its
   places in two indexes, and about three rows of who was addressed. */
enum { HANDOFF_RETAINED_ORPHAN_ROW = 320 };

#endif
