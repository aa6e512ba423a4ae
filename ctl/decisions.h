/* SPDX-License-Identifier: Apache-2.0 */
/* decisions.h - tables of decisions. One thread. */
#ifndef CTL_DECISIONS_H
#define CTL_DECISIONS_H

#include <yyjson.h>

#include "ctl/command_line.h"

/* {"items": [decisions], "next"} as a table, and how to list more. */
void ctl_show_decisions(const struct ctl_line *line, yyjson_val *list);

#endif
