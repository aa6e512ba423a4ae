/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filters.h - filters that fit nothing: a name that is not known, but nearly, is a slip, and an
 * empty list would say that all is well.
 */
#ifndef HANDOFF_CALLS_FILTERS_H
#define HANDOFF_CALLS_FILTERS_H

#include "client/client.h"

/* What was filtered by; each may be NULL. */
struct handoff_filtered {
    const char *target, *source, *reason;
    const char *caller; /* who asks and sees only its own; NULL: everything */
};

/* Where a list is empty: unknown_agent, or invalid_request for a reason. An agent that is not known
 * is refused as a target; anybody may be a source, and a reason may be in an operator's words, so
 * these are refused only if they are nearly a name that is known. On a reader thread. */
enum handoff_code handoff_check_filters(struct handoff_client *client,
                                        const struct handoff_filtered *filtered,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

/* The reason alone. Any thread. */
enum handoff_code handoff_check_reason(const char *reason,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
