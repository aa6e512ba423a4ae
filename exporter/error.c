/* SPDX-License-Identifier: Apache-2.0 */
/* Filling an error with text, and taming text from outside. */
#include "exporter/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "exporter/utf8.h"

void exporter_error_set(struct exporter_error *error, const char *format, ...)
{
    va_list arguments;

    if (error == NULL) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
}

/* Control characters of ASCII and of Latin-1 (some terminals obey the latter too), and what is not
 * UTF-8 at all. */
static bool is_printable(uint32_t character)
{
    return character != EXPORTER_UTF8_INVALID && character >= 0x20 &&
           !(character >= 0x7F && character < 0xA0);
}

/* The longest form of one character: a Latin-1 control character as two "\\xNN". */
enum { ESCAPED_MAX = 8 };

static char *put_escaped(char *out, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        out += snprintf(out, 5, "\\x%02X", (unsigned char)bytes[i]);
    }
    return out;
}

const char *exporter_error_quote(struct exporter_quoted *quoted, const char *bytes, size_t length)
{
    static const char cut[] = "...\"";
    char *out = quoted->text;
    char *const limit = quoted->text + sizeof(quoted->text) - sizeof(cut) - ESCAPED_MAX;
    size_t at = 0;

    *out++ = '"';
    while (at < length && out < limit) {
        uint32_t character;
        size_t size = exporter_utf8_next(bytes + at, length - at, &character);
        if (!is_printable(character)) {
            out = put_escaped(out, bytes + at, size);
        } else {
            if (character == '"' || character == '\\') {
                *out++ = '\\';
            }
            memcpy(out, bytes + at, size);
            out += size;
        }
        at += size;
    }
    memcpy(out, at < length ? cut : "\"", at < length ? sizeof(cut) : sizeof("\""));
    return quoted->text;
}
