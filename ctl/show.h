/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show.h - answers of the API for people to read. Texts come from agents and senders, so control
 * characters, and characters that change the direction of writing, never reach the terminal.
 */
#ifndef CTL_SHOW_H
#define CTL_SHOW_H

#include <stdbool.h>
#include <stdio.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/api.h"

/* The text under the key, or "". */
const char *ctl_text(yyjson_val *object, const char *key);
/* The state of a handoff; NONE where this program does not know it. */
enum handoff_state ctl_state(yyjson_val *handoff);
/* The number under the key, or 0. */
double ctl_number(yyjson_val *object, const char *key);

/* Writes a text with control characters as '?', padded to `width` columns (0: unpadded). */
void ctl_put(FILE *out, const char *text, int width);
/* The same on a line of stdout, behind what is ours. */
void ctl_put_line(const char *before, const char *text);
/* A text of several lines, on stdout; its line feeds and tabs stay. */
void ctl_put_lines(const char *text);

/* Prints the answer unchanged if `json`, else through `show`; prints nothing for an empty one. */
int ctl_show(const struct ctl_answer *answer, bool json, void (*show)(yyjson_val *root));

/* "parked (exhausted)" */
void ctl_put_state(FILE *out, yyjson_val *handoff, int width);
/* The details of one handoff, one per line. */
void ctl_show_handoff(yyjson_val *handoff);
/* One line: id, state, source, target, task. */
void ctl_show_handoff_line(yyjson_val *handoff);
/* A table of the attempts in {"items": [...]}. */
void ctl_show_attempts(yyjson_val *list);
/* If {"next": ...} is set: how to list more. */
void ctl_show_next(yyjson_val *list);

#endif
