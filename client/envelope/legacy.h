/* SPDX-License-Identifier: Apache-2.0 */
/*
 * legacy.h - version 1, the flat form, for agents that read nothing newer.
 *
 *   {"version": 1, "from", "to", "task", "context": {"task", "history", "expected_output"},
 *    "memories": [...], "constraints": {...}}
 *
 * `task` is what the receiver is to do. A dual document is an envelope of version 2 with the
 * members of version 1 behind its own; `context` is the one of version 2, which has all that
 * version 1 promises of it. The digest of a dual document covers both.
 */
#ifndef HANDOFF_ENVELOPE_LEGACY_H
#define HANDOFF_ENVELOPE_LEGACY_H

#include "client/envelope/read.h"
#include "lib/base/buffer.h"

/* Appends the version 1 document. */
void handoff_legacy_write(struct base_buffer *out, const struct handoff_envelope *envelope);

/* Appends what makes an envelope dual: the members of version 1 except context, each with a comma
 * before it. The memories are given as JSON; constraints may be NULL. */
void handoff_legacy_write_members(struct base_buffer *out, struct base_span source_agent,
                                  struct base_span target_agent, struct base_span summary,
                                  struct base_span memories, yyjson_val *constraints);

#endif
