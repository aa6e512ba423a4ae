/* SPDX-License-Identifier: Apache-2.0 */
/*
 * excerpt.h - what an answer tells of an envelope, and where that stands in it.
 *
 * Answers repeat a few members of the envelope, byte for byte. Whoever has just written one knows
 * where they are, and keeps it with the envelope, so that no answer has to read 8 KiB of JSON for
 * 100 bytes. Of an envelope that comes from the store it is not known, and it is read.
 */
#ifndef HANDOFF_ENVELOPE_EXCERPT_H
#define HANDOFF_ENVELOPE_EXCERPT_H

#include <stdint.h>

#define HANDOFF_EXCERPT_VERSION "\"envelope_version\":\"2.0\""

/* Offsets fit: an envelope has at most HANDOFF_ENVELOPE_MAX bytes. */
struct handoff_excerpt {
    uint32_t lists_at, lists_size; /* `"memory_refs":[...],"missing":[...]`; size 0: not known */
    uint32_t completeness_at, completeness_size; /* `"completeness":{...}` */
};

#endif
