/* SPDX-License-Identifier: Apache-2.0 */
/* parked.h - parked handoffs as lists, groups and prospects. On a reader thread (lookup.c). */
#ifndef HANDOFF_CALLS_PARKED_H
#define HANDOFF_CALLS_PARKED_H

#include "client/client.h"
#include "client/store/parked.h"

/* The filter of a query, whose texts it borrows; invalid_request, invalid_cursor. */
enum handoff_code handoff_read_parked_filter(const struct handoff_parked_query *query,
                                             struct handoff_parked_filter *filter,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Those of handoff_parked. */
enum handoff_code handoff_read_parked(struct handoff_client *client,
                                      const struct handoff_parked_query *query,
                                      struct handoff_text *text,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;
enum handoff_code handoff_read_parked_groups(struct handoff_client *client,
                                             const struct handoff_parked_query *query,
                                             struct handoff_text *text,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;
/* The first of what would keep it from being delivered to an agent (empty: its own) now; OK:
 * nothing.
 */
enum handoff_code handoff_prospect_of(struct handoff_client *client,
                                      const struct handoff_stored *stored, struct base_span to);
/* That of handoff_prospect. */
enum handoff_code handoff_read_prospect(struct handoff_client *client, const char *id,
                                        const char *target, struct handoff_text *text,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
