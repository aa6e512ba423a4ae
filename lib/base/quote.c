/* SPDX-License-Identifier: Apache-2.0 */
/* Text from outside in quotes, without what could break a line or command a terminal. On any
 * thread. */
#include "lib/base/quote.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"

/* Control characters of ASCII and of Latin-1 (some terminals obey the latter too), and what is not
 * UTF-8 at all, are not. */
static bool is_printable(uint32_t character)
{
    return character != BASE_UTF8_INVALID && character >= 0x20 &&
           !(character >= 0x7F && character < 0xA0);
}

/* The longest form of one step: three bytes that begin a character of four and are cut there. */
enum { ESCAPED_MAX = 12 };

static char *put_escaped(char *out, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        out += snprintf(out, 5, "\\x%02X", (unsigned char)bytes[i]);
    return out;
}

const char *base_quote(struct base_quoted *quoted, const char *bytes, size_t length)
{
    static const char cut[] = "...\"";
    char *out = quoted->text;
    char *const limit = quoted->text + sizeof(quoted->text) - sizeof(cut) - ESCAPED_MAX;
    size_t at = 0;

    *out++ = '"';
    while (at < length && out < limit) {
        uint32_t character;
        size_t size = base_utf8_next(bytes + at, length - at, &character);
        if (!is_printable(character)) {
            out = put_escaped(out, bytes + at, size);
        } else {
            if (character == '"' || character == '\\')
                *out++ = '\\';
            memcpy(out, bytes + at, size);
            out += size;
        }
        at += size;
    }
    memcpy(out, at < length ? cut : "\"", at < length ? sizeof(cut) : sizeof("\""));
    return quoted->text;
}
