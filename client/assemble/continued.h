/* SPDX-License-Identifier: Apache-2.0 */
/*
 * continued.h - which envelopes a request continues, and what their chain has said.
 *
 *     previous_id, one or several     those
 *     new_chain                       none
 *     a task that is known            all envelopes of the task that were addressed to the source
 *                                     agent, or taken over by it, and that no handoff
 *                                     continues yet; where there is none, the newest that it was
 *                                     addressed in
 *     a task that the source began,   none: it begins a branch, which has the intent and the
 *     and was never addressed in      constraints of the task's first envelope
 *     a new task, or no task          none
 *
 * A task that the source is no party to is not_found, and so is a previous envelope that a known
 * caller is no party to: what a request continues, its envelope shows. An operator may name any
 * task, and begins a branch of it. Without tokens, anybody may begin a new chain in any task.
 *
 * Of more than HANDOFF_PARENTS_MAX of a task the newest are continued. The others are still to be
 * continued, which the next request of the agent does; envelope and answer say how many.
 *
 * A request that replaces another (an operator's edit) continues what that one continued, and
 * inherits the constraints of that one. A task whose first envelope was replaced begins with the
 * edit.
 */
#ifndef HANDOFF_ASSEMBLE_CONTINUED_H
#define HANDOFF_ASSEMBLE_CONTINUED_H

#include <stdbool.h>
#include <stdint.h>

#include "client/ledger/contribution.h"
#include "client/ledger/ledger.h"
#include "lib/base/span.h"
#include "lib/base/uuid.h"

enum { HANDOFF_PARENTS_MAX = 100 }; /* of one envelope */

/* An envelope that the request continues. */
struct handoff_parent {
    struct base_span id, digest; /* as the new envelope names them */
    struct base_uuid uuid;
    struct handoff_hop hop;
    struct handoff_way way;
};

/* In the arena of the assembly. */
struct handoff_continued_chain {
    struct handoff_parent *parents; /* the newest first */
    struct base_uuid *parent_ids;   /* theirs, as the store takes them */
    size_t nparents;
    struct handoff_said *said; /* of all ancestors, oldest first */
    size_t nsaid;
    size_t *places; /* in `said`, of what the request inherits from */
    size_t nplaces;
    struct base_span task_id; /* theirs; absent: there are none */
    bool branches; /* what was said is the beginning of the task, and no part of the chain */
    struct handoff_parent *replaced; /* what the request replaces; NULL: nothing */
    size_t not_continued; /* older ones of the task, of more than may be continued at once */
    size_t size;          /* of all that was read */
};

struct handoff_assembly;

/* False: nothing has to be read for it. Pure. */
bool handoff_continues(const struct handoff_assembly *assembly);

/* What it continues was chosen for it, by its task. Once the chain was read. Pure. */
bool handoff_continues_by_task(const struct handoff_assembly *assembly);

/* Fills assembly->chain. On a reader thread of the store. */
enum handoff_code handoff_read_continued(struct handoff_assembly *assembly,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
