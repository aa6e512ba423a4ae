/* SPDX-License-Identifier: Apache-2.0 */
/* next.h - the next request, which came with an acknowledgement. */
#ifndef HANDOFF_CALLS_NEXT_H
#define HANDOFF_CALLS_NEXT_H

#include "client/client.h"

/* For struct handoff_engine_options. */
void handoff_client_hand_on(void *host, struct handoff_hand_on *on);

#endif
