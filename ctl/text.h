/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - text of agents and senders, for terminals. Control characters, and characters that
 * change the direction of writing, are commands to a terminal; none of them reaches one.
 *
 * Pure, but for what is printed.
 */
#ifndef CTL_TEXT_H
#define CTL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes a text with such characters as '?', padded to `width` columns (0: unpadded). */
void ctl_put(FILE *out, const char *text, int width);
/* The same on a line of stdout, behind what is ours. */
void ctl_put_line(const char *before, const char *text);
/* A text of several lines, on stdout; its line feeds and tabs stay. */
void ctl_put_lines(const char *text);
/* A document for programs, on stdout: unchanged, unless it goes to a terminal. In a JSON document
 * such characters are then escaped, in any other they are '?'. */
void ctl_put_document(const char *text, size_t size, bool json);

/* Whether a terminal, or a reader of YAML, takes this character for more than text. */
bool ctl_is_unsafe(uint32_t character);
/* A copy in one line that is safe to print: white space is one blank. free() it; NULL: no memory.
 */
char *ctl_clean(const char *text);
/* How many columns a safe text takes. */
size_t ctl_width(const char *text);
/* How many bytes of a safe text fit into so many columns. */
size_t ctl_fitting(const char *text, size_t columns);

#endif
