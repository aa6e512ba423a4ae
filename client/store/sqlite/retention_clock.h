/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retention_clock.h - the time by which finished handoffs grow old. It cannot jump.
 *
 * It passes with the monotonic clock. Where the wall clock is ahead, because it was set forward or
 * the host was down, this one follows at 25 times its pace: a day in an hour. So a wrong year
 * removes nothing at once, and a clock that is corrected in time costs little. It never goes back.
 * Where the wall clock is behind (a host that boots in 1970 and asks NTP later), this one goes on
 * at its usual pace.
 *
 * The store keeps it, so that a restart cannot make it jump either. Only differences mean anything:
 * where the wall clock says something else, the time at which a handoff finished is stored as this
 * clock has it.
 *
 * Writer thread.
 */
#ifndef HANDOFF_STORE_SQLITE_RETENTION_CLOCK_H
#define HANDOFF_STORE_SQLITE_RETENTION_CLOCK_H

#include "client/store/sqlite/database.h"
#include "lib/base/clock.h"

struct handoff_retention_clock {
    int64_t now_ms;       /* the wall clock's, as long as that one is right */
    int64_t saved_ms;     /* as the store has it, or would find it */
    int64_t monotonic_ms; /* when it was moved last */
    int64_t ahead_ms;     /* of the wall clock, at that time */
};

/* From the store; a store that does not have it yet was last used when its last handoff finished.
 */
enum handoff_code handoff_retention_clock_load(struct handoff_retention_clock *retention,
                                               struct handoff_db *db,
                                               const struct base_clock *clock,
                                               struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Moves it by the time that passed. */
void handoff_retention_clock_move(struct handoff_retention_clock *retention,
                                  const struct base_clock *clock);

/* In a transaction of its own, if it has passed by so much since it was saved. */
enum handoff_code handoff_retention_clock_save(struct handoff_retention_clock *retention,
                                               struct handoff_db *db, int64_t least_ms,
                                               struct handoff_error *error) HANDOFF_MUST_CHECK;

/* What to store as the time at which something finished that did so at `wall_ms`. 0 stays 0. */
int64_t handoff_retention_clock_mark(const struct handoff_db *db, int64_t wall_ms);

#endif
