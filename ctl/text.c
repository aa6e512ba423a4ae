/* SPDX-License-Identifier: Apache-2.0 */
/* Text of others for terminals; see text.h. One thread. */
#include "ctl/text.h"

#include <stdlib.h>
#include <string.h>
#include <uniwidth.h>

#include "ctl/terminal.h"
#include "lib/base/utf8.h"

/* Controls of ASCII and of Latin-1, which some terminals obey too; Unicode's Bidi_Control, which
 * make a text look like another; what YAML does not allow, or takes for the end of a line. */
bool ctl_is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF ||
           c >= BASE_UTF8_INVALID || c == 0xFFFE || c == 0xFFFF;
}

static int columns_of(uint32_t character)
{
    const int width = uc_width(character, "UTF-8");
    return width > 0 ? width : 0;
}

/* The next character, as it may be shown, and where the one after it begins. */
static const char *next_shown(const char *at, uint32_t *character)
{
    at += base_utf8_next(at, strlen(at) < 4 ? strlen(at) : 4, character);
    if (ctl_is_unsafe(*character))
        *character = '?';
    return at;
}

static void put_safe_character(FILE *out, const char *from, const char *to, uint32_t shown)
{
    if (shown == '?')
        putc('?', out);
    else
        fwrite(from, 1, (size_t)(to - from), out);
}

void ctl_put(FILE *out, const char *text, int width)
{
    int columns = 0;
    while (*text) {
        uint32_t character;
        const char *next = next_shown(text, &character);
        put_safe_character(out, text, next, character);
        columns += columns_of(character);
        text = next;
    }
    for (; columns < width; columns++)
        putc(' ', out);
}

void ctl_put_line(const char *before, const char *text)
{
    fputs(before, stdout);
    ctl_put(stdout, text, 0);
    putchar('\n');
}

void ctl_put_lines(const char *text)
{
    while (*text) {
        uint32_t character;
        const char *next = next_shown(text, &character);
        if (*text == '\n' || *text == '\t')
            putchar(*text);
        else
            put_safe_character(stdout, text, next, character);
        text = next;
    }
}

/* Outside of its strings a JSON document has no such character but line feeds. */
static void put_json_safely(const char *text, size_t size)
{
    while (size > 0) {
        uint32_t character;
        const size_t length = base_utf8_next(text, size, &character);
        if (character != '\n' && ctl_is_unsafe(character))
            printf("\\u%04x", character >= BASE_UTF8_INVALID ? 0xFFFDu : character);
        else
            fwrite(text, 1, length, stdout);
        text += length;
        size -= length;
    }
}

void ctl_put_document(const char *text, size_t size, bool json)
{
    if (!ctl_on_terminal(stdout))
        fwrite(text, 1, size, stdout);
    else if (json)
        put_json_safely(text, size);
    else if (size > 0)
        ctl_put_lines(text);
}

char *ctl_clean(const char *text)
{
    char *clean = malloc(strlen(text) + 1), *to = clean;
    while (clean && *text) {
        uint32_t character;
        const char *next = next_shown(text, &character);
        const bool blank = strchr(" \t\r\n", *text) != NULL;
        if (blank && to > clean && to[-1] != ' ')
            *to++ = ' ';
        else if (!blank && character == '?')
            *to++ = '?';
        else if (!blank)
            to = mempcpy(to, text, (size_t)(next - text));
        text = next;
    }
    if (clean)
        *to = '\0';
    return clean;
}

size_t ctl_width(const char *text)
{
    size_t columns = 0;
    while (*text) {
        uint32_t character;
        text = next_shown(text, &character);
        columns += (size_t)columns_of(character);
    }
    return columns;
}

size_t ctl_fitting(const char *text, size_t columns)
{
    const char *at = text;
    while (*at) {
        uint32_t character;
        const char *next = next_shown(at, &character);
        if ((size_t)columns_of(character) > columns)
            break;
        columns -= (size_t)columns_of(character);
        at = next;
    }
    return (size_t)(at - text);
}
