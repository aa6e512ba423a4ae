/* SPDX-License-Identifier: Apache-2.0 */
/* envelope_row.h - pieces of envelopes.c for writes that store an envelope together with other
 * rows. */
#ifndef HANDOFF_STORE_SQLITE_ENVELOPE_ROW_H
#define HANDOFF_STORE_SQLITE_ENVELOPE_ROW_H

#include "client/store/sqlite/addressed.h"
#include "client/store/sqlite/database.h"
#include "client/store/store.h"

/* Inside a job's run: stores put's envelope (put->job is not looked at) and tells its seq, or 0
   when the same one was there already. row_bytes: of the other rows that are stored with it. The
   caller lists it next. */
enum handoff_code handoff_envelope_insert(struct handoff_db *db,
                                          const struct handoff_store_put_envelope *put,
                                          int64_t row_bytes, int64_t *seq,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Lists who is addressed by an envelope that was just inserted (addressed.h): where it has a
   handoff, once that is inserted too, since a list that changes costs as much again. `to`: as in
   handoff_addressed_add. */
enum handoff_code handoff_envelope_list(struct handoff_db *db, int64_t seq,
                                        struct base_span task_id,
                                        const struct handoff_addressees *to,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* As handoff_store_get_envelope. */
enum handoff_code handoff_envelope_look_up(struct handoff_db *db, const struct base_uuid *id,
                                           struct base_arena *arena,
                                           struct handoff_stored_envelope *envelope,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Likewise, by the number. */
enum handoff_code handoff_envelope_look_up_seq(struct handoff_db *db, int64_t seq,
                                               struct base_arena *arena,
                                               struct handoff_stored_envelope *envelope,
                                               struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Likewise: a finished envelope is one of a handoff that begins, and tells its seq. conflict: it
   has a handoff; not_found or envelope_removed: retention came first. */
enum handoff_code handoff_envelope_reopen(struct handoff_db *db, const struct base_uuid *id,
                                          int64_t row_bytes, int64_t *seq,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The body without the cut has this digest, and the cut names it. */
bool handoff_envelope_intact(struct base_span body, int64_t cut_at, int64_t cut_size,
                             const uint8_t digest[BASE_SHA256_BYTES]);

#endif
