/* SPDX-License-Identifier: Apache-2.0 */
/*
 * excerpt.h - the members of an envelope that answers repeat, and their offsets.
 *
 * Answers and lists repeat a few members of the envelope, byte for byte. The encoder knows their
 * offsets; the excerpt is then copied and kept with the handoff, in memory and in its row. So no
 * answer parses 8 KiB of JSON for 100 bytes, and a list reads no envelopes.
 */
#ifndef HANDOFF_ENVELOPE_EXCERPT_H
#define HANDOFF_ENVELOPE_EXCERPT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/arena.h"
#include "lib/base/span.h"

#define HANDOFF_EXCERPT_VERSION "\"envelope_version\":\"2.0\""

/* Offsets fit: an envelope has at most HANDOFF_ENVELOPE_MAX bytes. */
struct handoff_excerpt {
    uint32_t lists_at, lists_size;               /* `"memory_refs":[...],"missing":[...]` */
    uint32_t completeness_at, completeness_size; /* `"completeness":{...}` */
};

/* What handoff_excerpt_copy takes in the arena, at most. */
size_t handoff_excerpt_size(const struct handoff_excerpt *excerpt);

/* `"envelope_version":...,"token_count":...,"memory_refs":...,"missing":...,"completeness":...`, as
   an answer has it. Absent: no memory. */
struct base_span handoff_excerpt_copy(const struct handoff_excerpt *excerpt,
                                      struct base_span envelope, uint64_t tokens,
                                      struct base_arena *arena);

#endif
