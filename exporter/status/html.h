/* SPDX-License-Identifier: Apache-2.0 */
/* html.h - text into HTML, escaped, whatever it is. */
#ifndef EXPORTER_STATUS_HTML_H
#define EXPORTER_STATUS_HTML_H

#include <stdio.h>

/* Writes text so that it is text both between tags and within a quoted attribute. */
void exporter_html_text(FILE *out, const char *text);

/* Writes text as the value of a parameter of a URL: escaped, and safe in an attribute too. */
void exporter_html_url_value(FILE *out, const char *text);

#endif
