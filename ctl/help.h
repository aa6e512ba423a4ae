/* SPDX-License-Identifier: Apache-2.0 */
/* help.h - the help of handoffctl, written from the table of commands. One thread. */
#ifndef CTL_HELP_H
#define CTL_HELP_H

#include <stdio.h>

#include "ctl/command.h"

void ctl_help_overview(FILE *out);
/* The commands of a group, such as "parked". */
void ctl_help_group(FILE *out, const char *group);
void ctl_help_command(FILE *out, const struct ctl_command *command);

/* "usage: handoffctl parked show ID [OPTION ...]" and a line feed. */
void ctl_help_usage(FILE *out, const struct ctl_command *command);
/* " ID [OPTION ...]", or "". */
void ctl_help_synopsis(FILE *out, const struct ctl_command *command);
/* The sentence about exit codes; "" where there is nothing to say. */
const char *ctl_help_exits(const struct ctl_command *command);

#endif
