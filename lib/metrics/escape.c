/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 and escaping as escape.h describes them. Pure, any thread. */
#include "lib/metrics/escape.h"

#include <stdint.h>
#include <string.h>

static bool is_continuation_byte(unsigned char byte)
{
    return (byte & 0xc0u) == 0x80u;
}

/* The length of the code point at `s` (n > 0 bytes remain), 0 if it is not valid: the table
 * "Well-Formed UTF-8 Byte Sequences" of the Unicode standard (3-7). */
static size_t utf8_sequence_length(const unsigned char *s, size_t n)
{
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        return n >= 2 && is_continuation_byte(s[1]) ? 2 : 0;
    if (s[0] >= 0xe0 && s[0] <= 0xef) {
        unsigned char low = s[0] == 0xe0 ? 0xa0 : 0x80;  /* no overlong forms */
        unsigned char high = s[0] == 0xed ? 0x9f : 0xbf; /* no surrogates */
        return n >= 3 && s[1] >= low && s[1] <= high && is_continuation_byte(s[2]) ? 3 : 0;
    }
    if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        unsigned char low = s[0] == 0xf0 ? 0x90 : 0x80;
        unsigned char high = s[0] == 0xf4 ? 0x8f : 0xbf; /* nothing above U+10FFFF */
        return n >= 4 && s[1] >= low && s[1] <= high && is_continuation_byte(s[2]) &&
                       is_continuation_byte(s[3])
                   ? 4
                   : 0;
    }
    return 0;
}

static char *escape_ascii(char *out, char c, enum metric_quoting quoting)
{
    if (quoting != METRIC_BARE) {
        if (c == '\\' || (c == '"' && quoting == METRIC_QUOTED)) {
            *out++ = '\\';
        } else if (c == '\n') {
            *out++ = '\\';
            c = 'n';
        }
    }
    *out++ = c;
    return out;
}

char *metric_escape(char *out, const char *in, size_t n, enum metric_quoting quoting)
{
    while (n > 0) {
        size_t length = utf8_sequence_length((const unsigned char *)in, n);
        if (length == 1) {
            out = escape_ascii(out, *in, quoting);
        } else if (length == 0) {
            *out++ = '\xef'; /* U+FFFD */
            *out++ = '\xbf';
            *out++ = '\xbd';
            length = 1;
        } else {
            memcpy(out, in, length);
            out += length;
        }
        in += length;
        n -= length;
    }
    return out;
}

bool metric_utf8_valid(const char *text, size_t n)
{
    while (n > 0) {
        size_t length = utf8_sequence_length((const unsigned char *)text, n);
        if (length == 0)
            return false;
        text += length;
        n -= length;
    }
    return true;
}

size_t metric_utf8_count(const char *text, size_t n)
{
    size_t count = 0;
    for (; n > 0; count++) {
        size_t length = utf8_sequence_length((const unsigned char *)text, n);
        length += length == 0;
        text += length;
        n -= length;
    }
    return count;
}
