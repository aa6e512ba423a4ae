/* SPDX-License-Identifier: Apache-2.0 */
/* counter.h - counting the tokens of the texts of one context. Belongs to one thread at a time. */
#ifndef HANDOFF_ASSEMBLE_COUNTER_H
#define HANDOFF_ASSEMBLE_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/span.h"
#include "lib/tokens/handoff_tokens.h"

/* A sum of counts is exact only if every count succeeded, so a failure is remembered. */
struct handoff_counter {
    const struct handoff_tokenizer *tokenizer;
    struct base_buffer scratch;
    bool failed;
};

uint32_t handoff_cost_of_text(struct handoff_counter *counter, struct base_span text);
/* The same of what was written to `scratch`. */
uint32_t handoff_cost_of_scratch(struct handoff_counter *counter);

#endif
