/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brief.h - an envelope as Markdown that an agent can paste into its prompt.
 *
 * All text from agents and memories is untrusted. Long texts go into fenced blocks whose fence is
 * longer than any run of backticks inside; short ones go on one line with special characters of
 * Markdown escaped. So no content can end its section, forge a heading or open a link.
 */
#ifndef HANDOFF_ENVELOPE_BRIEF_H
#define HANDOFF_ENVELOPE_BRIEF_H

#include "client/envelope/read.h"
#include "lib/base/buffer.h"

void handoff_brief_write(struct base_buffer *out, const struct handoff_envelope *envelope);

#endif
