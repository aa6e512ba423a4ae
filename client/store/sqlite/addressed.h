/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addressed.h - which agents were addressed in a task, so that what a request continues is found
 * without a look at all of the task's envelopes.
 *
 * The view `addresses` says who was addressed in an envelope, by its handoff, its attempts and its
 * contribution: one row for each agent, which is open where the agent may continue the envelope and
 * nothing does that was handed off. An envelope that was only assembled may never reach anyone, so
 * what it continues stays open until it has a handoff. The table `addressed` is that view for the
 * tasks that have been listed, in the order of the question, with one more row for each envelope
 * whose agent is ''; the first of those is the task's first envelope.
 *
 * A task is listed when its second envelope comes, those of deliveries not counted. Most tasks have
 * one, and names of tasks come in no order: a row for each would cost a page of the WAL for each
 * handoff (task_index.h). A task that is not listed has at most one envelope, or one publication
 * and its deliveries, which the view answers for.
 *
 * What changes later comes into the table in the same commits: by triggers, but for the changes
 * that are told below.
 */
#ifndef HANDOFF_STORE_SQLITE_ADDRESSED_H
#define HANDOFF_STORE_SQLITE_ADDRESSED_H

#include "client/store/sqlite/database.h"

/* Of what was just stored, so that nothing continues it and no attempt was made. */
struct handoff_addressees {
    struct base_span asked, given; /* often the same */
    bool of_publication;           /* a delivery, which lists no task */
};

/* Writer thread, in the transaction that stores the envelope, behind its contribution and its
   handoff. Only for a task that may have another envelope. `to`: what the view would say of it, for
   a fraction of the work; NULL: the view is asked. */
enum handoff_code handoff_addressed_add(struct handoff_db *db, int64_t seq,
                                        struct base_span task_id,
                                        const struct handoff_addressees *to,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Writer thread, before retention leaves nothing of the envelope but its contribution: its task is
   listed, since what a task that is not listed has is looked for among envelopes. */
enum handoff_code handoff_addressed_leave(struct handoff_db *db, int64_t seq,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Writer thread, in the transaction that gave the envelope a handoff, replaced it, or stored an
   attempt at another agent than the one that has the handoff. A trigger would cost every handoff
   more than this look at whether its task is listed. */
enum handoff_code handoff_addressed_anew(struct handoff_db *db, int64_t seq,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Rows that the table has and should not, or has not and should; tasks that should be listed.
   has_channels: the schema has deliveries of publications. */
enum handoff_code handoff_addressed_count_wrong(struct handoff_db *db, bool has_channels,
                                                int64_t *wrong,
                                                struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
