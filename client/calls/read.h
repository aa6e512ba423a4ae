/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - a handoff as the store and memory know it. Waits for the disk: for reader threads
 * (lookup.h), and for programs without clients.
 */
#ifndef HANDOFF_CALLS_READ_H
#define HANDOFF_CALLS_READ_H

#include "client/client.h"

/* not_found where the text is not an id. */
enum handoff_code handoff_read_id(const char *text, struct base_uuid *id,
                                  struct handoff_error *error);

/* Its texts live in the arena. */
enum handoff_code handoff_read_status(struct handoff_client *client, const struct base_uuid *id,
                                      struct base_arena *arena, struct handoff_status *status,
                                      struct handoff_error *error);

/* The hop of one that was parked at the hop limit, from its envelope; of others, and where that
   cannot be read, it is not known. */
void handoff_read_hop(struct handoff_client *client, const struct base_uuid *id,
                      struct base_arena *arena, struct handoff_status *status);

/* The answers' bodies of handoff_get, handoff_get_attempts, handoff_list, handoff_find and
 * handoff_envelope_get.
 */
enum handoff_code handoff_read_handoff(struct handoff_client *client, const char *id,
                                       const char *caller, struct handoff_text *text,
                                       struct handoff_error *error) HANDOFF_MUST_CHECK;
enum handoff_code handoff_read_attempts(struct handoff_client *client, const char *id,
                                        const char *caller, struct handoff_text *text,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;
enum handoff_code handoff_read_list(struct handoff_client *client,
                                    const struct handoff_list_query *query,
                                    struct handoff_text *text,
                                    struct handoff_error *error) HANDOFF_MUST_CHECK;
enum handoff_code handoff_read_found(struct handoff_client *client,
                                     const struct handoff_find_query *query,
                                     struct handoff_text *text,
                                     struct handoff_error *error) HANDOFF_MUST_CHECK;
enum handoff_code handoff_read_envelope(struct handoff_client *client, const char *id,
                                        const char *caller, enum handoff_rendering rendering,
                                        struct handoff_text *text,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;
/* That of handoff_ledger_get. */
enum handoff_code handoff_read_ledger(struct handoff_client *client, const char *id,
                                      const char *caller, const struct handoff_ledger_query *query,
                                      struct handoff_text *text,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Reads the RFC 3339 time of a query's field; NULL: 0. */
enum handoff_code handoff_read_time(const char *field, const char *text, int64_t *wall_ms,
                                    struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Reads "newest" or "oldest"; NULL: as is usual. */
enum handoff_code handoff_read_order(const char *text, bool *newest_first, bool usually_newest,
                                     struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Writes rows as the items of a list; of those whose state has changed since, only parked ones if
   `parked`. */
enum handoff_code handoff_read_write_items(struct handoff_client *client, struct base_buffer *out,
                                           const struct handoff_stored *list, size_t count,
                                           bool parked,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Reads a cursor that is a number. */
enum handoff_code handoff_read_cursor(const char *cursor, int64_t *after,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;
/* A handoff, for a caller that may see it, as `view` has it where its state is not 0. */
enum handoff_code handoff_read_view(struct handoff_client *client, const struct base_uuid *id,
                                    const struct handoff_live_view *view, struct handoff_text *text,
                                    struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
