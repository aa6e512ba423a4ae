/* SPDX-License-Identifier: Apache-2.0 */
/*
 * excerpt.h - the members of an envelope that answers repeat, and their offsets.
 *
 * Answers repeat a few members of the envelope, byte for byte. The encoder knows their offsets and
 * keeps them with the envelope, so no answer parses 8 KiB of JSON for 100 bytes. For an envelope
 * from the store they are unknown, and it is parsed.
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
