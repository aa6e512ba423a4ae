/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of retention_clock.h. Writer thread. */
#include "client/store/sqlite/retention_clock.h"

enum {
    CATCH_UP = 24,           /* times what passed, besides what passed */
    SAVE_EVERY_MS = 3600000, /* a crash sets it back by so much, which takes minutes to catch up */
    NEARLY_THE_SAME_MS = 60000 /* no age is so short that it matters */
};

/* The index of either kind gives its last entry. */
static const char newest_finish[] =
    "SELECT max(coalesce((SELECT max(finished_at) FROM envelope_state INDEXED BY"
    " finished_with_body WHERE finished_at > 0 AND body_bytes > 0), 0),"
    " coalesce((SELECT max(finished_at) FROM envelope_state INDEXED BY"
    " finished_without_body WHERE finished_at > 0 AND body_bytes = 0), 0))";

enum handoff_code handoff_retention_clock_load(struct handoff_retention_clock *retention,
                                               struct handoff_db *db,
                                               const struct base_clock *clock,
                                               struct handoff_error *error)
{
    const int64_t wall_ms = base_wall_ms(clock);
    *retention = (struct handoff_retention_clock){.monotonic_ms = base_monotonic_ms(clock)};
    enum handoff_code code =
        handoff_db_number(db, "SELECT now FROM retention_clock", &retention->now_ms, error);
    if (code == HANDOFF_OK && retention->now_ms == 0) {
        code = handoff_db_number(db, newest_finish, &retention->now_ms, error);
        if (retention->now_ms == 0 || retention->now_ms > wall_ms)
            retention->now_ms = wall_ms;
    }
    retention->ahead_ms = retention->now_ms - wall_ms;
    retention->saved_ms = retention->now_ms;
    return code;
}

void handoff_retention_clock_move(struct handoff_retention_clock *retention,
                                  const struct base_clock *clock)
{
    const int64_t monotonic_ms = base_monotonic_ms(clock), wall_ms = base_wall_ms(clock);
    const int64_t passed_ms = monotonic_ms - retention->monotonic_ms;
    retention->monotonic_ms = monotonic_ms;
    retention->now_ms += passed_ms;
    const int64_t behind_ms = wall_ms - retention->now_ms;
    if (behind_ms > 0)
        retention->now_ms += behind_ms < passed_ms * CATCH_UP ? behind_ms : passed_ms * CATCH_UP;
    retention->ahead_ms = retention->now_ms - wall_ms;
}

enum handoff_code handoff_retention_clock_save(struct handoff_retention_clock *retention,
                                               struct handoff_db *db, int64_t least_ms,
                                               struct handoff_error *error)
{
    if (retention->now_ms - retention->saved_ms < least_ms)
        return HANDOFF_OK;
    sqlite3_stmt *update = handoff_db_statement(db, "UPDATE retention_clock SET now = ?1", error);
    if (!update)
        return handoff_db_failure(db, NULL);
    sqlite3_bind_int64(update, 1, retention->now_ms);
    enum handoff_code code = handoff_db_do(db, update, error);
    if (code == HANDOFF_OK)
        retention->saved_ms = retention->now_ms;
    return code;
}

int64_t handoff_retention_clock_mark(const struct handoff_db *db, int64_t wall_ms)
{
    const int64_t ahead_ms = db->retention_clock ? db->retention_clock->ahead_ms : 0;
    const bool nearly_the_same = ahead_ms < NEARLY_THE_SAME_MS && -ahead_ms < NEARLY_THE_SAME_MS;
    return wall_ms == 0 || nearly_the_same ? wall_ms : wall_ms + ahead_ms;
}
