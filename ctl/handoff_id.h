/* SPDX-License-Identifier: Apache-2.0 */
/* handoff_id.h - the id of a handoff from its beginning. One thread. */
#ifndef CTL_HANDOFF_ID_H
#define CTL_HANDOFF_ID_H

#include "ctl/command_line.h"

/* The whole id of the one handoff whose id begins with `text`; free() it. What is no beginning of
 * an id is taken as it is, for the sidecar to judge. NULL with *code set, after reporting that none
 * or several begin so. */
char *ctl_whole_id(const struct ctl_line *line, const char *text, int *code);
/* The same for all options that name a handoff. Returns the exit code. */
int ctl_whole_ids_of_options(struct ctl_line *line);

#endif
