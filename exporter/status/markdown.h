/* SPDX-License-Identifier: Apache-2.0 */
/*
 * markdown.h - our own pages as HTML: the part of Markdown that docs/runbooks uses.
 *
 * Headings of two levels, paragraphs, lists of one level, tables, fenced code; in a line, code and
 * links to other runbooks. What is none of these stays text, escaped, so a page can lose its form
 * but can never become markup.
 */
#ifndef EXPORTER_STATUS_MARKDOWN_H
#define EXPORTER_STATUS_MARKDOWN_H

#include <stdio.h>

/* A link to NAME.md becomes one to `base` and NAME; any other link is its text. */
void exporter_markdown_html(FILE *out, const char *text, const char *base);

#endif
