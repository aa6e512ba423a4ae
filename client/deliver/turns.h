/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.h - the order of the handoffs of one task, or the deliveries of one channel, that are on
 * their way to one agent.
 *
 * An agent with `ordered` is given one handoff of a task at a time: the next one when the one
 * before is settled, and that is written. What it receives from a channel is one line, whatever the
 * tasks. Every live handoff takes its place behind those that
 * were accepted before it, for the same agent and line, and keeps it through retries; so a reload
 * can turn `ordered` on and off. A restart takes up those that an agent holds first, then the
 * others in order (resume.c). Who is first has the turn. A replay, or an alternate that takes over,
 * goes to the end.
 *
 * However many wait in a line, it is found, joined and left at once: the table has the first of
 * each line, and the others are chained to it.
 *
 * Handoffs of a task may be on different lanes. The table is split into shards, each with a lock
 * that is held for a lookup; who is first from now on is told by mail.
 */
#ifndef HANDOFF_DELIVER_TURNS_H
#define HANDOFF_DELIVER_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"
#include "lib/base/uuid.h"

struct handoff_agent;
struct handoff_feed;
struct handoff_lane;

/* Embedded in a delivery. What is not under the lock of the shard never changes while it has a
   place. */
struct handoff_turn {
    struct handoff_turn *next, *previous; /* lock: its line is a ring, and goes on from the last to
                                             the first */
    struct handoff_turn *next_line;       /* lock; of the first of a line: that of another line */
    const struct handoff_agent *agent;    /* NULL: it has no place */
    const struct handoff_feed *feed;      /* of a publication; NULL: the line is the task's */
    struct base_span task_id;
    struct handoff_lane *lane;
    struct base_uuid id;
};

enum { HANDOFF_TURN_SHARDS = 16, HANDOFF_TURN_BUCKETS = 64 };

struct handoff_turn_shard {
    pthread_mutex_t lock;
    struct handoff_turn *buckets[HANDOFF_TURN_BUCKETS]; /* the firsts of lines; NULL: none */
    size_t looked_at; /* lines, so far: what it costs to find one */
};

struct handoff_turns {
    struct handoff_turn_shard *shards;
};

bool handoff_turns_init(struct handoff_turns *turns); /* false: no memory */
void handoff_turns_free(struct handoff_turns *turns); /* must be empty */

/* Takes a place at the end. Any thread, as the rest; the turn is the caller's. */
void handoff_turns_join(struct handoff_turns *turns, struct handoff_turn *turn);
/* `to` takes the place of `from`, which is in no line afterwards. `task_id` is the same task, in
   memory that lives as long as `to`. */
void handoff_turns_replace(struct handoff_turns *turns, struct handoff_turn *from,
                           struct handoff_turn *to, struct base_span task_id);
/* Whether it is the first of its agent and line. */
bool handoff_turns_is_first(struct handoff_turns *turns, const struct handoff_turn *turn);
/* Gives up its place, if it has one. */
void handoff_turns_leave(struct handoff_turns *turns, struct handoff_turn *turn);
/* The first of the agent and line of this turn, as of a moment ago. false: there is none. */
bool handoff_turns_first(struct handoff_turns *turns, const struct handoff_turn *of,
                         struct base_uuid *id, struct handoff_lane **lane);

#endif
