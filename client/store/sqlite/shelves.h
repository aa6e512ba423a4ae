/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelves.h - publications that their channel keeps for those who subscribe later.
 *
 * A channel with a retention keeps a publication whose deliveries are over: it does not count as
 * finished, so the store's own retention leaves it alone and it makes nothing else go. It is let go
 * when it has been kept for so long, or when the channel keeps more bytes than it may, the oldest
 * first. From then on it is finished like any other, and no subscriber is offered it any more. What
 * has a delivery that goes on is never let go.
 *
 * The column `shelf` of a publication: 0, its channel keeps nothing; 1, it will be kept once its
 * deliveries are over; a time (of retention_clock.h), kept since then; -1, let go.
 * `channel_shelves` has the totals of each channel.
 *
 * A subscriber that is catching up may not have come to what retention takes: its row counts that.
 *
 * Writer thread.
 */
#ifndef HANDOFF_STORE_SQLITE_SHELVES_H
#define HANDOFF_STORE_SQLITE_SHELVES_H

#include "client/store/sqlite/database.h"
#include "client/store/store.h"

/* Inside a transaction: the last delivery of a publication whose shelf is positive is over. */
enum handoff_code handoff_shelves_put(struct handoff_db *db, int64_t seq, int64_t over_ms,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Inside a transaction: retention takes the body of an envelope, or all of it. Counts those who
   have not come to it, if it is a publication. */
enum handoff_code handoff_shelves_note_unread(struct handoff_db *db, int64_t seq,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Likewise: all of it is removed. What is kept is never finished, so this happens only to a copy of
   the store, from which a backup removes what has gone since. */
enum handoff_code handoff_shelves_forget(struct handoff_db *db, int64_t seq,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* In a separate transaction: lets go of some from each channel that keeps too much. */
struct handoff_shelves_step {
    const struct handoff_store_options *options; /* says what each channel may keep */
    int64_t now_ms;
    int let_go; /* answer */
};

enum handoff_code handoff_shelves_step(struct handoff_db *db, struct handoff_shelves_step *step,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Calls options->on_unread for each subscriber that lacks something. */
enum handoff_code handoff_shelves_tell_unread(struct handoff_db *db,
                                              const struct handoff_store_options *options,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Totals that are not the sum of what they count. */
enum handoff_code handoff_shelves_count_wrong(struct handoff_db *db, int64_t *wrong,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
