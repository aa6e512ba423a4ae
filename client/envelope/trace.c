/* SPDX-License-Identifier: Apache-2.0 */
/* Trace Context, level 1 (https://www.w3.org/TR/trace-context-1/). Pure, any thread. */
#include "client/envelope/trace.h"

#include <string.h>

enum { TRACE_AT = 3, TRACE_SIZE = 32, SPAN_AT = 36, SPAN_SIZE = 16, FLAGS_AT = 53, LENGTH = 55 };
_Static_assert(HANDOFF_TRACEPARENT_SIZE == LENGTH + 1, "the text and its NUL");

static bool is_hex(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    }
    return true;
}

static bool is_id(const char *text, size_t size)
{
    return is_hex(text, size) && strspn(text, "0") < size;
}

bool handoff_traceparent_is_valid(struct base_span text)
{
    const char *t = text.data;
    return text.size == LENGTH && t[TRACE_AT - 1] == '-' && t[SPAN_AT - 1] == '-' &&
           t[FLAGS_AT - 1] == '-' && is_hex(t, 2) && memcmp(t, "ff", 2) != 0 &&
           is_id(t + TRACE_AT, TRACE_SIZE) && is_id(t + SPAN_AT, SPAN_SIZE) &&
           is_hex(t + FLAGS_AT, 2);
}

bool handoff_tracestate_is_valid(struct base_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < 0x20 || text.data[i] > 0x7e)
            return false;
    }
    return text.size > 0 && text.size <= HANDOFF_TRACESTATE_MAX;
}

static void write_hex(char *to, const unsigned char *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        to[2 * i] = digits[bytes[i] >> 4];
        to[2 * i + 1] = digits[bytes[i] & 15];
    }
}

void handoff_traceparent_make(const struct base_random *random, char text[HANDOFF_TRACEPARENT_SIZE])
{
    unsigned char bytes[(TRACE_SIZE + SPAN_SIZE) / 2];
    random->fill(random, bytes, sizeof(bytes));
    bytes[0] |= 1; /* an id of zeros would be invalid */
    bytes[TRACE_SIZE / 2] |= 1;
    memcpy(text, "00-", TRACE_AT);
    write_hex(text + TRACE_AT, bytes, TRACE_SIZE / 2);
    text[SPAN_AT - 1] = '-';
    write_hex(text + SPAN_AT, bytes + TRACE_SIZE / 2, SPAN_SIZE / 2);
    memcpy(text + FLAGS_AT - 1, "-01", 4);
}
