/* SPDX-License-Identifier: Apache-2.0 */
/* stored_envelope.h - what a stored envelope says about itself, as its assembly would say it. Pure;
 * any thread. */
#ifndef HANDOFF_CALLS_STORED_ENVELOPE_H
#define HANDOFF_CALLS_STORED_ENVELOPE_H

#include "client/deliver/engine.h"
#include "client/envelope/read.h"
#include "lib/base/buffer.h"

/* The lines of excerpt.h. */
void handoff_stored_excerpt_write(struct base_buffer *out, const struct handoff_envelope *envelope);
/* A whole number of the document; 0 where there is none. */
size_t handoff_stored_count(yyjson_val *object, const char *key);
enum handoff_pattern handoff_stored_pattern(const struct handoff_envelope *envelope);
/* Whether the target is already on its path, or is its source. */
bool handoff_stored_is_cycle_to(const struct handoff_envelope *envelope, struct base_span target);
/* What the assembly of its request would tell, but for the durations; `id` is its text, or NULL.
   Lent by both. */
void handoff_stored_event(const struct handoff_envelope *envelope, const char *id,
                          struct handoff_event *event);

/* Lent by the envelope and the two texts, which are the document and its excerpt's lines. Without
   the id. */
void handoff_stored_submission(const struct handoff_envelope *envelope, struct base_span text,
                               struct base_span excerpt, struct handoff_submission *submission);

#endif
