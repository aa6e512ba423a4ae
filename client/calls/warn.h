/* SPDX-License-Identifier: Apache-2.0 */
/* warn.h - the warnings of a request on the way to its answer (client/model/warnings.h). */
#ifndef HANDOFF_CALLS_WARN_H
#define HANDOFF_CALLS_WARN_H

#include "client/handoff.h"

struct handoff_warnings;

/* Puts itself between a call and its asker: the answer will have the warnings that come until then.
 * They live until the answer. NULL: out of memory, and nothing has changed. On the loop's thread;
 * the list belongs to the call. */
struct handoff_warnings *handoff_warn_in_answer(handoff_answered **answered, void **context);

#endif
