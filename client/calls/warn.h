/* SPDX-License-Identifier: Apache-2.0 */
/* warn.h - answers that list what was ignored in a lenient request (client/model/lenient.h). */
#ifndef HANDOFF_CALLS_WARN_H
#define HANDOFF_CALLS_WARN_H

#include "client/handoff.h"

struct handoff_ignored;

/* Puts itself between a call and its asker: the answer will have as warnings what is ignored until
 * then. The list lives until the answer. NULL: out of memory, and nothing has changed. On the
 * loop's thread; the list belongs to the call. */
struct handoff_ignored *handoff_warn_in_answer(handoff_answered **answered, void **context);

#endif
