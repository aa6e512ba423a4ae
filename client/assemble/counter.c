/* SPDX-License-Identifier: Apache-2.0 */
/* Counts texts and remembers failures, see counter.h. Any thread. */
#include "client/assemble/counter.h"

uint32_t handoff_cost_of_text(struct handoff_counter *counter, struct base_span text)
{
    size_t tokens = 0;
    if (handoff_tokens_count(counter->tokenizer, text.data, text.size, &tokens) != HANDOFF_OK)
        counter->failed = true;
    return (uint32_t)tokens;
}

uint32_t handoff_cost_of_scratch(struct handoff_counter *counter)
{
    if (counter->scratch.failed)
        counter->failed = true;
    return counter->failed ? 0 : handoff_cost_of_text(counter, base_buffer_span(&counter->scratch));
}
