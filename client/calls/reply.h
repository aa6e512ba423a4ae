/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h - how the asker of a handoff gets its answer. On the loop's thread. */
#ifndef HANDOFF_CALLS_REPLY_H
#define HANDOFF_CALLS_REPLY_H

#include "client/assemble/request.h"
#include "client/deliver/delivery.h"
#include "client/handoff.h"
#include "lib/base/buffer.h"

/* The handoff as the body, and the error where it ended without an acknowledgement. */
void handoff_answer_with_status(handoff_answered *answered, void *context,
                                const struct handoff_status *status, bool created);
/* The error, and the handoff that it is about. */
void handoff_answer_with_error(handoff_answered *answered, void *context,
                               const struct handoff_status *status,
                               const struct handoff_error *error);
/* The handoff as the body, whatever its state. */
void handoff_answer_with_standing(handoff_answered *answered, void *context,
                                  const struct handoff_status *status, bool created);
void handoff_give_error(handoff_answered *answered, void *context,
                        const struct handoff_error *error);
/* Copies the name of a sender, which may be absent. */
void handoff_keep_source(char to[HANDOFF_NAME_MAX + 1], struct base_span source);
/* The same, where the request names its sender; "": the sender is not known. */
void handoff_give_rejection(handoff_answered *answered, void *context,
                            const struct handoff_error *error, const char *source);
void handoff_give_no_memory(handoff_answered *answered, void *context);

#endif
