/* SPDX-License-Identifier: Apache-2.0 */
/* The only HTML escaper of our pages. Pure, apart from the stream that it writes to. */
#include "exporter/status/html.h"

void exporter_html_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}
