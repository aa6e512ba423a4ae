/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visible.h - scopes as the numbers that places of memories have.
 *
 * Each visible scope is a range of seq (place.h), so what is read of one costs what lies in it,
 * whatever lies in others. A scope that has no memory has no number. On a reader thread of the
 * store, or on its writer.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_VISIBLE_H
#define HANDOFF_SPINE_EMBEDDED_VISIBLE_H

#include "client/spine/scopes.h"
#include "client/store/sqlite/database.h"

enum { HANDOFF_VISIBLE_MAX = HANDOFF_SCOPES_MAX + 1 };

struct handoff_visible {
    int64_t scopes[HANDOFF_VISIBLE_MAX]; /* the first is 0, what is shared */
    size_t count;
    int64_t memories; /* in all of them */
    bool all;         /* every scope, listed or not */
};

enum handoff_code handoff_visible_read(struct handoff_visible *visible, struct handoff_db *db,
                                       const struct handoff_scopes *scopes,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

bool handoff_visible_has(const struct handoff_visible *visible, int64_t seq);

/* Collects seqs that a statement finds, the newest first, the newest `most` of all scopes. The
   statement, a literal, gives a column of seqs from ?1 to ?2, the greatest first, at most ?3; ?4 is
   `text`. Only those below `below` in the order of recency. The seqs are in the arena. */
enum handoff_code handoff_visible_newest(const struct handoff_visible *visible,
                                         struct handoff_db *db, const char *statement,
                                         struct base_span text, int64_t below, size_t most,
                                         struct base_arena *arena, int64_t **seqs, size_t *count,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
