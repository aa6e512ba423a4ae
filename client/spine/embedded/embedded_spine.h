/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedded_spine.h - the spine in the store: memories are rows of its database.
 *
 * What asks for nothing finishes at once; all else is pending: reads run on the store's reader
 * threads, writes on its writer.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_EMBEDDED_SPINE_H
#define HANDOFF_SPINE_EMBEDDED_EMBEDDED_SPINE_H

#include "client/spine/spine.h"
#include "client/store/store.h"
#include "lib/base/clock.h"

struct handoff_embedded_options {
    struct handoff_memory_limits limits; /* a 0 is the default */
    int64_t search_timeout_ms;           /* after which a search gives what it has; 0: 50 */
    bool no_stemming;                    /* words are found as they are written only */
    const struct base_clock *clock;      /* NULL: the system's */
};

/* The store must outlive it. */
enum handoff_code handoff_embedded_spine_open(struct handoff_spine **spine,
                                              struct handoff_store *store,
                                              const struct handoff_embedded_options *options,
                                              struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
