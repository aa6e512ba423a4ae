/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - handoffs and attempts of the API's answers, for people to read. One thread. */
#ifndef CTL_SHOW_H
#define CTL_SHOW_H

#include <stdbool.h>
#include <stdio.h>
#include <yyjson.h>

#include "client/handoff.h"
#include "ctl/command_line.h"
#include "ctl/terminal.h"

/* The text under the key, or "". */
const char *ctl_text(yyjson_val *object, const char *key);
/* The state of a handoff; NONE where this program does not know it. */
enum handoff_state ctl_state(yyjson_val *handoff);
/* The number under the key, or 0. */
double ctl_number(yyjson_val *object, const char *key);

/* How many memories its receiver works without. */
size_t ctl_open_gaps(yyjson_val *handoff);

/* "parked (exhausted)" */
void ctl_put_state(FILE *out, yyjson_val *handoff, int width);
/* How a state is coloured. */
enum ctl_tone ctl_tone_of_state(yyjson_val *handoff);
/* The details of one handoff, one per line. */
void ctl_show_handoff(const struct ctl_line *line, yyjson_val *handoff);
/* One line: id, state, source, target, task. */
void ctl_show_handoff_line(const struct ctl_line *line, yyjson_val *handoff);
/* A table of the attempts in {"items": [...]}. */
void ctl_show_attempts(const struct ctl_line *line, yyjson_val *list);
/* If {"next": ...} is set: how to list more. */
void ctl_show_next(yyjson_val *list);

#endif
