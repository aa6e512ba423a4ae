/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brief.h - an envelope as Markdown that an agent can paste into its prompt.
 *
 * Everything that came from an agent or a memory is untrusted. Long texts stand in fenced blocks
 * whose fence is longer than any run of backticks inside, short ones are put on one line with
 * Markdown's characters escaped; so no content can end its section, forge a heading or open a link.
 */
#ifndef HANDOFF_ENVELOPE_BRIEF_H
#define HANDOFF_ENVELOPE_BRIEF_H

#include "client/envelope/read.h"
#include "lib/base/buffer.h"

void handoff_brief_write(struct base_buffer *out, const struct handoff_envelope *envelope);

#endif
