/* SPDX-License-Identifier: Apache-2.0 */
/* The only HTML escaper of our pages. Pure, apart from the stream that it writes to. */
#include "exporter/status/html.h"

#include <string.h>

static const char *html_reference(char character)
{
    switch (character) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    default:
        return "&#39;";
    }
}

void exporter_html_text(FILE *out, const char *text)
{
    while (*text != '\0') {
        const size_t plain = strcspn(text, "&<>\"'");
        fwrite(text, 1, plain, out);
        text += plain;
        if (*text != '\0')
            fputs(html_reference(*text++), out);
    }
}

void exporter_html_url_value(FILE *out, const char *text)
{
    static const char unreserved[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (; *text != '\0'; text++) {
        if (strchr(unreserved, *text) != NULL)
            fputc(*text, out);
        else
            fprintf(out, "%%%02X", (unsigned)(unsigned char)*text);
    }
}
