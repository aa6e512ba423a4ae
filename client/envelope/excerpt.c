/* SPDX-License-Identifier: Apache-2.0 */
/* The excerpt of an envelope: put together from its bytes, and written as JSON. Pure, any thread.
 */
#include "client/envelope/excerpt.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/decimal.h"

#define VERSION_LINE "\"2.1\"\n"

/* What an answer has before each line, and after the last. */
static const char *const before[] = {
    "\"envelope_version\":",
    ",\"token_count\":",
    ",\"memory_refs\":",
    ",\"missing\":",
    ",\"completeness\":{\"requested\":",
    ",\"included\":",
    ",\"ratio\":",
};
static const char behind[] = "}";
enum { LINES = sizeof before / sizeof before[0] };

size_t handoff_excerpt_size(const struct handoff_excerpt *excerpt)
{
    return sizeof VERSION_LINE + BASE_DECIMAL_SIZE + LINES + excerpt->memory_refs.size +
           excerpt->missing.size + excerpt->requested.size + excerpt->included.size +
           excerpt->ratio.size;
}

static char *append_line(char *to, struct base_span envelope, struct handoff_excerpt_value value)
{
    BASE_CHECK(value.at + value.size <= envelope.size);
    *to++ = '\n';
    memcpy(to, envelope.data + value.at, value.size);
    return to + value.size;
}

struct base_span handoff_excerpt_copy(const struct handoff_excerpt *excerpt,
                                      struct base_span envelope, uint64_t tokens,
                                      struct base_arena *arena)
{
    const size_t room = handoff_excerpt_size(excerpt);
    char *text = base_arena_alloc(arena, room), *to = text;
    if (!text)
        return base_span(NULL, 0);
    memcpy(to, VERSION_LINE, sizeof VERSION_LINE - 1);
    to += sizeof VERSION_LINE - 1;
    to += base_decimal((int64_t)tokens, to);
    to = append_line(to, envelope, excerpt->memory_refs);
    to = append_line(to, envelope, excerpt->missing);
    to = append_line(to, envelope, excerpt->requested);
    to = append_line(to, envelope, excerpt->included);
    to = append_line(to, envelope, excerpt->ratio);
    BASE_CHECK((size_t)(to - text) <= room);
    return base_span(text, (size_t)(to - text));
}

/* The next line, without its end; the text goes on behind it. JSON as we write it has no line
   breaks, so a line is a value. */
static struct base_span take_value_line(struct base_span *text)
{
    const char *end = memchr(text->data, '\n', text->size);
    const size_t size = end ? (size_t)(end - text->data) : text->size;
    const size_t taken = size + (end ? 1 : 0);
    struct base_span line = base_span(text->data, size);
    *text = base_span(text->data + taken, text->size - taken);
    return line;
}

struct base_span handoff_excerpt_of_row(struct base_span text)
{
    struct base_span rest = text;
    for (int i = 0; i < LINES; i++) {
        if (rest.size == 0 || take_value_line(&rest).size == 0)
            return base_span(NULL, 0);
    }
    return rest.size == 0 ? text : base_span(NULL, 0);
}

void handoff_excerpt_write(struct base_buffer *out, struct base_span lines)
{
    for (int i = 0; i < LINES; i++) {
        struct base_span value = take_value_line(&lines);
        base_buffer_text(out, before[i]);
        base_buffer_append(out, value.data, value.size);
    }
    base_buffer_text(out, behind);
}
