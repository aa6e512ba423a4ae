/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channels.h - the channels that envelopes can be published to.
 *
 * The channels are a snapshot of the configuration, immutable and replaced as a whole. A lookup
 * copies what it finds, so no snapshot is held beyond a call, and a publication goes to those that
 * were receivers when it was made.
 *
 * Any thread.
 */
#ifndef HANDOFF_CHANNELS_CHANNELS_H
#define HANDOFF_CHANNELS_CHANNELS_H

#include <pthread.h>

#include "client/channels/feeds.h"
#include "client/handoff.h"
#include "lib/base/arena.h"
#include "lib/base/error.h"
#include "lib/base/span.h"

struct handoff_channel_set;

struct handoff_channels {
    pthread_rwlock_t lock;           /* held to look something up, or to exchange the pointer */
    struct handoff_channel_set *set; /* NULL: there are none */
    struct handoff_feeds feeds;      /* has its own lock */
};

void handoff_channels_init(struct handoff_channels *channels);
void handoff_channels_free(struct handoff_channels *channels);

/* A copy of what the configuration says, to be applied. */
enum handoff_code handoff_channel_set_new(struct handoff_channel_set **set,
                                          const struct handoff_channel_options *options,
                                          size_t count,
                                          struct handoff_error *error) HANDOFF_MUST_CHECK;
/* NULL in it is fine. */
void handoff_channel_set_free(struct handoff_channel_set **set);
/* Takes the set over. */
void handoff_channels_put_in_force(struct handoff_channels *channels,
                                   struct handoff_channel_set **set);

/* A copy in the arena. unknown_channel, out_of_memory. */
enum handoff_code handoff_channels_find(struct handoff_channels *channels, struct base_span name,
                                        struct base_arena *arena,
                                        struct handoff_channel_options *channel,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Copies of all, in the order of the configuration. */
enum handoff_code handoff_channels_copy(struct handoff_channels *channels, struct base_arena *arena,
                                        struct handoff_channel_options **list, size_t *count,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
