/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - a read of the store on behalf of a loop, which does not wait for it. */
#ifndef HANDOFF_CALLS_LOOKUP_H
#define HANDOFF_CALLS_LOOKUP_H

#include "client/client.h"

/* Answers with the handoff, on the loop: as the store has it, but for what `view` says of it, where
   its state is not 0. The view is copied. On the loop's thread. */
void handoff_look_up(struct handoff_loop *loop, const struct base_uuid *id,
                     const struct handoff_live_view *view, handoff_answered *answered,
                     void *context);

#endif
