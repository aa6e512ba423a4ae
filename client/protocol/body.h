/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.h - an envelope as an agent reads it, for the protocols that send our documents.
 *
 * An agent gets the newest version that it reads, or the brief. Version 1 and the brief are made
 * for each attempt, from the envelope as it was assembled, which is version 2 or both in one
 * document. Any thread.
 */
#ifndef HANDOFF_PROTOCOL_BODY_H
#define HANDOFF_PROTOCOL_BODY_H

#include "client/handoff.h"
#include "lib/base/buffer.h"
#include "lib/base/span.h"

/* A dual document cannot be made at delivery, since its digest covers both forms. */
enum handoff_obstacle handoff_body_obstacle(const struct handoff_agent_options *options,
                                            struct base_span envelope);

/* The handoff that carries an envelope, and its receiver. A publication's envelope has another id,
   and names no receiver; a brief says both. */
struct handoff_carrier {
    const char *id;
    struct base_span receiver; /* absent: as the envelope says */
};

/* The body to send, and what it is: the envelope itself, or another form written into `flat`, which
   is cleared before. false: out of memory. */
bool handoff_body_choose(const struct handoff_agent_options *options,
                         const struct handoff_carrier *carrier, struct base_span envelope,
                         struct base_buffer *flat, struct base_span *body,
                         enum handoff_rendering *rendering);

/* Its Content-Type, as a whole header. */
const char *handoff_body_type(enum handoff_rendering rendering);

#endif
