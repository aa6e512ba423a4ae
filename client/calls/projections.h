/* SPDX-License-Identifier: Apache-2.0 */
/*
 * projections.h - envelopes for receivers that cannot take the one that the others get.
 *
 * A publication is assembled once. For a receiver with a smaller budget the same assembly plans and
 * encodes again: the same ledger, memories and hop, another id, and `projection_of` names the
 * publication's envelope. What may never be trimmed may exceed that budget too; then there is none.
 * An envelope that was assembled earlier is assembled anew for that, from what its request said, in
 * the same place of its chain.
 *
 * On the loop's thread.
 */
#ifndef HANDOFF_CALLS_PROJECTIONS_H
#define HANDOFF_CALLS_PROJECTIONS_H

#include "client/client.h"

struct handoff_projection {
    uint64_t budget; /* set by the owner */

    /* answers */
    enum handoff_code code;               /* OK, or budget_too_small */
    struct handoff_submission submission; /* lent by the assembly */
    struct handoff_event event;           /* that describes it */
    char id_text[BASE_UUID_TEXT];
};

/* Embedded in its owner, who keeps it until `made`, or stops it. Zeroed to begin with. */
struct handoff_projections {
    /* set by the owner */
    struct handoff_assembly *assembly; /* it succeeded; its submission was taken */
    struct handoff_projection *list;
    size_t count;
    /* OK: each has its answer. Otherwise why none could be made. */
    void (*made)(struct handoff_projections *projections, const struct handoff_error *error);

    size_t at;
    struct base_timer timer;
};

void handoff_projections_make(struct handoff_projections *projections);

/* An assembly of an envelope that was published, by the request that it was made of, to be ended by
   the caller; the texts are copied. NULL: out of memory. */
struct handoff_assembly *handoff_projections_begin_anew(struct handoff_loop *loop,
                                                        struct base_span request,
                                                        const struct handoff_submission *published);
/* Makes projections of that. The list is not empty. What the request asked for is looked up again;
   it may not be possible any more. */
void handoff_projections_make_anew(struct handoff_projections *projections);
/* Whether a later attempt may find what was missing, such as memory or a worker; else the receiver's
   delivery is parked. */
bool handoff_projections_may_succeed_later(enum handoff_code code);
/* Harmless where nothing is in progress. */
void handoff_projections_stop(struct handoff_projections *projections);

#endif
