/* SPDX-License-Identifier: Apache-2.0 */
/*
 * difference.h - how two texts differ, line by line, for a person who is about to change one.
 *
 * Pure; any thread. Its time is bounded: where too much differs, the whole of it counts as
 * replaced.
 */
#ifndef HANDOFF_CALLS_DIFFERENCE_H
#define HANDOFF_CALLS_DIFFERENCE_H

#include "lib/base/buffer.h"
#include "lib/base/span.h"

/* Writes a JSON array of {"change": "removed", "added" or "same", "line"}: the lines that differ,
 * and a few beside them. The buffer fails for want of memory. */
void handoff_difference_write(struct base_buffer *out, struct base_span before,
                              struct base_span after);

#endif
