/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - tables of handoffs. One thread. */
#ifndef CTL_LIST_H
#define CTL_LIST_H

#include <yyjson.h>

#include "ctl/command_line.h"

/* {"items": [handoffs], "next"} as a table, and how to list more. */
void ctl_show_handoffs(const struct ctl_line *line, yyjson_val *list);

#endif
