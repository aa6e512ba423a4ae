/* SPDX-License-Identifier: Apache-2.0 */
/*
 * legacy.h - version 1, the flat form, for agents that only read that.
 *
 *   {"version": 1, "from", "to", "task", "context": {"task", "history", "references",
 * "expected_output"}, "memories": [...], "constraints": {...}, "missing": [...], "omitted": {...}}
 *
 * `task` is the work for the receiver. What the document lacks is said as in version 2, where there
 * is something. A dual document is a version 2 envelope followed by the
 * members of version 1; its `context` is that of version 2, which includes everything that version
 * 1 promises. The digest of a dual document covers both.
 */
#ifndef HANDOFF_ENVELOPE_LEGACY_H
#define HANDOFF_ENVELOPE_LEGACY_H

#include "client/envelope/read.h"
#include "lib/base/buffer.h"

/* Appends the version 1 document. */
void handoff_legacy_write(struct base_buffer *out, const struct handoff_envelope *envelope);

/* Appends the members that make an envelope dual: those of version 1 except context, each after a
 * comma. The memories are given as JSON; constraints may be NULL. */
void handoff_legacy_write_members(struct base_buffer *out, struct base_span source_agent,
                                  struct base_span target_agent, struct base_span summary,
                                  struct base_span memories, yyjson_val *constraints);

#endif
