/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipelines.h - pipelines and what the target "next" resolves to.
 *
 * The pipelines are a snapshot of the configuration, immutable and replaced as a whole. A lookup
 * copies the one name that it finds, so no snapshot is held beyond a call.
 *
 * Any thread.
 */
#ifndef HANDOFF_AGENTS_PIPELINES_H
#define HANDOFF_AGENTS_PIPELINES_H

#include <pthread.h>

#include "client/handoff.h"
#include "lib/base/arena.h"
#include "lib/base/error.h"

struct handoff_pipeline_set;

struct handoff_pipelines {
    pthread_rwlock_t lock;            /* held to look something up, or to exchange the pointer */
    struct handoff_pipeline_set *set; /* NULL: there are none */
};

void handoff_pipelines_init(struct handoff_pipelines *pipelines);
void handoff_pipelines_free(struct handoff_pipelines *pipelines);

/* A copy of what the configuration says, to be applied. */
enum handoff_code handoff_pipeline_set_new(struct handoff_pipeline_set **set,
                                           const struct handoff_pipeline_options *options,
                                           size_t count,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;
/* NULL in it is fine. */
void handoff_pipeline_set_free(struct handoff_pipeline_set **set);
/* Takes the set over. */
void handoff_pipelines_put_in_force(struct handoff_pipelines *pipelines,
                                    struct handoff_pipeline_set **set);

/* The agent after `source`, copied into the arena. `name` is the pipeline; absent: the only one
   that has the source. invalid_request where that leads nowhere or to several, no_next_agent where
   the source is the last. */
enum handoff_code handoff_pipelines_next(struct handoff_pipelines *pipelines, struct base_span name,
                                         struct base_span source, struct base_arena *arena,
                                         struct base_span *next,
                                         struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
