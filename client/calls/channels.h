/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channels.h - channels and publications as the API shows them. The reads wait for the disk: for
 * reader threads (lookup.h).
 */
#ifndef HANDOFF_CALLS_CHANNELS_H
#define HANDOFF_CALLS_CHANNELS_H

#include "client/client.h"
#include "client/store/channels.h"

/* One delivery, as an answer has it. */
struct handoff_shown_delivery {
    struct base_uuid id, envelope; /* the publication's, or its own projection */
    struct base_span receiver, target;
    enum handoff_state state;
    const char *reason;
    uint32_t attempts;
    int64_t settled_ms;
};

void handoff_publication_write(struct base_buffer *out,
                               const struct handoff_stored_publication *publication,
                               const struct handoff_shown_delivery *deliveries, size_t count);

/* The answers' bodies of handoff_publication_get and its like. A caller that published nothing and
   received nothing of it gets not_found; a receiver sees its own delivery. *under_way: one of the
   deliveries is. `channel` NULL: any. */
enum handoff_code handoff_read_publication(struct handoff_client *client, const char *channel,
                                           const struct base_uuid *id, const char *caller,
                                           struct handoff_text *text, bool *under_way,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;
enum handoff_code handoff_read_publications(struct handoff_client *client, const char *channel,
                                            const char *caller, const char *cursor, int64_t limit,
                                            struct handoff_text *text,
                                            struct handoff_error *error) HANDOFF_MUST_CHECK;
/* An agent sees of a channel what waits for itself. `name` NULL: all channels. */
enum handoff_code handoff_read_channels(struct handoff_client *client, const char *name,
                                        const char *caller, struct handoff_text *text,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
