/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - waiting until a handoff is settled. One thread. */
#ifndef CTL_FOLLOW_H
#define CTL_FOLLOW_H

#include "ctl/command_line.h"

/* Waits, shows the handoff, and answers the exit code: CTL_FAILED unless it was acknowledged. On a
 * terminal, a line on stderr follows the attempts. */
int ctl_follow(const struct ctl_line *line, const char *id);
/* The same, showing nothing on stdout. */
int ctl_follow_canary(const struct ctl_line *line, const char *id);

#endif
