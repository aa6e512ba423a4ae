/* SPDX-License-Identifier: Apache-2.0 */
/* prospect.h - whether a parked handoff would be delivered if it were replayed now. One thread. */
#ifndef CTL_PROSPECT_H
#define CTL_PROSPECT_H

#include <stdio.h>

#include "ctl/command_line.h"

/* Prints "cannot be delivered now: ID: code: detail" for each obstacle. `to`: the other agent, or
 * NULL. Returns the exit code: CTL_OK if there was an answer. */
int ctl_put_obstacles(const struct ctl_line *line, FILE *out, const char *id, const char *to);

#endif
