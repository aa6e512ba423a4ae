/* SPDX-License-Identifier: Apache-2.0 */
/* The excerpt of an envelope, put together from its bytes. Pure, any thread. */
#include "client/envelope/excerpt.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/decimal.h"

#define BEFORE_COUNT HANDOFF_EXCERPT_VERSION ",\"token_count\":"

size_t handoff_excerpt_size(const struct handoff_excerpt *excerpt)
{
    return sizeof BEFORE_COUNT + BASE_DECIMAL_SIZE + sizeof ",," + excerpt->lists_size +
           excerpt->completeness_size;
}

static char *append_bytes(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
    return to + size;
}

struct base_span handoff_excerpt_copy(const struct handoff_excerpt *excerpt,
                                      struct base_span envelope, uint64_t tokens,
                                      struct base_arena *arena)
{
    const size_t room = handoff_excerpt_size(excerpt);
    char *text = base_arena_alloc(arena, room), *to = text;
    if (!text)
        return base_span(NULL, 0);
    to = append_bytes(to, BEFORE_COUNT, sizeof BEFORE_COUNT - 1);
    to += base_decimal((int64_t)tokens, to);
    *to++ = ',';
    to = append_bytes(to, envelope.data + excerpt->lists_at, excerpt->lists_size);
    *to++ = ',';
    to = append_bytes(to, envelope.data + excerpt->completeness_at, excerpt->completeness_size);
    BASE_CHECK((size_t)(to - text) <= room);
    return base_span(text, (size_t)(to - text));
}
