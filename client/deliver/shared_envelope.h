/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_envelope.h - what the deliveries of one publication have in common: the envelope, what
 * lists show of it, and what each delivery contributes to its ledger.
 *
 * Never changes after it was made, so that the lanes of all deliveries read it without a lock. It
 * goes with the last reference. Any thread.
 */
#ifndef HANDOFF_DELIVER_SHARED_ENVELOPE_H
#define HANDOFF_DELIVER_SHARED_ENVELOPE_H

#include <stdatomic.h>
#include <stddef.h>

#include "lib/base/span.h"
#include "lib/base/uuid.h"

struct handoff_shared_envelope {
    unsigned magic;
    _Atomic(unsigned) references;
    struct base_uuid id; /* of the publication's envelope */
    struct base_span envelope, excerpt, contribution;
    char text[]; /* of all three */
};

/* Copies the texts; an absent one stays absent. One reference, the caller's. NULL: out of memory.
 */
struct handoff_shared_envelope *handoff_shared_envelope_new(const struct base_uuid *id,
                                                            struct base_span envelope,
                                                            struct base_span excerpt,
                                                            struct base_span contribution);
struct handoff_shared_envelope *handoff_shared_envelope_ref(struct handoff_shared_envelope *shared);
/* Gives the reference back and sets *shared to NULL; NULL is fine. */
void handoff_shared_envelope_release(struct handoff_shared_envelope **shared);

#endif
