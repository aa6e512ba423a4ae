/* SPDX-License-Identifier: Apache-2.0 */
/*
 * party_rows.h - the rule of parties.h as conditions on a row `h` of handoffs. `agent` is a
 * parameter such as "?2". Any thread.
 */
#ifndef HANDOFF_STORE_SQLITE_PARTY_ROWS_H
#define HANDOFF_STORE_SQLITE_PARTY_ROWS_H

#include "client/store/sqlite/database.h"

#define HANDOFF_ROW_WAS_SENT_TO(agent)                                                             \
    "(" agent " IN (h.asked_target, h.target) OR EXISTS"                                           \
    " (SELECT 1 FROM attempts a WHERE a.seq = h.seq AND a.target = " agent "))"

#define HANDOFF_ROW_CONCERNS(agent) "(" agent " = h.source OR " HANDOFF_ROW_WAS_SENT_TO(agent) ")"

/* How many handoffs the task has, and whether the agent is a party to it; an absent agent always
   is, to a task that has some. */
enum handoff_code handoff_party_rows_of_task(struct handoff_db *db, struct base_span task_id,
                                             struct base_span agent, int64_t *handoffs,
                                             bool *is_party,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
