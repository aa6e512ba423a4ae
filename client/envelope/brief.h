/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brief.h - an envelope as Markdown that an agent can paste into its prompt.
 *
 * All text from agents and memories is untrusted, and a brief keeps it apart from what the sidecar
 * says: headings, labels and the sentences between them are ours, everything in a block or behind a
 * label is theirs. Long texts go into fenced blocks whose fence is longer than any run of backticks
 * inside; short ones go on one line with special characters of Markdown escaped. So no content can
 * end its section, forge a heading, pose as a constraint or open a link.
 *
 * Characters that a reader does not see are replaced by U+FFFD: controls, and those that change the
 * direction of text or hide in it. A person who reviews a brief sees what a model is given.
 */
#ifndef HANDOFF_ENVELOPE_BRIEF_H
#define HANDOFF_ENVELOPE_BRIEF_H

#include "client/envelope/read.h"
#include "lib/base/buffer.h"

/* It names `envelope->id` as the handoff, and `envelope->target_agent` as the one that gets it; of
   a publication, the caller sets both to what its delivery says. */
void handoff_brief_write(struct base_buffer *out, const struct handoff_envelope *envelope);

#endif
