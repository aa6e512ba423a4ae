/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: checked, repaired and read with one table of what may follow a lead byte. Any thread. */
#include "lib/base/utf8.h"

#include "lib/base/memory.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
#define REPLACEMENT_LENGTH (sizeof(replacement) - 1)

/* What may follow a lead byte. The first continuation has bounds of its own, which is what keeps
 * overlong forms, surrogates and numbers above U+10FFFF out. */
struct sequence {
    unsigned width; /* 0: this byte cannot begin a character */
    uint8_t first_low, first_high;
};

static struct sequence sequence_of(uint8_t lead)
{
    if (lead < 0x80)
        return (struct sequence){1, 0, 0};
    if (lead < 0xc2)
        return (struct sequence){0, 0, 0};
    if (lead < 0xe0)
        return (struct sequence){2, 0x80, 0xbf};
    if (lead < 0xf0)
        return (struct sequence){3, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf};
    if (lead < 0xf5)
        return (struct sequence){4, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf};
    return (struct sequence){0, 0, 0};
}

/* Measures what stands at a place: a whole character (true), or an ill-formed subsequence. */
static bool measure(const uint8_t *at, const uint8_t *end, size_t *width)
{
    struct sequence sequence = sequence_of(*at);
    size_t seen = 1;

    if (sequence.width > 1 && at + 1 < end && at[1] >= sequence.first_low &&
        at[1] <= sequence.first_high) {
        seen = 2;
        while (seen < sequence.width && at + seen < end && (at[seen] & 0xc0) == 0x80)
            seen++;
    }
    *width = seen;
    return seen == sequence.width;
}

/* Many bytes at a time: nearly all text is nearly all ASCII. */
static const uint8_t *skip_ascii(const uint8_t *at, const uint8_t *end)
{
    uint64_t words[4];

    while (end - at >= (ptrdiff_t)sizeof(words)) {
        memcpy(words, at, sizeof(words));
        if ((words[0] | words[1] | words[2] | words[3]) & UINT64_C(0x8080808080808080))
            break;
        at += sizeof(words);
    }
    while (at < end && *at < 0x80)
        at++;
    return at;
}

size_t base_utf8_valid_length(const char *text, size_t length)
{
    const uint8_t *start = (const uint8_t *)text, *end = start + length, *at = start;
    size_t width;

    while (at < end) {
        if (*at < 0x80) {
            at = skip_ascii(at, end);
            continue;
        }
        if (!measure(at, end, &width))
            break;
        at += width;
    }
    return (size_t)(at - start);
}

size_t base_utf8_next(const char *bytes, size_t length, uint32_t *character)
{
    const uint8_t *at = (const uint8_t *)bytes;
    size_t width;
    unsigned read;
    *character = measure(at, at + length, &width) ? base_utf8_read(at, &read) : BASE_UTF8_INVALID;
    return width;
}

void base_utf8_cut(char *to, size_t room, const char *from, size_t size)
{
    if (size > room - 1) {
        size = room - 1;
        while (size > 0 && ((unsigned char)from[size] & 0xC0) == 0x80)
            size--;
    }
    memcpy(to, from, size);
    to[size] = '\0';
}

char *base_utf8_repair(const char *text, size_t length, size_t *repaired_length)
{
    size_t done = 0, written = 0, width;
    char *copy;

    /* A broken byte grows to three; more than that cannot happen. */
    if (length > SIZE_MAX / REPLACEMENT_LENGTH)
        return NULL;
    copy = base_malloc(length * REPLACEMENT_LENGTH);
    if (!copy)
        return NULL;
    while (done < length) {
        size_t valid = base_utf8_valid_length(text + done, length - done);

        memcpy(copy + written, text + done, valid);
        written += valid;
        done += valid;
        if (done == length)
            break;
        (void)measure((const uint8_t *)text + done, (const uint8_t *)text + length, &width);
        memcpy(copy + written, replacement, REPLACEMENT_LENGTH);
        written += REPLACEMENT_LENGTH;
        done += width;
    }
    *repaired_length = written;
    return copy;
}
