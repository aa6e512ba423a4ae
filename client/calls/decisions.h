/* SPDX-License-Identifier: Apache-2.0 */
/* decisions.h - decisions as the API shows them. On a reader thread (lookup.c). */
#ifndef HANDOFF_CALLS_DECISIONS_H
#define HANDOFF_CALLS_DECISIONS_H

#include "client/client.h"

enum handoff_code handoff_read_decisions(struct handoff_client *client,
                                         const struct handoff_decision_query *query,
                                         struct handoff_text *text,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
