/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inheritance.h - what a child takes from its parent, kept when retention has removed the body.
 *
 * An envelope's body is large and goes early. What a child must not lose of it is small: the task's
 * intent, the constraints, the hop count and path, who was party to it. The encoder knows their
 * offsets; the inheritance is copied from there and kept in the envelope's row (about 400 bytes),
 * so that a later hop can neither shed a constraint nor start counting hops anew. The history goes
 * with the body; the inheritance says how many steps that were, and the child says so in
 * `history_trimmed`.
 *
 * Pure, any thread.
 */
#ifndef HANDOFF_ENVELOPE_INHERITANCE_H
#define HANDOFF_ENVELOPE_INHERITANCE_H

#include <stdint.h>

#include "client/envelope/read.h"
#include "lib/base/arena.h"
#include "lib/base/sha256.h"
#include "lib/base/span.h"
#include "lib/base/uuid.h"

/* A larger one is not kept, or a few senders could fill the budget of the rows with long intents;
   then a child is refused once the body is gone. */
enum { HANDOFF_INHERITANCE_MAX = 4096 };

/* Offsets fit: an envelope has at most HANDOFF_ENVELOPE_MAX bytes. */
struct handoff_inheritance {
    uint32_t origin_at, origin_size;           /* `"task_id":...,"hop":{...},"trace":{...}` */
    uint32_t intent_at, intent_size;           /* a JSON string */
    uint32_t constraints_at, constraints_size; /* a JSON object */
    uint32_t steps;                            /* of the history, in the envelope */
};

/* What handoff_inheritance_copy takes in the arena; 0: there is none, or it is too large. */
size_t handoff_inheritance_size(const struct handoff_inheritance *inheritance);

/* A JSON object, in the arena. Absent: none, or no memory. */
struct base_span handoff_inheritance_copy(const struct handoff_inheritance *inheritance,
                                          struct base_span envelope, struct base_arena *arena);

/* The parent as far as it is known: what is not inherited is empty, and *steps are missing from its
   history. id and digest are copied into the arena. On success the caller frees it. */
enum handoff_code handoff_inheritance_read(struct base_span text, const struct base_uuid *id,
                                           const uint8_t digest[BASE_SHA256_BYTES],
                                           struct base_arena *arena,
                                           struct handoff_envelope *envelope, size_t *steps,
                                           struct handoff_error *error) HANDOFF_MUST_CHECK;

#endif
