/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parties.h - who is a party to a handoff, and to a task.
 *
 * The parties to a handoff are its source and the agents it was sent to: the one that the source
 * named, those that an attempt was made with (alternates, agents that pulled it), and the one that
 * has it now. An agent that was passed over was sent nothing.
 *
 * The parties to a task are the source of its first handoff, which began it, and all agents that
 * one of its handoffs was sent to. The source of a later handoff is not one by that: otherwise
 * naming a task would be enough to join it. A handoff that retention removed counts as long as its
 * chain lives (contribution_rows.h), but for agents that were only tried. Without it, the first
 * that is left is the first; its source was a party when it was accepted.
 *
 * The receivers of a publication (channels.h) are parties to its envelope, and each to its own
 * delivery.
 */
#ifndef HANDOFF_STORE_PARTIES_H
#define HANDOFF_STORE_PARTIES_H

#include "client/store/store.h"

/* Whether the agent is a party to the handoff. No handoff has no parties. Waits for the disk. */
enum handoff_code handoff_store_is_party(struct handoff_store *store, const struct base_uuid *id,
                                         struct base_span agent, bool *is_party,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

/* Each agent that sent one of the last 100,000 handoffs, once, in no order, until a visit answers
   false. An absent agent sees all of them, others those of handoffs to which they are parties. The
   name is lent for the visit. Waits for the disk. */
enum handoff_code handoff_store_visit_senders(struct handoff_store *store, struct base_span agent,
                                              bool (*visit)(void *arg, struct base_span sender),
                                              void *arg,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

/* How an agent stands to a task. */
struct handoff_task_standing {
    bool exists;   /* an envelope names the task */
    bool is_party; /* of its handoffs; envelopes that were only assembled do not count */
    /* The first envelope of the task was only assembled: what it says about its source is in it. */
    bool begun_without_handoff;
    struct base_uuid first; /* the first envelope */
};

/* Waits for the disk. */
enum handoff_code handoff_store_task_standing(struct handoff_store *store, struct base_span task_id,
                                              struct base_span agent,
                                              struct handoff_task_standing *standing,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
