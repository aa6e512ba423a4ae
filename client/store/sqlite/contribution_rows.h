/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contribution_rows.h - writing what envelopes contributed, and removing it.
 *
 * A contribution whose envelope retention removed is an orphan: it stays as long as it has a child.
 * Meanwhile it can be continued as before, and its source and receivers are parties to its task;
 * agents that were only tried are forgotten with their attempts.
 * Its bytes are charged to a descendant that still has its envelope: they are part of that one's
 * row_bytes. So they count while the descendant is finished, as everything that only retention
 * keeps, and not while it is live or parked; and they go, or are charged to another, when it goes.
 *
 * A child has a greater seq than its parents, because they are looked up when it is stored. So the
 * seq of an orphan is not used again: a descendant with a greater one is there.
 *
 * Writer thread, inside a transaction.
 */
#ifndef HANDOFF_STORE_SQLITE_CONTRIBUTION_ROWS_H
#define HANDOFF_STORE_SQLITE_CONTRIBUTION_ROWS_H

#include "client/store/sqlite/database.h"
#include "client/store/store.h"

/* What `text` is. */
enum handoff_kept_form {
    HANDOFF_KEPT_CONTRIBUTION,
    HANDOFF_KEPT_BODY,        /* of an older version's envelope */
    HANDOFF_KEPT_INHERITANCE, /* likewise, where the body was removed before */
};

/* SQL: the seq of the envelope or orphan with this id; NULL: there is none. */
#define HANDOFF_SEQ_OF_ID(id)                                                                      \
    "coalesce((SELECT seq FROM envelopes WHERE id = " id                                           \
    "), (SELECT seq FROM contributions WHERE id = " id "))"

/* Behind the envelope. not_found: a parent was removed meanwhile. */
enum handoff_code handoff_contribution_insert(struct handoff_db *db, int64_t seq,
                                              const struct handoff_store_put_envelope *put,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* An envelope that was only assembled is given a handoff: now it continues its parents. */
enum handoff_code handoff_contribution_hand_off(struct handoff_db *db, int64_t seq,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Before the body is removed: where it stands for a contribution, it is kept. */
enum handoff_code handoff_contribution_keep_body(struct handoff_db *db, int64_t seq,
                                                 struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Before the envelope's rows are removed: its contribution becomes an orphan or goes, and with it
   the orphans that had no other child. */
enum handoff_code handoff_contribution_leave(struct handoff_db *db, int64_t seq,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
