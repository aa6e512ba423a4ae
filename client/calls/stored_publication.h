/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stored_publication.h - an envelope that was assembled for a broadcast, read to be published.
 *
 * On the loop's thread; a reader thread has it in between.
 */
#ifndef HANDOFF_CALLS_STORED_PUBLICATION_H
#define HANDOFF_CALLS_STORED_PUBLICATION_H

#include "client/client.h"
#include "client/envelope/read.h"

/* Embedded in its owner, who keeps it until `was_read`. */
struct handoff_stored_to_publish {
    /* set by the owner; texts are lent until it is freed */
    struct handoff_loop *loop;
    const char *id_text; /* NULL: there is none */
    const char *channel;
    const char *caller;    /* NULL: an operator, or anybody */
    uint64_t least_budget; /* of its receivers; 0: they take any envelope */
    void (*was_read)(struct handoff_stored_to_publish *stored); /* on the loop */

    struct handoff_store_read read;

    /* the reader's, then the loop's */
    struct handoff_error error;
    bool is_published; /* to this channel; then only the id is filled */
    int64_t at_ms;     /* when it is published: later than it was made */
    struct handoff_submission submission;
    struct base_span excerpt_lines;
    struct base_buffer passed_on, excerpt;
    struct base_span request; /* what it was made of, if it is larger than the least budget */
    struct base_arena arena;
    struct handoff_text text;
    struct handoff_envelope envelope;
};

/* Reads it, again if it was read before. */
void handoff_stored_to_publish_read(struct handoff_stored_to_publish *stored);
/* Fills the submission of one that was published, with `loop` set; on a reader thread. Without
   checks: what may be published was checked then. not_found, envelope_removed. */
enum handoff_code handoff_stored_to_publish_load(struct handoff_stored_to_publish *stored,
                                                 const struct base_uuid *id) HANDOFF_MUST_CHECK;
/* A zeroed one is fine. */
void handoff_stored_to_publish_free(struct handoff_stored_to_publish *stored);

#endif
