/* SPDX-License-Identifier: Apache-2.0 */
/*
 * excerpt.h - the members of an envelope that answers repeat.
 *
 * Answers and lists repeat a few members of the envelope, byte for byte. The encoder knows where
 * their values are; these are then copied and kept with the handoff, in memory and in its row. So
 * no answer parses 8 KiB of JSON for 100 bytes, and a list reads no envelopes.
 *
 * Kept are the values alone, one on each line: "2.1", the token count, the memory references, what
 * is missing, and the three numbers of the completeness. The names would be five times as long, and
 * the row is written twice for every handoff.
 */
#ifndef HANDOFF_ENVELOPE_EXCERPT_H
#define HANDOFF_ENVELOPE_EXCERPT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/arena.h"
#include "lib/base/buffer.h"
#include "lib/base/span.h"

#define HANDOFF_EXCERPT_VERSION        "\"envelope_version\":\"2.1\""
#define HANDOFF_EXCERPT_VERSION_BEFORE "\"envelope_version\":\"2.0\""

/* A value in the envelope. Offsets fit: an envelope has at most HANDOFF_ENVELOPE_MAX bytes. */
struct handoff_excerpt_value {
    uint32_t at, size;
};

/* All zero: the positions are not known. */
struct handoff_excerpt {
    struct handoff_excerpt_value memory_refs, missing;
    struct handoff_excerpt_value requested, included, ratio; /* of `completeness` */
};

/* What handoff_excerpt_copy takes in the arena, at most. */
size_t handoff_excerpt_size(const struct handoff_excerpt *excerpt);

/* The lines. Absent: no memory. */
struct base_span handoff_excerpt_copy(const struct handoff_excerpt *excerpt,
                                      struct base_span envelope, uint64_t tokens,
                                      struct base_arena *arena);

/* The lines of a row; absent where there are none, or where another version wrote them differently.
   The envelope has to be read then. */
struct base_span handoff_excerpt_of_row(struct base_span text);

/* Writes the lines as an answer has them: `"envelope_version":...,"token_count":...,
   "memory_refs":...,"missing":...,"completeness":{...}`. */
void handoff_excerpt_write(struct base_buffer *out, struct base_span lines);

#endif
