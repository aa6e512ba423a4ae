/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show.h - answers of the API as a person reads them. Texts come from agents and from whoever sent
 * the work, so control characters, and those that turn the direction of writing, never reach the
 * terminal.
 */
#ifndef CTL_SHOW_H
#define CTL_SHOW_H

#include <stdbool.h>
#include <stdio.h>
#include <yyjson.h>

#include "ctl/api.h"

/* The text under the key, "" where there is none. */
const char *ctl_text(yyjson_val *object, const char *key);
/* The number under the key, 0 where there is none. */
double ctl_number(yyjson_val *object, const char *key);

/* Writes a text with what is no character of a line as '?', padded to `width` columns (0: not). */
void ctl_put(FILE *out, const char *text, int width);

/* Prints the answer as it came, with json, else through `show`; an empty one not at all. */
int ctl_show(const struct ctl_answer *answer, bool json, void (*show)(yyjson_val *root));

/* "parked (exhausted)" */
void ctl_put_state(FILE *out, yyjson_val *handoff, int width);
/* All that is known of one handoff, a line for each. */
void ctl_show_handoff(yyjson_val *handoff);
/* One line of it: id, state, source, target, task. */
void ctl_show_handoff_line(yyjson_val *handoff);
/* A table of the attempts in {"items": [...]}. */
void ctl_show_attempts(yyjson_val *list);
/* Where {"next": ...} says that there is more. */
void ctl_show_next(yyjson_val *list);

#endif
