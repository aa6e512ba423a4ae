/* SPDX-License-Identifier: Apache-2.0 */
/* task.h - a task with all its handoffs. One thread. */
#ifndef CTL_TASK_H
#define CTL_TASK_H

#include <yyjson.h>

#include "ctl/command_line.h"

/* {"items": [the handoffs, each with previous_id, hop, removed and passed_over], "next": null,
 * "task": as it came}. NULL with *code set, after the reason was reported. The caller frees it. */
yyjson_mut_doc *ctl_fetch_task(const struct ctl_line *line, const char *id, int *code);
/* The same as a tree. */
void ctl_show_task(const struct ctl_line *line, yyjson_val *list);

#endif
