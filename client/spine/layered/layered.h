/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layered.h - a remote spine, with what the sidecar has itself.
 *
 * Three layers, asked in this order, each for what those before it did not find:
 *
 *     local    the memories of the sidecar's own store, where spine.write is local; such a memory
 *              takes the place of a remote one with its id
 *     remote   any driver; it is asked whenever there is something to ask, so that what it gives is
 *              always as fresh as it can be
 *     copies   last known copies of the remote's memories (embedded/copies.h): by id, pins and
 * words where the remote failed, and by words where it cannot search
 *
 * What the copies give has its time (copied_ms). A resolve for which the remote failed keeps that
 * error, and has in `found` what the other layers gave: handoff_spine_is_lost.
 *
 * Writes go to the local layer where there is one, else to the remote one. Calls come from any
 * thread; they continue on their mailbox's loop.
 */
#ifndef HANDOFF_SPINE_LAYERED_LAYERED_H
#define HANDOFF_SPINE_LAYERED_LAYERED_H

#include "client/spine/embedded/copies.h"
#include "client/spine/spine.h"

/* The copies were looked at for a call: so many were used, so many ids had none. */
typedef void handoff_copies_were_used(void *observer, size_t used, size_t lacking,
                                      int64_t oldest_ns);

struct handoff_layered_options {
    struct handoff_spine *remote;  /* with is_up */
    struct handoff_spine *local;   /* NULL: writes go to the remote one */
    struct handoff_copies *copies; /* NULL: none are kept */
    const struct base_clock *clock;
    handoff_copies_were_used *on_copies; /* on a call's loop, or where it began; may be NULL */
    void *observer;
};

/* The layers belong to it from now on, also on failure: out_of_memory. */
enum handoff_code handoff_layered_spine_open(struct handoff_spine **spine,
                                             const struct handoff_layered_options *options,
                                             struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
