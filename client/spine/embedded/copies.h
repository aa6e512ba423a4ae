/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies.h - last known copies of the memories of a remote spine.
 *
 * Copies are the memories of an embedded spine in a store for them alone, so that they are found by
 * id, pin and words as any other; each has the time at which the remote spine had it like that
 * (handoff_memory.copied_ms). The store needs no fsync: what it lost is fetched again, and one that
 * cannot be read is made anew.
 *
 * Whoever has an answer of the remote spine hands over what it was, and goes on. A thread writes
 * it; when it has much to write already, copies are not renewed. When they take more room than
 * they may, those that were used longest ago go.
 */
#ifndef HANDOFF_SPINE_EMBEDDED_COPIES_H
#define HANDOFF_SPINE_EMBEDDED_COPIES_H

#include "client/spine/embedded/embedded_spine.h"

struct handoff_copies;

struct handoff_copies_options {
    const char *path;                         /* the directory of their store */
    int64_t bytes_max;                        /* of their texts, with what a row costs */
    struct handoff_embedded_options embedded; /* how they are searched */
};

/* The codes of handoff_store_open. */
enum handoff_code handoff_copies_open(struct handoff_copies **copies,
                                      const struct handoff_copies_options *options,
                                      struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Writes what was handed over. No call may be pending. Takes a pointer to NULL. */
void handoff_copies_close(struct handoff_copies **copies);

/* To find them. It belongs to the copies, and is not changed through it. */
struct handoff_spine *handoff_copies_spine(struct handoff_copies *copies);

/* What an answer of the remote spine told. Everything is copied. */
struct handoff_copies_news {
    const struct handoff_found_memory *found; /* as it has them now */
    size_t count;
    const struct base_span *gone; /* ids of memories that it does not have, */
    size_t ngone;
    struct handoff_scopes scopes; /* ... or not in these */
};

/* Any thread; takes a lock for an instant. Without memory nothing is renewed. */
void handoff_copies_renew(struct handoff_copies *copies, const struct handoff_copies_news *news);

/* Of what was found, the copies were used. Likewise. */
void handoff_copies_used(struct handoff_copies *copies, const struct handoff_found_memory *found,
                         size_t count);

/* Of what is kept; as it was a moment ago. Any thread. */
int64_t handoff_copies_bytes(const struct handoff_copies *copies);

/* Waits until everything that was handed over before is written. For tests. */
void handoff_copies_settle(struct handoff_copies *copies);

#endif
